"""Velocity distillation: a student with sparse attention learns what a frozen teacher with full attention predicts."""

import torch

from . import operators  # noqa: F401, registers the operators


def distillation_loss(student, teacher, weights=None):
    """Mean over all elements of weights[sample] * (student - teacher)^2, an f32 scalar; differentiable by the student.

    student, teacher: [samples, ...] of one shape, in bf16, f16 or f32; made contiguous where they are not. weights: f32
    [samples], None for ones. The gradient is computed in f32 from both tensors, with the scale of whatever stands behind the
    loss, and rounded once."""
    if student.dim() == 0 or student.shape != teacher.shape:
        raise ValueError(f"teacher.shape is {tuple(teacher.shape)} and student.shape {tuple(student.shape)}; they must be the "
                         "same, [samples, ...]")
    if student.dtype != teacher.dtype or student.device != teacher.device:
        raise TypeError(f"teacher is {teacher.dtype} on {teacher.device}, student {student.dtype} on {student.device}; cast the "
                        "teacher")
    if weights is None:
        return torch.ops.sparge.distillation_loss.default(student.contiguous(), teacher.contiguous(), None)
    if weights.dtype != torch.float32 or weights.shape != student.shape[:1] or weights.device != student.device:
        raise ValueError(f"weights is {weights.dtype} {tuple(weights.shape)} on {weights.device}; it must be torch.float32 "
                         f"({student.shape[0]},) on the device of student")
    return torch.ops.sparge.distillation_loss.default(student.contiguous(), teacher.contiguous(), weights.contiguous())
