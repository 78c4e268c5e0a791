"""The operators torch.ops.sparge.*: schemas, fake kernels, CUDA kernels, autograd.

Everything is functional, shapes of outputs follow from shapes of inputs alone, and nothing waits for the device: what
torch.compile(fullgraph=True) and CUDA graphs need. `blocks` is (q_block, kv_block) in tokens; `scale` 0 is 1 / sqrt(head_dim).
"""

import torch

from . import kernels, shapes

RULE = "float top_k, float top_p, Tensor? top_k_of_head, Tensor? top_p_of_head, int min_blocks, int[] keep"
HOW = "int[] blocks, float scale, str layout"

library = torch.library.Library("sparge", "DEF")
library.define(f"build_mask(Tensor q, Tensor k, {RULE}, {HOW}) -> Tensor")
library.define(f"mask_stats(Tensor q, Tensor k, Tensor mask, {RULE}, {HOW}) -> Tensor")
library.define(f"attention(Tensor q, Tensor k, Tensor v, Tensor mask, {HOW}) -> (Tensor out, Tensor lse)")
library.define(f"sparse_attention(Tensor q, Tensor k, Tensor v, {RULE}, {HOW}) -> Tensor")
library.define("attention_backward(Tensor? grad_out, Tensor? grad_lse, Tensor q, Tensor k, Tensor v, Tensor out, Tensor lse, "
               f"Tensor mask, {HOW}) -> (Tensor grad_q, Tensor grad_k, Tensor grad_v)")
library.define("distillation_loss(Tensor student, Tensor teacher, Tensor? weights) -> Tensor")
library.define("distillation_loss_backward(Tensor grad_loss, Tensor student, Tensor teacher, Tensor? weights) -> Tensor")

NAMES = ("build_mask", "mask_stats", "attention", "sparse_attention", "attention_backward", "distillation_loss",
         "distillation_loss_backward")
for name in NAMES:
    library.impl(name, getattr(kernels, name), "CUDA")


# ---- Fake kernels: shapes, types and strides of the outputs -----------------------------------------------------------


def fake(function):
    torch.library.register_fake("sparge::" + function.__name__.removeprefix("fake_"), function, lib=library)
    return function


@fake
def fake_build_mask(q, k, top_k, top_p, top_k_of_head, top_p_of_head, min_blocks, keep, blocks, scale, layout):
    shapes.check_qk(q, k, layout)
    return q.new_empty(shapes.mask_shape(q.shape, k.shape, blocks, layout), dtype=torch.int32)


@fake
def fake_mask_stats(q, k, mask, top_k, top_p, top_k_of_head, top_p_of_head, min_blocks, keep, blocks, scale, layout):
    shapes.check_qk(q, k, layout)
    shapes.check_mask(mask, q, k, blocks, layout)
    return q.new_empty((mask.shape[0], mask.shape[1], 7), dtype=torch.int64)


@fake
def fake_attention(q, k, v, mask, blocks, scale, layout):
    shapes.check_qkv(q, k, v, layout)
    shapes.check_mask(mask, q, k, blocks, layout)
    return shapes.like(q), q.new_empty(shapes.logical(q.shape, layout)[:3], dtype=torch.float32)


@fake
def fake_sparse_attention(q, k, v, top_k, top_p, top_k_of_head, top_p_of_head, min_blocks, keep, blocks, scale, layout):
    shapes.check_qkv(q, k, v, layout)
    return shapes.like(q)


@fake
def fake_attention_backward(grad_out, grad_lse, q, k, v, out, lse, mask, blocks, scale, layout):
    return shapes.like(q), shapes.like(k), shapes.like(v)


@fake
def fake_distillation_loss(student, teacher, weights):
    return student.new_empty((), dtype=torch.float32)


@fake
def fake_distillation_loss_backward(grad_loss, student, teacher, weights):
    return torch.empty_like(student)


# ---- Autograd ---------------------------------------------------------------------------------------------------------
#
# Kernels of the Autograd key, as torch.library.register_autograd() would make them, but for its bookkeeping of arguments, which
# takes longer than the rest of the operator. below() runs an operator without autograd. Masks and stats are integers, through
# which no gradient goes.

after_autograd = torch._C._after_autograd_keyset
below_autograd = torch._C._AutoDispatchBelowAutograd


def below(operator, keyset, *arguments):
    with below_autograd():
        return operator.redispatch(keyset & after_autograd, *arguments)


class Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, keyset, q, k, v, mask, blocks, scale, layout):
        out, lse = below(torch.ops.sparge.attention.default, keyset, q, k, v, mask, blocks, scale, layout)
        ctx.save_for_backward(q, k, v, out, lse, mask)
        ctx.how = blocks, scale, layout
        ctx.set_materialize_grads(False)
        return out, lse

    @staticmethod
    def backward(ctx, grad_out, grad_lse):
        grads = torch.ops.sparge.attention_backward.default(grad_out, grad_lse, *ctx.saved_tensors, *ctx.how)
        return None, *grads, None, None, None, None


def differentiable_attention(keyset, q, k, v, mask, blocks, scale, layout):
    if torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad):
        return Attention.apply(keyset, q, k, v, mask, blocks, scale, layout)
    return below(torch.ops.sparge.attention.default, keyset, q, k, v, mask, blocks, scale, layout)


def differentiable_sparse_attention(keyset, q, k, v, *rule_and_how):
    """Where gradients are wanted, of the two operators: backward needs the mask and lse."""
    if torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad):
        rule, how = rule_and_how[:-3], rule_and_how[-3:]
        mask = torch.ops.sparge.build_mask.default(q, k, *rule, *how)
        return torch.ops.sparge.attention.default(q, k, v, mask, *how)[0]
    return below(torch.ops.sparge.sparse_attention.default, keyset, q, k, v, *rule_and_how)


class DistillationLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx, keyset, student, teacher, weights):
        ctx.save_for_backward(student, teacher, weights)
        return below(torch.ops.sparge.distillation_loss.default, keyset, student, teacher, weights)

    @staticmethod
    def backward(ctx, grad_loss):
        grad = torch.ops.sparge.distillation_loss_backward.default(grad_loss, *ctx.saved_tensors)
        return None, grad, None, None


def differentiable_distillation_loss(keyset, student, teacher, weights):
    if torch.is_grad_enabled() and teacher.requires_grad:
        raise ValueError("teacher.requires_grad is True; no gradient goes to the teacher: pass teacher.detach()")
    if torch.is_grad_enabled() and student.requires_grad:
        return DistillationLoss.apply(keyset, student, teacher, weights)
    return below(torch.ops.sparge.distillation_loss.default, keyset, student, teacher, weights)


def without_second_derivative(operator):
    """Gradients have no gradient: refused where one is asked for, instead of being taken for constants."""
    def run(keyset, *arguments):
        if torch.is_grad_enabled() and any(isinstance(x, torch.Tensor) and x.requires_grad for x in arguments):
            raise NotImplementedError(f"{operator} has no second derivative: call backward() or grad() without create_graph=True")
        return below(operator, keyset, *arguments)
    return run


library.impl("attention", differentiable_attention, "Autograd", with_keyset=True)
library.impl("sparse_attention", differentiable_sparse_attention, "Autograd", with_keyset=True)
library.impl("distillation_loss", differentiable_distillation_loss, "Autograd", with_keyset=True)
for name in ("attention_backward", "distillation_loss_backward"):
    library.impl(name, without_second_derivative(getattr(torch.ops.sparge, name).default), "Autograd", with_keyset=True)
