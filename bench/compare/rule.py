"""The hybrid rule in torch: a slow f64 truth, and the fastest forms that we know of as contenders.

A row keeps the longer of two prefixes of its key blocks in order of score: the first ceil(top_k * blocks), and the shortest
with at least top_p of the softmax mass. Mass is summed from the small end: block i is kept by top_p while the mass of i and
all behind it exceeds 1 - top_p, which f32 resolves where a sum from the large end would round to 1.
"""

import math

import torch


def top_k_count(share, blocks):
    return min(max(math.ceil(share * blocks - 1e-3), 1), blocks)


def pool(x, block, dtype=torch.float32):
    """Mean over the valid tokens of each block: [batch, heads, blocks, head_dim] in f32."""
    tokens = x.shape[2]
    full = tokens // block
    means = x[:, :, :full * block].unflatten(2, (full, block)).to(dtype).mean(3)
    if full * block == tokens:
        return means
    return torch.cat([means, x[:, :, full * block:].to(dtype).mean(2, keepdim=True)], 2)


def scores_of(q, k, q_block, kv_block, dtype=torch.float32):
    pooled_q, pooled_k = pool(q, q_block, dtype), pool(k, kv_block, dtype)
    centred = pooled_k - pooled_k.mean(2, keepdim=True)
    return torch.matmul(pooled_q, centred.transpose(-1, -2)) * q.shape[-1]**-0.5


def order_and_counts(q, k, q_block, kv_block, by_k, tail):
    """Key blocks of a row in order of the rule, and how many it keeps. `tail` is 1 - top_p."""
    ranked, order = scores_of(q, k, q_block, kv_block).sort(dim=-1, descending=True)
    prob = torch.softmax(ranked, -1)
    behind = prob.flip(-1).cumsum(-1).flip(-1)
    by_p = (behind > tail).sum(-1)
    return order, by_p.clamp(min=by_k)


def pack_words(keep):
    """As masks.pack_bits, in a form that fuses."""
    words = -(-keep.shape[-1] // 32)
    padded = torch.nn.functional.pad(keep.to(torch.int32), (0, 32 * words - keep.shape[-1]))
    lanes = torch.arange(32, device=keep.device, dtype=torch.int32)
    return torch.bitwise_left_shift(padded.unflatten(-1, (words, 32)), lanes).sum(-1, dtype=torch.int32)


def bits_by_sort(q, k, q_block, kv_block, by_k, tail):
    order, count = order_and_counts(q, k, q_block, kv_block, by_k, tail)
    rank = torch.arange(order.shape[-1], device=order.device)
    keep = torch.zeros_like(order, dtype=torch.bool).scatter(-1, order, rank < count.unsqueeze(-1))
    return pack_words(keep)


def bits_by_bisection(q, k, q_block, kv_block, by_k, tail):
    """Without a sort: bisects the score at which each prefix ends, 32 steps over the row's range. Keeps all of a tie."""
    scores = scores_of(q, k, q_block, kv_block)
    most = scores.amax(-1, keepdim=True)
    weight = torch.exp(scores - most)
    allowed = tail * weight.sum(-1, keepdim=True)
    low_k = low_p = scores.amin(-1, keepdim=True)
    high_k = high_p = most
    for _ in range(32):  # a score of low keeps enough, and one above high does not
        middle = (low_k + high_k) * 0.5
        enough = (scores >= middle).sum(-1, keepdim=True) >= by_k
        low_k, high_k = torch.where(enough, middle, low_k), torch.where(enough, high_k, middle)
        middle = (low_p + high_p) * 0.5
        enough = torch.where(scores < middle, weight, 0.0).sum(-1, keepdim=True) <= allowed
        low_p, high_p = torch.where(enough, middle, low_p), torch.where(enough, high_p, middle)
    return pack_words(scores >= torch.minimum(low_k, low_p))


def truth(q, k, q_block, kv_block, top_k, tail):
    """Of f64 scores: (scores, keep bool, order, prob in order, count). For a few heads at a time."""
    scores = scores_of(q, k, q_block, kv_block, torch.float64)
    ranked, order = scores.sort(dim=-1, descending=True, stable=True)
    prob = torch.softmax(ranked, -1)
    behind = prob.flip(-1).cumsum(-1).flip(-1)
    count = (behind > tail).sum(-1).clamp(min=top_k_count(top_k, scores.shape[-1]))
    rank = torch.arange(scores.shape[-1], device=scores.device)
    keep = torch.zeros_like(order, dtype=torch.bool).scatter(-1, order, rank < count.unsqueeze(-1))
    return scores, keep, order, prob, count


def tail_for(q, k, q_block, kv_block, top_k, share):
    """The 1 - top_p at which the rule keeps `share` of the pairs on average, to 0.2 %, by bisection of its logarithm."""
    scores = scores_of(q, k, q_block, kv_block, torch.float64)
    prob = torch.softmax(scores.sort(dim=-1, descending=True).values, -1)
    behind = prob.flip(-1).cumsum(-1).flip(-1)
    by_k = top_k_count(top_k, scores.shape[-1])

    def kept_share(tail):
        return float((behind > tail).sum(-1).clamp(min=by_k).double().mean()) / scores.shape[-1]

    if kept_share(1.0) >= share:
        return 1.0  # top_k alone keeps so much
    low, high = -40.0, 0.0  # of the logarithm: exp(low) keeps nearly all, exp(high) what top_k asks for
    for _ in range(60):
        middle = (low + high) / 2
        kept = kept_share(math.exp(middle))
        if abs(kept - share) <= 0.002:  # near enough, and most likely not on the edge of a row
            break
        low, high = (middle, high) if kept > share else (low, middle)
    return math.exp(middle)


def scale_for(q, k, q_block, kv_block, top_k, tail, share):
    """By what to multiply q so that the rule with this top_p keeps `share` of the pairs, from a sample of the rows. A larger
    scale makes the softmax steeper, and top_p keep less."""
    heads = slice(0, 4)
    pooled_q, pooled_k = pool(q[:, heads], q_block, torch.float64), pool(k[:, heads], kv_block, torch.float64)
    sample = pooled_q[:, :, ::max(1, pooled_q.shape[2] // 256)]
    centred = pooled_k - pooled_k.mean(2, keepdim=True)
    ranked = torch.matmul(sample, centred.transpose(-1, -2)).sort(dim=-1, descending=True).values * q.shape[-1]**-0.5
    by_k = top_k_count(top_k, ranked.shape[-1])

    def kept_share(scale):
        behind = torch.softmax(ranked * scale, -1).flip(-1).cumsum(-1).flip(-1)
        return float((behind > tail).sum(-1).clamp(min=by_k).double().mean()) / ranked.shape[-1]

    low, high = -10.0, 4.0  # of the logarithm
    if kept_share(math.exp(high)) >= share:
        return 1.0  # top_k alone keeps so much
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if kept_share(math.exp(middle)) > share else (low, middle)
    return math.exp(high)
