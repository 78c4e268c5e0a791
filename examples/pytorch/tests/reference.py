"""The definition in plain torch, in f64: the rule, masked dense attention, its gradients. Small shapes only.

On tensors in the order [batch, heads, tokens, head_dim]; k and v may have fewer heads. `keep` is bool [batch, heads, q_blocks,
kv_blocks]."""

import math

import torch

from sparge_torch import unpack_blocks


def of_all_heads(q, x):
    return x.repeat_interleave(q.shape[1] // x.shape[1], 1)


def token_mask(keep, q_tokens, kv_tokens, blocks):
    """bool [batch, heads, q_tokens, kv_tokens]."""
    return keep.repeat_interleave(blocks[0], 2)[:, :, :q_tokens].repeat_interleave(blocks[1], 3)[..., :kv_tokens]


def attention(q, k, v, keep, blocks=(128, 64), scale=None, working=torch.float64):
    """(out, lse) by dense operations in the type `working`, which autograd differentiates. Rows that keep no key are 0, with
    lse -inf."""
    q, k, v = (x.to(working) for x in (q, of_all_heads(q, k), of_all_heads(q, v)))
    kept = token_mask(keep, q.shape[2], k.shape[2], blocks)
    scores = (q @ k.transpose(-1, -2) * (scale or q.shape[-1] ** -0.5)).masked_fill(~kept, float("-inf"))
    empty = ~kept.any(-1, keepdim=True)
    weights = torch.softmax(scores.masked_fill(empty, 0.0), -1).masked_fill(empty, 0.0)
    return weights @ v, torch.logsumexp(scores.masked_fill(empty, 0.0), -1).masked_fill(empty.squeeze(-1), float("-inf"))


def gradients(grad_out, grad_lse, q, k, v, out, lse, keep, blocks, scale):
    """(grad_q, grad_k, grad_v) by the formulas of math.md, in f64."""
    groups = k.shape[1]
    grad_out, q, k, v, out, lse = (x.double() for x in (grad_out, q, of_all_heads(q, k), of_all_heads(q, v), out, lse))
    scale = scale or q.shape[-1] ** -0.5
    kept = token_mask(keep, q.shape[2], k.shape[2], blocks)
    weights = torch.exp(q @ k.transpose(-1, -2) * scale - lse.unsqueeze(-1)).masked_fill(~kept, 0.0)
    delta = (grad_out * out).sum(-1) - (0.0 if grad_lse is None else grad_lse.double())
    grad_scores = weights * (grad_out @ v.transpose(-1, -2) - delta.unsqueeze(-1))
    grad_k, grad_v = scale * grad_scores.transpose(-1, -2) @ q, weights.transpose(-1, -2) @ grad_out
    return scale * grad_scores @ k, *(x.unflatten(1, (groups, -1)).sum(2) for x in (grad_k, grad_v))


def pooled(x, block):
    return torch.stack([part.double().mean(2) for part in x.split(block, 2)], 2)


def block_scores(q, k, blocks, scale=None):
    """f64 [batch, heads, q_blocks, kv_blocks]."""
    centred = pooled(k, blocks[1])
    centred = of_all_heads(q, centred - centred.mean(2, keepdim=True))
    return pooled(q, blocks[0]) @ centred.transpose(-1, -2) * (scale or q.shape[-1] ** -0.5)


def rule(q, k, top_k, top_p, min_blocks, keep, blocks, scale=None):
    """bool [batch, heads, q_blocks, kv_blocks]; top_k and top_p are numbers or tensors [heads]."""
    scores = block_scores(q, k, blocks, scale)
    count = scores.shape[-1]
    order = torch.sort(scores, dim=-1, descending=True, stable=True)
    mass = torch.softmax(order.values, -1).cumsum(-1)
    k_of, p_of = (torch.as_tensor(x, dtype=torch.float64, device=q.device).reshape(-1, 1, 1) for x in (top_k, top_p))
    by_k = torch.clamp(torch.ceil(k_of * count - 1e-3), min=min_blocks).clamp(max=count)
    by_p = torch.where(p_of <= 0, 0, ((mass < p_of - 1e-12).sum(-1, keepdim=True) + 1).clamp(max=count))
    length = torch.maximum(by_k.expand_as(by_p), by_p)
    chosen = torch.arange(count, device=q.device) < length
    result = torch.zeros_like(scores, dtype=torch.bool).scatter_(-1, order.indices, chosen)
    return result | kept_regardless(q.shape[2], k.shape[2], keep, blocks, q.device)


def kept_regardless(q_tokens, kv_tokens, keep, blocks, device):
    """bool [q_blocks, kv_blocks] from [band or -1, kv front, kv back, dense q front, dense q back]."""
    band, kv_front, kv_back, q_front, q_back = keep
    q, k = (torch.arange(tokens, device=device) for tokens in (q_tokens, kv_tokens))
    pairs = (k[None, :] - q[:, None] - (kv_tokens - q_tokens)).abs() <= band
    pairs = pairs | (k < kv_front)[None, :] | (k >= kv_tokens - kv_back)[None, :]
    pairs = pairs | (q < q_front)[:, None] | (q >= q_tokens - q_back)[:, None]
    padded = torch.nn.functional.pad(pairs, (0, -kv_tokens % blocks[1], 0, -q_tokens % blocks[0]))
    return padded.unflatten(0, (-1, blocks[0])).unflatten(2, (-1, blocks[1])).any(3).any(1)


def keep_of(mask, k, kv_block=64):
    """Block pairs of mask words."""
    return unpack_blocks(mask, math.ceil(k.shape[2] / kv_block))
