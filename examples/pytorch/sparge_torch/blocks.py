"""Masks of one's own: bool tensors of block pairs to mask words and back."""

import torch

import sparge_ctypes as abi

from . import shapes


def pack_blocks(keep):
    """Mask words, int32 [..., q_blocks, ceil(kv_blocks / 32)], of bool [..., q_blocks, kv_blocks]; True = kept."""
    if keep.dtype != torch.bool:
        raise TypeError(f"keep.dtype is {keep.dtype}; it must be torch.bool, True where a block pair is kept")
    words = -(-keep.shape[-1] // 32)
    padded = torch.nn.functional.pad(keep, (0, 32 * words - keep.shape[-1])).unflatten(-1, (words, 32))
    bit = torch.bitwise_left_shift(torch.ones(32, dtype=torch.int32, device=keep.device),
                                   torch.arange(32, dtype=torch.int32, device=keep.device))
    return torch.where(padded, bit, 0).sum(-1, dtype=torch.int32)  # disjoint bits, so the sum is their union, sign included


def unpack_blocks(mask, kv_blocks):
    """bool [batch, heads, q_blocks, kv_blocks] of mask words."""
    return abi.mask_pairs(mask, kv_blocks)


def dense_mask(q, k, q_block=128, kv_block=64, layout="bhnd"):
    """The mask that keeps everything. Its padding holds ones too, which readers ignore."""
    return torch.full(shapes.mask_shape(q.shape, k.shape, (q_block, kv_block), layout), -1, dtype=torch.int32, device=q.device)
