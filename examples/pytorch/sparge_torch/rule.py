"""Which key blocks a row keeps: the two shares, and what is kept whatever its score. math.md has the rule."""

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Keep:
    """Blocks that are kept regardless of score. band_tokens: every pair of blocks that holds a query and a key at most this
    many tokens apart; None for no band. kv_*: key blocks that hold the first or last tokens. dense_q_*: query blocks that
    hold the first or last tokens keep everything."""
    band_tokens: int | None = None
    kv_front_tokens: int = 0
    kv_back_tokens: int = 0
    dense_q_front_tokens: int = 0
    dense_q_back_tokens: int = 0

    def numbers(self):
        """As the operators take them; a band of -1 is none."""
        band = -1 if self.band_tokens is None else self.band_tokens
        return [band, self.kv_front_tokens, self.kv_back_tokens, self.dense_q_front_tokens, self.dense_q_back_tokens]


NOTHING = Keep()


@dataclass(frozen=True)
class Rule:
    """A row keeps the longer of two prefixes of its key blocks by score: a share top_k of the blocks (at least min_blocks), and as
    many as hold a share top_p of the pooled softmax mass. A share is a number in [0, 1], or an f32 tensor [heads] on the device.
    The paper's model uses top_k=0.03, top_p=0.2."""
    top_k: float | torch.Tensor = 0.0
    top_p: float | torch.Tensor = 0.0
    keep: Keep = NOTHING
    min_blocks: int = 1

    def arguments(self):
        return arguments(self.top_k, self.top_p, self.keep, self.min_blocks)


def arguments(top_k, top_p, keep, min_blocks):
    """A rule as the operators take it: (top_k, top_p, top_k_of_head, top_p_of_head, min_blocks, keep). None asks for nothing."""
    k, k_of_head = share(top_k)
    p, p_of_head = share(top_p)
    return k, p, k_of_head, p_of_head, min_blocks, (keep or NOTHING).numbers()


def share(value):
    """(number, None), or (0.0, tensor): the tensor replaces the number, which is left for its NaN."""
    return (0.0, value) if isinstance(value, torch.Tensor) else (float(value or 0.0), None)
