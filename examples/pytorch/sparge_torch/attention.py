"""sparge_attention() and build_mask(): what most callers need."""

import torch
import torch.nn.functional as F

from . import operators  # noqa: F401, registers the operators
from . import shapes
from .blocks import dense_mask
from .rule import arguments
from .stats import MaskStats


def sparge_attention(q, k, v, *, top_k=None, top_p=None, keep=None, min_blocks=1, mask=None, return_lse=False, return_stats=False,
                     layout="bhnd", scale=None, q_block=128, kv_block=64, dense_below=0):
    """Attention over the key blocks that the rule keeps, or that `mask` keeps. Differentiable by q, k, v through out and lse.

    q: [batch, heads, tokens, head_dim]; k, v: [batch, kv_heads, kv_tokens, head_dim], where kv_heads divides heads.
    layout='bnhd' takes [batch, tokens, heads, head_dim]. bf16 or f16; any strides with unit stride of head_dim and rows of
    16-byte multiples: nothing is copied. Under autocast other types are cast to its type.

    top_k, top_p: shares in [0, 1], or f32 tensors [heads]; keep: a Keep, what stays whatever its score; see Rule.
    mask: words of build_mask() or pack_blocks(), used instead of the rule, which then counts in the stats alone.
    scale: of the logits; None is 1 / sqrt(head_dim). q_block, kv_block: tokens of a mask block.
    dense_below: with fewer keys than this many, attention is dense: torch's scaled_dot_product_attention, or, where lse or
    stats are asked for, the library's kernel with a mask of ones. MaskStats.dense says so. 0: never.

    Returns out, laid out as q; with return_lse and return_stats the tuple (out, lse, stats) of what was asked for. lse is f32
    [batch, heads, tokens] in both layouts; stats is a MaskStats.
    """
    if mask is None and top_k is None and top_p is None and keep is None:
        raise TypeError("top_k, top_p, keep and mask are all None, so nothing says which blocks to keep; the paper's model uses "
                        "top_k=0.03, top_p=0.2")
    rule = arguments(top_k, top_p, keep, min_blocks)
    q, k, v = autocast(q, k, v)
    scale = 0.0 if scale is None else float(scale)
    dense = dense_below > 0 and shapes.logical(k.shape, layout)[2] < dense_below
    if dense and not (return_lse or return_stats):
        return dense_attention(q, k, v, layout, scale)

    blocks = [q_block, kv_block]
    if dense:
        mask = dense_mask(q, k, q_block, kv_block, layout)
    elif mask is None:
        if not (return_lse or return_stats):
            return attention_of_rule(q, k, v, rule, blocks, scale, layout)
        mask = torch.ops.sparge.build_mask.default(q, k, *rule, blocks, scale, layout)
    out, lse = attention_of_mask(q, k, v, mask, blocks, scale, layout)
    if not (return_lse or return_stats):
        return out
    stats = (MaskStats.from_raw(raw_stats(q, k, mask, rule, blocks, scale, layout), dense),) if return_stats else ()
    return (out, lse, *stats) if return_lse else (out, *stats)


def build_mask(q, k, *, top_k=0.0, top_p=0.0, keep=None, min_blocks=1, layout="bhnd", scale=None, q_block=128, kv_block=64):
    """The mask of the rule, int32 [batch, heads, q_blocks, ceil(kv_blocks / 32)], to hand to sparge_attention(mask=...) as often as
    wanted. It is a constant: no gradient goes through it."""
    rule = arguments(top_k, top_p, keep, min_blocks)
    q, k = autocast(q, k)
    scale = 0.0 if scale is None else float(scale)
    return torch.ops.sparge.build_mask.default(q, k, *rule, [q_block, kv_block], scale, layout)


def mask_stats(q, k, mask, *, top_k=0.0, top_p=0.0, keep=None, min_blocks=1, layout="bhnd", scale=None, q_block=128, kv_block=64):
    """What `mask` keeps, and which part of the rule asks for it."""
    rule = arguments(top_k, top_p, keep, min_blocks)
    q, k = autocast(q, k)
    return MaskStats.from_raw(raw_stats(q, k, mask, rule, [q_block, kv_block], 0.0 if scale is None else float(scale), layout))


def attention_of_mask(q, k, v, mask, blocks, scale, layout):
    """(out, lse)."""
    if is_constant(q, k, v):
        with operators.below_autograd():
            return torch.ops.sparge.attention.default(q, k, v, mask, blocks, scale, layout)
    return torch.ops.sparge.attention.default(q, k, v, mask, blocks, scale, layout)


def attention_of_rule(q, k, v, rule, blocks, scale, layout):
    """out. Without gradients, and where no mode of torch's looks at operators, such as that of checkpoints, which keeps masks, it is
    one operator, else two, of the same kernels."""
    if is_constant(q, k, v) and not torch._C._len_torch_dispatch_stack():
        with operators.below_autograd():
            return torch.ops.sparge.sparse_attention.default(q, k, v, *rule, blocks, scale, layout)
    mask = torch.ops.sparge.build_mask.default(q, k, *rule, blocks, scale, layout)
    return attention_of_mask(q, k, v, mask, blocks, scale, layout)[0]


def is_constant(q, k, v):
    """Eager code that wants no gradient, so that the way through autograd, half of an operator's host time, can be left out."""
    if torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active():
        return False
    return not (torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad))


def raw_stats(q, k, mask, rule, blocks, scale, layout):
    return torch.ops.sparge.mask_stats.default(q, k, mask, *rule, blocks, scale, layout)


def dense_attention(q, k, v, layout="bhnd", scale=0.0):
    """torch's own attention over all keys, in either layout."""
    if shapes.axes(layout) != shapes.AXES["bhnd"]:
        return dense_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), "bhnd", scale).transpose(1, 2)
    return F.scaled_dot_product_attention(q, k, v, scale=scale or None, enable_gqa=q.shape[1] != k.shape[1])


def autocast(*tensors):
    """As torch's attention does under autocast: cast to its type."""
    kind = tensors[0].device.type
    if kind == "meta" or not torch.is_autocast_enabled(kind):
        return tensors
    dtype = torch.get_autocast_dtype(kind)
    return tuple(x.to(dtype) for x in tensors)
