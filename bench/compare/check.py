"""Judges results, so that a fast wrong one cannot win."""

import torch

from . import rule, verdict

ROWS = 24


def sample_rows(case, seed=5):
    """(batch, head, query) of random queries, and the first and the last of all."""
    draw = torch.Generator().manual_seed(seed)
    rows = [(0, 0, 0), (case.batch - 1, case.heads - 1, case.tokens - 1)]
    for _ in range(ROWS - len(rows)):
        rows.append(tuple(int(torch.randint(n, (1,), generator=draw)) for n in (case.batch, case.heads, case.tokens)))
    return rows


def uneven_rows(keep, q_block):
    """The first query of a longest and of a shortest row of the mask, which a kernel may treat in ways of their own."""
    if keep is None:
        return []
    kept = keep.sum(3)
    if int(kept.min()) == int(kept.max()):
        return []
    _, heads, q_blocks = kept.shape
    rows = (int(pick(kept.flatten())) for pick in (torch.argmax, torch.argmin))
    return [(row // (heads * q_blocks), row // q_blocks % heads, row % q_blocks * q_block) for row in rows]


class ForwardCheck:
    """Rows of attention in f64, and the same formula in working precision, whose error sets the tolerance."""

    def __init__(self, case, q, k, v, keep, q_block, kv_block):
        """`keep` is the bool block mask, or None for all."""
        self.rows = sample_rows(case) + uneven_rows(keep, q_block)
        exact, naive, lse = [], [], []
        for b, h, i in self.rows:
            tokens = torch.ones(case.tokens, dtype=torch.bool, device=q.device)
            if keep is not None:
                tokens = keep[b, h, i // q_block].repeat_interleave(kv_block)[:case.tokens]
            exact.append(exact_row(q[b, h, i], k[b, h][tokens], v[b, h][tokens]))
            naive.append(naive_row(q[b, h, i], k[b, h][tokens], v[b, h][tokens]))
            lse.append(lse_rows(q[b, h, i], k[b, h][tokens]))
        self.exact, self.naive = torch.stack(exact), torch.stack(naive)
        self.exact_lse, self.naive_lse = torch.stack(lse).T

    def __call__(self, out):
        got = torch.stack([out[b, h, i] for b, h, i in self.rows]).double()
        if not bool(torch.isfinite(got).all()):
            return False, "not finite"
        return verdict.forward(worst(got, self.exact), worst(self.naive, self.exact), cosine(got, self.exact),
                               cosine(self.naive, self.exact), float(self.exact.abs().max()))

    def lse(self, got):
        """Judges the logarithm of the sum of exp, [batch, heads, tokens] in f32: natural, of scaled logits."""
        got = torch.stack([got[b, h, i] for b, h, i in self.rows]).double()
        finite = torch.isfinite(self.exact_lse)
        if not bool((torch.isfinite(got) == finite).all()) or bool((got[~finite] != self.exact_lse[~finite]).any()):
            return False, "not finite where it should be, or the other way round"
        if not bool(finite.any()):
            return True, "-inf throughout"
        got, exact, naive = got[finite], self.exact_lse[finite], self.naive_lse[finite]
        return verdict.lse(worst(got, exact), worst(naive, exact), float(exact.abs().max()))


def lse_rows(q, k):
    """In f64, and in f32: -inf without a key."""
    return torch.stack([torch.logsumexp((k.to(dtype) @ q.to(dtype)) * q.shape[0]**-0.5, 0).double()
                        for dtype in (torch.float64, torch.float32)])


def exact_row(q, k, v):
    if k.shape[0] == 0:
        return torch.zeros(v.shape[1], dtype=torch.float64, device=q.device)
    logits = (k.double() @ q.double()) * q.shape[0]**-0.5
    return torch.softmax(logits, 0) @ v.double()


def naive_row(q, k, v):
    """f32 softmax, P rounded to the input type for P V."""
    if k.shape[0] == 0:
        return torch.zeros(v.shape[1], dtype=torch.float64, device=q.device)
    logits = (k.float() @ q.float()) * q.shape[0]**-0.5
    weight = torch.exp(logits - logits.max())
    out = (weight.to(q.dtype).float() @ v.float()) / weight.sum()
    return out.to(q.dtype).double()


def worst(got, exact):
    return float((got - exact).abs().max())


def cosine(got, exact):
    """Cosine distance of all rows together."""
    if float(exact.norm()) == 0 or float(got.norm()) == 0:
        return 0.0 if float(exact.norm()) == float(got.norm()) else 1.0
    return 1.0 - float((got * exact).sum() / (got.norm() * exact.norm()))


class MaskCheck:
    """The rule in f64 on a few heads. A row may differ only where its cut is nearly a tie or nearly at top_p, and only
    between the two cuts or within the error of a score."""

    HEADS = 3

    def __init__(self, case, q, k, top_k, tail):
        self.tail, self.by_k = tail, rule.top_k_count(top_k, case.kv_blocks)
        self.heads = sorted({0, case.heads // 2, case.heads - 1})[:self.HEADS]
        parts = [rule_of(q[:, h:h + 1], k[:, h:h + 1], case, top_k, tail) for h in self.heads]
        self.scores, self.keep, self.order, self.prob, self.count, self.error = (
            torch.cat(part, 1) for part in zip(*parts))

    def __call__(self, keep):
        """`keep` is bool [batch, heads, q_blocks, kv_blocks]."""
        got = keep[:, self.heads]
        differs = got != self.keep
        rows = differs.any(-1)
        if not bool(rows.any()):
            return True, "every checked row is the rule's"
        got_count = got.sum(-1)
        in_order = self.scores.gather(-1, self.order)
        cut, got_cut = (in_order.gather(-1, (count - 1).clamp(min=0).unsqueeze(-1)) for count in (self.count, got_count))
        low, high = torch.minimum(cut, got_cut) - 2 * self.error, torch.maximum(cut, got_cut) + 2 * self.error
        between = ((self.scores >= low) & (self.scores <= high)) | ~differs
        wrong = rows & ~(between.all(-1) & self.may_keep(got_count))
        kept_ratio = float(got_count.sum()) / float(self.count.sum())
        return verdict.mask(int(wrong.sum()), int(rows.sum()), rows.numel(), 1e-6 < 0.01 * self.tail, kept_ratio)

    def may_keep(self, count):
        """Whether a row may end there: behind it is at most 1 - top_p of the mass, and before its last block more."""
        slack = 2 * self.error.squeeze(-1) + self.prob.shape[-1] * 2.0**-32 + 1e-6
        behind = torch.nn.functional.pad(self.prob.flip(-1).cumsum(-1).flip(-1), (0, 1))
        after = behind.gather(-1, count.unsqueeze(-1)).squeeze(-1)
        before = behind.gather(-1, (count - 1).clamp(min=0).unsqueeze(-1)).squeeze(-1)
        enough = (count >= self.by_k) & (after <= self.tail + slack)
        return enough & ((count == self.by_k) | (before > self.tail - slack))


def rule_of(q, k, case, top_k, tail):
    scores, keep, order, prob, count = rule.truth(q, k, case.q_block, case.kv_block, top_k, tail)
    pooled_q = rule.pool(q, case.q_block, torch.float64).abs()
    pooled_k = rule.pool(k, case.kv_block, torch.float64)
    centred = (pooled_k - pooled_k.mean(2, keepdim=True)).abs()
    # 2^-19: what f32 pooling adds to the 2^-20 that scores on given pooled vectors may be off by.
    error = (pooled_q @ centred.transpose(-1, -2)).amax(-1, keepdim=True) * case.head_dim**-0.5 * 2.0**-19
    return scores, keep, order, prob, count, error


class PoolCheck:
    def __init__(self, case, q, k):
        self.case, self.q, self.k, self.pool = case, q[:, -1:], k[:, -1:], rule.pool

    def __call__(self, pooled):
        for got, x, block in zip(pooled, (self.q, self.k), (self.case.q_block, self.case.kv_block)):
            exact = self.pool(x, block, torch.float64)
            allowed = self.pool(x.abs(), block, torch.float64) * 2.0**-21 + 1e-30
            error = (got[:, -1:].double() - exact).abs()
            if not bool((error <= allowed).all()):
                return False, f"a pooled value is off by {float(error.max()):.1e}"
        return True, "within 2^-21 of the mean of |x|"
