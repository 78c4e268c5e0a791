"""Layouts, and the checks that need no library: what fake kernels and the real ones agree on."""

import torch

# Where (batch, head, token, channel) lie in a tensor of each layout.
AXES = {"bhnd": (0, 1, 2, 3), "bnhd": (0, 2, 1, 3)}


def axes(layout):
    if layout not in AXES:
        raise ValueError(f"layout is {layout!r}; it is 'bhnd' for [batch, heads, tokens, head_dim] or 'bnhd' for [batch, tokens, "
                         "heads, head_dim]")
    return AXES[layout]


def logical(shape, layout):
    """Sizes or strides of four axes in the order (batch, head, token, channel)."""
    a, b, c, d = axes(layout)
    return shape[a], shape[b], shape[c], shape[d]


def mask_shape(q_shape, k_shape, blocks, layout):
    """[batch, heads, q_blocks, words of 32 key blocks]."""
    batch, heads, q_tokens, _ = logical(q_shape, layout)
    kv_tokens = logical(k_shape, layout)[2]
    kv_blocks = (kv_tokens + blocks[1] - 1) // blocks[1]
    return batch, heads, (q_tokens + blocks[0] - 1) // blocks[0], (kv_blocks + 31) // 32


def check_element(name, x):
    if x.dtype not in (torch.bfloat16, torch.float16):
        raise TypeError(f"{name}.dtype is {x.dtype}; attention takes torch.bfloat16 and torch.float16: cast it, or call under "
                        "torch.autocast('cuda', torch.bfloat16)")


def check_same(name, x, like_name, like):
    if x.dtype != like.dtype:
        raise TypeError(f"{name}.dtype is {x.dtype}, {like_name}.dtype is {like.dtype}; they must be the same")
    if x.device != like.device:
        raise ValueError(f"{name} is on {x.device}, {like_name} on {like.device}; they must be on the same device")


def check_qk(q, k, layout):
    axes(layout)
    for name, x in (("q", q), ("k", k)):
        if x.dim() != 4:
            raise ValueError(f"{name} has {x.dim()} axes, {tuple(x.shape)}; it needs four, laid out as layout={layout!r} says")
        check_element(name, x)
    check_same("k", k, "q", q)
    batch, heads, _, head_dim = logical(q.shape, layout)
    kv_batch, kv_heads, _, kv_head_dim = logical(k.shape, layout)
    if kv_batch != batch or kv_head_dim != head_dim:
        raise ValueError(f"k.shape is {tuple(k.shape)} and q.shape {tuple(q.shape)}; batch and head_dim must agree in layout "
                         f"{layout!r}")
    if kv_heads == 0 or heads % kv_heads != 0:
        raise ValueError(f"k has {kv_heads} heads and q has {heads}; the heads of k must divide those of q (layout {layout!r})")


def check_qkv(q, k, v, layout):
    check_qk(q, k, layout)
    check_same("v", v, "q", q)
    if v.shape != k.shape:
        raise ValueError(f"v.shape is {tuple(v.shape)} and k.shape {tuple(k.shape)}; they must be the same")


def check_mask(mask, q, k, blocks, layout):
    expected = mask_shape(q.shape, k.shape, blocks, layout)
    if mask.dtype != torch.int32:
        raise TypeError(f"mask.dtype is {mask.dtype}; a mask is torch.int32 words of 32 key blocks: build_mask() makes one, "
                        "pack_blocks() turns a bool tensor [batch, heads, q_blocks, kv_blocks] into one")
    if mask.device != q.device:
        raise ValueError(f"mask is on {mask.device}, q on {q.device}; they must be on the same device")
    if tuple(mask.shape) != expected:
        raise ValueError(f"mask.shape is {tuple(mask.shape)}; for these q and k with blocks of {blocks[0]} by {blocks[1]} tokens it "
                         f"is {expected}")


def like(x):
    """A new tensor that is laid out as x, without gaps: the outputs of the operators."""
    return torch.empty_like(x, memory_format=torch.preserve_format)
