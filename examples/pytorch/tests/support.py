"""Inputs and comparisons of the tests."""

import torch

import reference


def qkv(device, batch=2, heads=4, kv_heads=4, q_tokens=300, kv_tokens=500, head_dim=64, layout="bhnd", dtype=torch.bfloat16,
        grad=False):
    """Random q, k, v in a layout, with some structure, so that the rule has something to choose."""
    def one(heads, tokens):
        x = torch.randn(batch, heads, tokens, head_dim, device=device)
        x = x + torch.randn(batch, heads, -(-tokens // 64), head_dim, device=device).repeat_interleave(64, 2)[:, :, :tokens]
        x = x if layout == "bhnd" else x.transpose(1, 2)
        return x.to(dtype).contiguous().requires_grad_(grad)
    return one(heads, q_tokens), one(kv_heads, kv_tokens), one(kv_heads, kv_tokens)


def logical(x, layout):
    return x if layout == "bhnd" else x.transpose(1, 2)


def kept(mask, k, layout="bhnd", kv_block=64):
    return reference.keep_of(mask, logical(k, layout), kv_block)


def close(found, truth, naive, name="", units=1):
    """Largest error: twice that of the formula in the working type, and some units in the last place of bf16 at the largest
    value."""
    found, truth, naive = (x.double() for x in (found, truth, naive))
    assert torch.equal(found.isfinite(), truth.isfinite()), f"{name}: NaN or infinity in other places"
    found, truth, naive = (x.where(truth.isfinite(), 0.0) for x in (found, truth, naive))
    largest = truth.abs().max()
    error, allowed = (found - truth).abs().max(), 2 * (naive - truth).abs().max() + units * (2**-8 + 1e-5) * largest
    assert error <= allowed, f"{name}: error {error:.3e}, allowed {allowed:.3e}"
    distance = 1 - torch.nn.functional.cosine_similarity(found.flatten(), truth.flatten(), 0)
    assert distance <= 1e-3, f"{name}: cosine distance {distance:.3e}"
