"""The operators on CUDA tensors: addresses into a prepared call, nothing else."""

import ctypes

import torch

from . import calls, shapes
from .calls import describe


def build_mask(q, k, top_k, top_p, top_k_of_head, top_p_of_head, min_blocks, keep, blocks, scale, layout):
    call = calls.build_mask(describe(q), describe(k), (top_k, top_p, min_blocks, tuple(keep)), tuple(blocks), scale, layout)
    mask = torch.empty(call.mask_shape, dtype=torch.int32, device=q.device)
    arguments = call.arguments()
    arguments.q.data, arguments.k.data, arguments.mask.data = q.data_ptr(), k.data_ptr(), mask.data_ptr()
    rule = head_shares(arguments, call.keep_alive, call.mask_shape[1], top_k_of_head, top_p_of_head)  # noqa: F841, alive until the call is over
    call.run(arguments)
    return mask


def head_shares(arguments, rule, heads, top_k_of_head, top_p_of_head):
    """Points the arguments to a rule with shares of single heads, where there are any. The caller keeps that rule."""
    if top_k_of_head is None and top_p_of_head is None:
        return rule
    rule = calls.with_head_shares(rule, heads, top_k_of_head, top_p_of_head)
    arguments.rule = ctypes.pointer(rule)
    return rule


def attention(q, k, v, mask, blocks, scale, layout):
    call = calls.attention(describe(q), describe(k), describe(v), describe(mask), tuple(blocks), scale, layout)
    out, lse = shapes.like(q), torch.empty(call.lse_shape, dtype=torch.float32, device=q.device)
    arguments = call.arguments()
    arguments.q.data, arguments.k.data, arguments.v.data = q.data_ptr(), k.data_ptr(), v.data_ptr()
    arguments.mask.data, arguments.out.data, arguments.lse = mask.data_ptr(), out.data_ptr(), lse.data_ptr()
    call.run(arguments)
    return out, lse


def sparse_attention(q, k, v, top_k, top_p, top_k_of_head, top_p_of_head, min_blocks, keep, blocks, scale, layout):
    rule = top_k, top_p, min_blocks, tuple(keep)
    call = calls.sparse_attention(describe(q), describe(k), describe(v), rule, tuple(blocks), scale, layout)
    out = shapes.like(q)
    mask_arguments, arguments = call.of_mask.arguments(), call.of_attention.arguments()
    mask_arguments.q.data = arguments.q.data = q.data_ptr()
    mask_arguments.k.data = arguments.k.data = k.data_ptr()
    arguments.v.data, arguments.out.data = v.data_ptr(), out.data_ptr()
    rule = head_shares(mask_arguments, call.of_mask.keep_alive, call.of_mask.mask_shape[1], top_k_of_head, top_p_of_head)  # noqa: F841, as above
    call.run(mask_arguments, arguments)
    return out


def attention_backward(grad_out, grad_lse, q, k, v, out, lse, mask, blocks, scale, layout):
    grad_out = torch.zeros_like(out) if grad_out is None else readable(grad_out)
    grad_lse = None if grad_lse is None else readable(grad_lse.contiguous())
    inputs = grad_out, q, k, v, out, mask
    call = calls.attention_backward(*(describe(x) for x in inputs), tuple(blocks), scale, layout)
    grads = [shapes.like(x) for x in (q, k, v)]
    arguments = call.arguments()
    for field, x in zip(("grad_out", "q", "k", "v", "out", "mask", "grad_q", "grad_k", "grad_v"), (*inputs, *grads), strict=True):
        getattr(arguments, field).data = x.data_ptr()
    arguments.lse, arguments.grad_lse = lse.data_ptr(), None if grad_lse is None else grad_lse.data_ptr()
    call.run(arguments)
    return tuple(grads)


def readable(grad):
    """A gradient has whatever strides autograd gives it, such as zeros after sum(): a copy where the library could not read it."""
    size = grad.element_size()
    aligned = grad.data_ptr() % 16 == 0 and all(stride * size % 16 == 0 for stride in grad.stride()[:-1])
    if grad.dim() == 4 and not (aligned and grad.stride(-1) == 1) or grad.data_ptr() % 16 != 0:
        return grad.clone(memory_format=torch.contiguous_format)
    return grad


def mask_stats(q, k, mask, top_k, top_p, top_k_of_head, top_p_of_head, min_blocks, keep, blocks, scale, layout):
    blocks = tuple(blocks)
    rule = top_k, top_p, min_blocks, tuple(keep)
    call = calls.mask_stats(describe(q), describe(k), describe(mask), rule, blocks, scale, layout)
    pool = calls.pool(describe(q), describe(k), blocks, scale, layout)
    pooled_q, pooled_k = (torch.empty(shape, dtype=torch.float32, device=q.device) for shape in pool.pooled_shapes)
    arguments = pool.arguments()
    arguments.q.data, arguments.k.data = q.data_ptr(), k.data_ptr()
    arguments.pooled_q, arguments.pooled_k = pooled_q.data_ptr(), pooled_k.data_ptr()
    pool.run(arguments)

    stats = torch.empty((*mask.shape[:2], 7), dtype=torch.int64, device=q.device)
    arguments = call.arguments()
    arguments.pooled_q, arguments.pooled_k = pooled_q.data_ptr(), pooled_k.data_ptr()
    arguments.mask.data, arguments.stats = mask.data_ptr(), stats.data_ptr()
    rule = head_shares(arguments, call.keep_alive, mask.shape[1], top_k_of_head, top_p_of_head)  # noqa: F841, as above
    call.run(arguments)
    return stats


def distillation_loss(student, teacher, weights):
    loss = torch.empty((), dtype=torch.float32, device=student.device)
    run_distillation(student, teacher, weights, loss, None, None)
    return loss


def distillation_loss_backward(grad_loss, student, teacher, weights):
    """The gradient with the scale of grad_loss inside, so that it is rounded once; the loss of the same pass is dropped."""
    loss, grad = torch.empty((), dtype=torch.float32, device=student.device), torch.empty_like(student)
    run_distillation(student, teacher, weights, loss, grad_loss, grad)
    return grad


def run_distillation(student, teacher, weights, loss, grad_loss, grad):
    call = calls.distillation_loss(describe(student), student.get_device())
    arguments = call.arguments()
    arguments.student, arguments.teacher, arguments.loss = student.data_ptr(), teacher.data_ptr(), loss.data_ptr()
    for field, x in (("weights", weights), ("grad_loss", grad_loss), ("grad_student", grad)):
        setattr(arguments, field, None if x is None else x.data_ptr())
    call.run(arguments)
