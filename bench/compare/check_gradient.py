"""Judges gradients: rows of dQ of any head, and keys of dK and dV of a few heads, which all queries of a head add to."""

import dataclasses
import typing

import torch

from . import check, verdict

HEADS, KEYS_A_HEAD, CHUNK = 3, 8, 2048


@dataclasses.dataclass(frozen=True)
class Arithmetic:
    """Of logits and sums, and what is done to P, dS and results."""
    dtype: torch.dtype
    rounded: typing.Callable


EXACT = Arithmetic(torch.float64, lambda x: x)


def naive_arithmetic(dtype):
    """f32 with P, dS and results in the element type: sets the tolerance."""
    return Arithmetic(torch.float32, lambda x: x.to(dtype).to(torch.float32))


@dataclasses.dataclass(frozen=True)
class Head:
    """One (batch, head): q, k, v, grad_out [tokens, head_dim], and the kept block pairs, or None for all."""
    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    grad_out: torch.Tensor
    keep: typing.Optional[torch.Tensor]
    q_block: int
    kv_block: int

    @property
    def scale(self):
        return self.q.shape[-1]**-0.5

    def kept(self, queries, keys):
        """bool [queries, keys]."""
        if self.keep is None:
            return torch.ones((len(queries), len(keys)), dtype=torch.bool, device=self.q.device)
        return self.keep[queries // self.q_block][:, keys // self.kv_block]

    def logits(self, queries, keys, dtype):
        """Scaled; -inf where dropped."""
        logits = (self.q[queries].to(dtype) @ self.k[keys].to(dtype).T) * self.scale
        return logits.masked_fill_(~self.kept(queries, keys), float("-inf"))


def tokens_of(head, first=0, last=None):
    return torch.arange(first, head.q.shape[0] if last is None else last, device=head.q.device)


def row_sums(head, queries, how):
    """lse, and delta = dO . O, of some queries. A query without a key has lse = -inf and delta = 0."""
    logits = head.logits(queries, tokens_of(head), how.dtype)
    lse = torch.logsumexp(logits, 1)
    prob = torch.exp(logits.sub_(torch.nan_to_num(lse, neginf=0.0).unsqueeze(1)))
    out = how.rounded(how.rounded(prob) @ head.v.to(how.dtype))
    return lse, (out * head.grad_out[queries].to(how.dtype)).sum(1)


def prob_and_grad(head, queries, keys, lse, delta, how):
    """P, and dS = P * (dP - delta), both before they are rounded."""
    prob = torch.exp(head.logits(queries, keys, how.dtype) - torch.nan_to_num(lse, neginf=0.0).unsqueeze(1))
    grad_prob = head.grad_out[queries].to(how.dtype) @ head.v[keys].to(how.dtype).T
    return prob, prob * (grad_prob - delta.unsqueeze(1))


def grad_q_rows(head, queries, how):
    keys = tokens_of(head)
    _, grad = prob_and_grad(head, queries, keys, *row_sums(head, queries, how), how)
    return how.rounded((how.rounded(grad) @ head.k.to(how.dtype)) * head.scale).double()


def grad_kv_rows(head, keys, how):
    """dK and dV of some keys, from all queries."""
    tokens = head.q.shape[0]
    grad_k = grad_v = 0
    for first in range(0, tokens, CHUNK):
        queries = tokens_of(head, first, min(first + CHUNK, tokens))
        prob, grad = prob_and_grad(head, queries, keys, *row_sums(head, queries, how), how)
        grad_k = grad_k + how.rounded(grad).T @ head.q[queries].to(how.dtype)
        grad_v = grad_v + how.rounded(prob).T @ head.grad_out[queries].to(how.dtype)
    return how.rounded(grad_k * head.scale).double(), how.rounded(grad_v).double()


def sample_keys(case, keep, kv_block, seed=6):
    """{(batch, head): keys}: the first and the last head with the first and the last key, one that most queries keep, and
    random ones."""
    draw = torch.Generator().manual_seed(seed)

    def below(n):
        return int(torch.randint(n, (1,), generator=draw))

    heads = [(0, 0), (case.batch - 1, case.heads - 1)]
    heads += [(below(case.batch), below(case.heads)) for _ in range(HEADS - len(heads))]
    found = {}
    for head in heads:
        longest = [] if keep is None else [int(keep[head].sum(0).argmax()) * kv_block]
        found[head] = sorted({0, case.tokens - 1, *longest} | {below(case.tokens) for _ in range(KEYS_A_HEAD - 2)})
    return found


class GradientCheck:
    """Of attention without a loss through lse. Tolerances are those of forward, for each of the three gradients."""

    def __init__(self, case, q, k, v, grad_out, keep, q_block, kv_block):
        self.rows = check.sample_rows(case) + check.uneven_rows(keep, q_block)
        self.keys = sample_keys(case, keep, kv_block)

        def head_of(b, h):
            return Head(q[b, h], k[b, h], v[b, h], grad_out[b, h], None if keep is None else keep[b, h], q_block, kv_block)

        def index(tokens):
            return torch.tensor(tokens, device=q.device)

        self.truth = {}
        for name, how in (("exact", EXACT), ("naive", naive_arithmetic(q.dtype))):
            grad_q = torch.cat([grad_q_rows(head_of(b, h), index([i]), how) for b, h, i in self.rows])
            parts = [grad_kv_rows(head_of(b, h), index(keys), how) for (b, h), keys in self.keys.items()]
            self.truth[name] = (grad_q, *(torch.cat(part) for part in zip(*parts)))

    def __call__(self, gradients):
        """`gradients`: dQ, dK, dV, each [batch, heads, tokens, head_dim]."""
        grad_q, grad_k, grad_v = gradients
        got = (torch.stack([grad_q[b, h, i] for b, h, i in self.rows]),
               *(torch.cat([x[b, h, keys] for (b, h), keys in self.keys.items()]) for x in (grad_k, grad_v)))
        judged = [verdict.named(name, judge(*values))
                  for name, *values in zip(("dQ", "dK", "dV"), got, self.truth["exact"], self.truth["naive"])]
        return verdict.all_of(*judged)


def judge(got, exact, naive):
    got = got.double()
    if not bool(torch.isfinite(got).all()):
        return False, "not finite"
    return verdict.forward(check.worst(got, exact), check.worst(naive, exact), check.cosine(got, exact),
                           check.cosine(naive, exact), float(exact.abs().max()))
