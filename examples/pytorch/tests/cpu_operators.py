"""The operators on CPU tensors, by the reference. They exist in these tests alone: schemas, fake kernels, autograd,
compilation, checkpointing and the processor are the package's own and are tested without a GPU through them. The package itself
has no CPU kernels."""

import torch

import reference
import sparge_torch.operators  # noqa: F401, defines the operators
from sparge_torch import pack_blocks, shapes

AXES = {"bhnd": lambda x: x, "bnhd": lambda x: x.transpose(1, 2)}


def shares(number, of_head):
    return number if of_head is None else of_head


def build_mask(q, k, top_k, top_p, top_k_of_head, top_p_of_head, min_blocks, keep, blocks, scale, layout):
    q, k = AXES[layout](q), AXES[layout](k)
    both = shares(top_k, top_k_of_head), shares(top_p, top_p_of_head)
    return pack_blocks(reference.rule(q, k, *both, min_blocks, keep, blocks, scale))


def mask_stats(q, k, mask, top_k, top_p, top_k_of_head, top_p_of_head, min_blocks, keep, blocks, scale, layout):
    q, k = AXES[layout](q), AXES[layout](k)
    kept = reference.keep_of(mask, k, blocks[1])
    nothing = [-1, 0, 0, 0, 0]
    by_k = reference.rule(q, k, shares(top_k, top_k_of_head), 0.0, min_blocks, nothing, blocks, scale)
    by_p = reference.rule(q, k, 0.0, shares(top_p, top_p_of_head), 0, nothing, blocks, scale)
    mass = (torch.softmax(reference.block_scores(q, k, blocks, scale), -1) * kept).sum(-1).mean(-1)
    pairs = torch.ones_like(kept), by_k & by_p, by_k & ~by_p, by_p & ~by_k, kept & ~by_k & ~by_p
    counts = [kept.sum((2, 3)), *(x.sum((2, 3)) for x in pairs)]
    return torch.stack([*counts, mass.view(torch.int64)], -1)


def attention(q, k, v, mask, blocks, scale, layout):
    q_, k_, v_ = (AXES[layout](x) for x in (q, k, v))
    out, lse = reference.attention(q_, k_, v_, reference.keep_of(mask, k_, blocks[1]), blocks, scale)
    return shapes.like(q).copy_(AXES[layout](out)), lse.float().contiguous()


def sparse_attention(q, k, v, top_k, top_p, top_k_of_head, top_p_of_head, min_blocks, keep, blocks, scale, layout):
    mask = build_mask(q, k, top_k, top_p, top_k_of_head, top_p_of_head, min_blocks, keep, blocks, scale, layout)
    return attention(q, k, v, mask, blocks, scale, layout)[0]


def attention_backward(grad_out, grad_lse, q, k, v, out, lse, mask, blocks, scale, layout):
    grad_out = torch.zeros_like(out) if grad_out is None else grad_out
    views = [AXES[layout](x) for x in (q, k, v, out, grad_out)]
    q_, k_, v_, out_, grad_out_ = views
    grads = reference.gradients(grad_out_, grad_lse, q_, k_, v_, out_, lse, reference.keep_of(mask, k_, blocks[1]), blocks, scale)
    return tuple(shapes.like(x).copy_(AXES[layout](grad)) for x, grad in zip((q, k, v), grads, strict=True))


def distillation_loss(student, teacher, weights):
    squares = (student.double() - teacher.double()).square()
    if weights is not None:
        squares = squares * weights.double().reshape(-1, *[1] * (student.dim() - 1))
    return squares.mean().float()


def distillation_loss_backward(grad_loss, student, teacher, weights):
    grad = 2 * grad_loss.double() / student.numel() * (student.double() - teacher.double())
    if weights is not None:
        grad = grad * weights.double().reshape(-1, *[1] * (student.dim() - 1))
    return grad.to(student.dtype)


library = torch.library.Library("sparge", "IMPL")
for kernel in (build_mask, mask_stats, attention, sparse_attention, attention_backward, distillation_loss,
               distillation_loss_backward):
    library.impl(kernel.__name__, kernel, "CPU")
