"""What a mask keeps, as the library counts it."""

from typing import NamedTuple

import torch

COLUMNS = ("kept_pairs", "all_pairs", "owed_to_both", "owed_to_top_k", "owed_to_top_p", "owed_to_force")


class MaskStats(NamedTuple):
    """Tensors on the device, one value for each (batch, head): reading one waits, keeping it does not. int64 [batch, heads],
    but for pooled_mass, which is f64: the softmax mass over pooled scores that the mask keeps. `dense`: this call was dense,
    and its mask keeps everything."""
    kept_pairs: torch.Tensor
    all_pairs: torch.Tensor
    owed_to_both: torch.Tensor
    owed_to_top_k: torch.Tensor
    owed_to_top_p: torch.Tensor
    owed_to_force: torch.Tensor
    pooled_mass: torch.Tensor
    dense: bool = False

    @property
    def sparsity(self):
        """Share of block pairs that are dropped, a tensor of f64 [batch, heads]."""
        return 1 - self.kept_pairs.double() / self.all_pairs

    @classmethod
    def from_raw(cls, raw, dense=False):
        """From the operator's int64 [batch, heads, 7], whose last column holds the bits of an f64."""
        return cls(*raw[..., :6].unbind(-1), raw.view(torch.float64)[..., 6], dense)
