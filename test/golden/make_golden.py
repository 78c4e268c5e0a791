#!/usr/bin/env python3
"""Writes the golden files beside this script: small inputs and what the mathematics says of them.

Independent of the C++ code: NumPy in float64, dense and vectorised, written from docs/math.md alone. Inputs are whole
eighths, so that they are exact in every element type. Regenerate with `python3 make_golden.py`; the files must not
change unless the mathematics does.

File format: lines "name dtype dim dim ...", a line "end", then the arrays' bytes in that order, little-endian.
"""

import pathlib

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
DTYPES = {"i8": np.int8, "i32": np.int32, "f32": np.float32, "f64": np.float64}
NAMES = {np.dtype(dtype): name for name, dtype in DTYPES.items()}


def write(name, arrays):
    header, body = "", b""
    for key, array in arrays.items():
        array = np.ascontiguousarray(array)
        header += " ".join([key, NAMES[array.dtype], *map(str, array.shape)]) + "\n"
        body += array.astype(array.dtype.newbyteorder("<")).tobytes()
    (HERE / name).write_bytes(header.encode() + b"end\n" + body)


def eighths(rng, *shape, spread=16):
    return rng.integers(-spread, spread + 1, shape, dtype=np.int8)


def problem(batch, heads, kv_heads, q_tokens, kv_tokens, head_dim, q_block, kv_block, scale):
    return np.array([batch, heads, kv_heads, q_tokens, kv_tokens, head_dim, q_block, kv_block, scale], np.float64)


# ---- Pooling and mask ----------------------------------------------------------------------------------------------


def pooled(x, block):
    """Mean of the valid tokens of each block, as float32."""
    blocks = -(-x.shape[2] // block)
    means = [x[:, :, b * block : (b + 1) * block].mean(axis=2) for b in range(blocks)]
    return np.stack(means, axis=2).astype(np.float32)


def scores_of(pooled_q, pooled_k, scale):
    q, k = pooled_q.astype(np.float64), pooled_k.astype(np.float64)
    centred = k - k.mean(axis=2, keepdims=True)
    centred = np.repeat(centred, q.shape[1] // k.shape[1], axis=1)
    return scale * np.einsum("bhid,bhjd->bhij", q, centred)


def forced_blocks(shape, keep):
    """Pairs kept whatever their score; keep = front, back, band, dense q front, dense q back, in tokens."""
    q_tokens, kv_tokens, q_block, kv_block = shape
    front, back, band, q_front, q_back = keep
    q, k = np.arange(q_tokens)[:, None], np.arange(kv_tokens)[None, :]
    token_pairs = (k < front) | (k >= kv_tokens - back) | (q < q_front) | (q >= q_tokens - q_back)
    if band >= 0:
        token_pairs |= np.abs(k - q - (kv_tokens - q_tokens)) <= band
    rows = [token_pairs[i : i + q_block].any(axis=0) for i in range(0, q_tokens, q_block)]
    blocks = [[row[j : j + kv_block].any() for j in range(0, kv_tokens, kv_block)] for row in rows]
    return np.array(blocks, bool)


def select(scores, top_k, top_p, min_blocks, forced):
    """top_k and top_p are one number a head. Returns the mask and the two prefix lengths of each row."""
    batch, heads, rows, n = scores.shape
    mask = np.zeros(scores.shape, np.int8)
    prefixes = np.zeros((batch, heads, rows, 2), np.int32)
    for b, h, i in np.ndindex(batch, heads, rows):
        s = scores[b, h, i]
        order = sorted(range(n), key=lambda j: (-s[j], j))
        weight = np.exp(s - s.max())
        mass = np.cumsum(weight[order] / weight.sum())
        n_k = min(max(int(np.ceil(top_k[h] * n - 1e-3)), min_blocks), n)
        if top_p[h] <= 0:
            n_p = 0
        elif top_p[h] >= 1:
            n_p = n
        else:
            n_p = next((r + 1 for r in range(n) if mass[r] >= top_p[h]), n)
            assert np.abs(mass - top_p[h]).min() > 1e-9, "a golden mask must not hang on rounding"
        cut = max(n_k, n_p)
        if 0 < cut < n:
            gap = s[order[cut - 1]] - s[order[cut]]
            assert gap == 0 or gap > 1e-9, "a golden mask must not hang on rounding"
        mask[b, h, i, order[:cut]] = 1
        prefixes[b, h, i] = n_k, n_p
    return np.where(forced, 1, mask).astype(np.int8), prefixes


# One row: top_k, top_p, min_blocks, then kv_front, kv_back, band, dense_q_front, dense_q_back in tokens.
RULES = [
    (0.03, 0.2, 1, 0, 0, -1, 0, 0),
    (0.25, 0.0, 1, 0, 0, -1, 0, 0),
    (0.0, 0.6, 0, 0, 0, -1, 0, 0),
    (0.3, 0.9, 1, 0, 0, -1, 0, 0),
    (0.0, 0.0, 3, 0, 0, -1, 0, 0),
    (0.0, 0.0, 0, 65, 41, -1, 0, 0),
    (0.1, 0.3, 1, 0, 0, 100, 1, 0),
    (0.1, 0.3, 1, 10, 0, 0, 0, 45),
    (1.0, 0.0, 1, 0, 0, -1, 0, 0),
    (0.0, 1.0, 0, 0, 0, -1, 0, 0),
]


def make_mask_case(name, seed, shape, ties=False):
    batch, heads, kv_heads, q_tokens, kv_tokens, head_dim, q_block, kv_block, scale = shape
    rng = np.random.default_rng(seed)
    q = eighths(rng, batch, heads, q_tokens, head_dim)
    k = eighths(rng, batch, kv_heads, kv_tokens, head_dim, spread=8)
    # A random walk gives each block a direction of its own; a common offset must not matter.
    walk = np.cumsum(rng.integers(-1, 2, (batch, kv_heads, kv_tokens, head_dim)), axis=2) // 8
    k = np.clip(k + walk + 20, -128, 127).astype(np.int8)
    if ties:
        k[:] = k[:, :, :1]
    head_top_k = np.array([0.5, -1.0, 7.0, np.nan], np.float32)[:heads]
    head_top_p = np.array([np.nan, 0.4, 0.0, 2.0], np.float32)[:heads]
    pooled_q, pooled_k = pooled(q / 8, q_block), pooled(k / 8, kv_block)
    effective = np.float32(scale) if scale else 1 / np.sqrt(np.float32(head_dim))
    scores = scores_of(pooled_q, pooled_k, float(effective))
    arrays = {"problem": problem(*shape), "q": q, "k": k, "pooled_q": pooled_q, "pooled_k": pooled_k}
    arrays |= {"head_top_k": head_top_k, "head_top_p": head_top_p, "rules": np.array(RULES, np.float64)}
    for r, rule in enumerate(RULES):
        forced = forced_blocks((q_tokens, kv_tokens, q_block, kv_block), rule[3:])
        arrays[f"mask{r}"], arrays[f"prefixes{r}"] = select(
            scores, [rule[0]] * heads, [rule[1]] * heads, rule[2], forced)
    # Shares per head over the first rule: clamped to [0, 1], NaN means the rule's own.
    k_of, p_of = ([float(own if np.isnan(x) else min(max(x, 0), 1)) for x in per_head]
                  for own, per_head in ((RULES[0][0], head_top_k), (RULES[0][1], head_top_p)))
    arrays["mask_of_heads"], arrays["prefixes_of_heads"] = select(scores, k_of, p_of, 1, np.False_)
    write(name, arrays)


# ---- Attention -----------------------------------------------------------------------------------------------------


def attention(q, k, v, block_mask, q_block, kv_block, scale):
    """Dense attention over expanded heads under the token form of a block mask: out, lse, P, K and V per query head."""
    group = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)
    tokens = np.repeat(np.repeat(block_mask, q_block, axis=2), kv_block, axis=3)
    tokens = tokens[:, :, : q.shape[2], : k.shape[2]].astype(bool)
    logits = np.where(tokens, scale * np.einsum("bhid,bhjd->bhij", q, k), -np.inf)
    top = logits.max(axis=3, keepdims=True)
    top = np.where(np.isneginf(top), 0, top)
    weights = np.exp(logits - top)
    total = weights.sum(axis=3, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        probabilities = np.where(total > 0, weights / total, 0)
        lse = (top + np.log(total))[..., 0]
    return np.einsum("bhij,bhjd->bhid", probabilities, v), lse, probabilities, k, v


def gradients(q, k, v, probabilities, grad_out, grad_lse, kv_heads, scale):
    """By the Jacobian of softmax; the sum over P replaces the library's rowsum(dO * O)."""
    grad_p = np.einsum("bhid,bhjd->bhij", grad_out, v)
    inner = (probabilities * grad_p).sum(axis=3, keepdims=True)
    grad_s = probabilities * (grad_p - inner + grad_lse[..., None])
    grad_q = scale * np.einsum("bhij,bhjd->bhid", grad_s, k)
    grad_k = scale * np.einsum("bhij,bhid->bhjd", grad_s, q)
    grad_v = np.einsum("bhij,bhid->bhjd", probabilities, grad_out)
    fold = lambda g: g.reshape(g.shape[0], kv_heads, -1, *g.shape[2:]).sum(axis=2)
    return grad_q, fold(grad_k), fold(grad_v)


def make_attention_case(name, seed, shape, density):
    batch, heads, kv_heads, q_tokens, kv_tokens, head_dim, q_block, kv_block, scale = shape
    rng = np.random.default_rng(seed)
    q, grad_out = (eighths(rng, batch, heads, q_tokens, head_dim) for _ in range(2))
    k, v = (eighths(rng, batch, kv_heads, kv_tokens, head_dim) for _ in range(2))
    grad_lse = eighths(rng, batch, heads, q_tokens)
    blocks = (batch, heads, -(-q_tokens // q_block), -(-kv_tokens // kv_block))
    mask = (rng.random(blocks) < density).astype(np.int8)
    mask[-1, -1, -1] = 0  # an empty row
    mask[0, : heads // kv_heads, :, -1] = 0  # a key block that no head of the first group keeps
    effective = float(np.float32(scale) if scale else 1 / np.sqrt(np.float32(head_dim)))
    out, lse, probabilities, wide_k, wide_v = attention(q / 8, k / 8, v / 8, mask, q_block, kv_block, effective)
    grads = gradients(q / 8, wide_k, wide_v, probabilities, grad_out / 8, grad_lse / 8, kv_heads, effective)
    arrays = {"problem": problem(*shape), "q": q, "k": k, "v": v, "mask": mask}
    arrays |= {"grad_out": grad_out, "grad_lse": grad_lse}
    results = dict(out=out, lse=lse, grad_q=grads[0], grad_k=grads[1], grad_v=grads[2])
    write(name, arrays | {key: value.astype(np.float32) for key, value in results.items()})


# ---- Distillation --------------------------------------------------------------------------------------------------


def make_distillation_case(name, seed, samples=3, elements=20):
    rng = np.random.default_rng(seed)
    x0, x1, student, teacher = (eighths(rng, samples, elements) for _ in range(4))
    t, weight = rng.random(samples), rng.random(samples) + 0.5
    difference = (student - teacher.astype(np.float64)) / 8
    arrays = {"x0": x0, "x1": x1, "student": student, "teacher": teacher, "t": t, "weight": weight}
    arrays["xt"] = t[:, None] * x1 / 8 + (1 - t)[:, None] * x0 / 8
    arrays["loss"] = np.array([np.mean(difference**2)])
    arrays["grad"] = 2 * difference / difference.size
    arrays["weighted_loss"] = np.array([np.mean(weight[:, None] * difference**2)])
    arrays["weighted_grad"] = 2 * weight[:, None] * difference / difference.size
    write(name, arrays)


if __name__ == "__main__":
    # batch, heads, kv_heads, q_tokens, kv_tokens, head_dim, q_block, kv_block, scale
    make_mask_case("mask_tails_gqa.golden", 1, (1, 4, 2, 300, 1000, 8, 128, 64, 0.0))
    make_mask_case("mask_small_blocks.golden", 12, (2, 2, 2, 70, 330, 8, 16, 8, 0.7))
    make_mask_case("mask_ties.golden", 3, (1, 2, 1, 130, 700, 8, 128, 64, 0.0), ties=True)
    make_attention_case("attention_tails_gqa.golden", 4, (1, 4, 2, 130, 200, 8, 128, 64, 0.0), 0.6)
    make_attention_case("attention_few_queries.golden", 5, (1, 2, 1, 5, 333, 8, 128, 64, 0.5), 0.5)
    make_attention_case("attention_more_queries.golden", 6, (1, 2, 2, 200, 70, 8, 64, 64, 0.0), 0.5)
    make_attention_case("attention_head_dim_64.golden", 7, (1, 2, 1, 20, 27, 64, 16, 16, 0.0), 0.7)
    make_distillation_case("distillation.golden", 8)
