"""How sparse a model ran: counted on the device, so that compiled code and graph replays count too, and read back once, at the
end."""

import torch

from .schedule import BUILT, KINDS, REUSED
from .stats import COLUMNS

NAMES = (*KINDS, *COLUMNS, "pooled_mass", "heads")


class Report:
    """`totals` is f64 [layers, len(NAMES)] on `device`: calls of each kind, and sums over the masks that were built."""

    def __init__(self, layers, device="cuda"):
        self.totals = torch.zeros(layers, len(NAMES), dtype=torch.float64, device=device)

    def add(self, layer, kind, stats=None):
        """A call of a layer; `stats` where it built a mask."""
        self.totals[layer, NAMES.index(kind)].add_(1)
        if stats is not None:
            first = NAMES.index(COLUMNS[0])
            sums = torch.stack([getattr(stats, name).sum().double() for name in (*COLUMNS, "pooled_mass")])
            self.totals[layer, first:first + len(sums)].add_(sums)
            self.totals[layer, NAMES.index("heads")].add_(stats.kept_pairs.numel())

    def reset(self):
        self.totals.zero_()

    def rows(self):
        """One dictionary a layer, plain numbers. Waits for the device."""
        return [dict(zip(NAMES, values, strict=True)) for values in self.totals.tolist()]

    def summary(self):
        """Of all layers: calls of each kind, sparsity of the masks that were built, their pooled mass, and the share of block
        pairs that attention computed, dense calls counted as whole. None where nothing was counted."""
        total = dict(zip(NAMES, self.totals.sum(0).tolist(), strict=True))
        calls, sparse = sum(total[kind] for kind in KINDS), total[BUILT] + total[REUSED]
        density = total["kept_pairs"] / total["all_pairs"] if total["all_pairs"] else None
        known = calls and (density is not None or not sparse)
        return {**{kind: int(total[kind]) for kind in KINDS}, "calls": int(calls),
                "sparsity of masks": None if density is None else 1 - density,
                "pooled mass kept": total["pooled_mass"] / total["heads"] if total["heads"] else None,
                "share of pairs computed": (sparse * (density or 0) + calls - sparse) / calls if known else None}

    def __str__(self):
        """A table, one line a layer, and the summary."""
        head = ("layer", *KINDS, "sparsity", "pooled mass", "by top-k and top-p", "top-k", "top-p", "keep")
        lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
        for layer, row in enumerate(self.rows()):
            cells = [layer, *(int(row[kind]) for kind in KINDS), *shares_of(row)]
            lines.append("| " + " | ".join(str(cell) for cell in cells) + " |")
        return "\n".join([*lines, "", *(f"{name}: {text_of(value)}" for name, value in self.summary().items())])


def shares_of(row):
    """Sparsity, mass and who asked for the kept pairs, in percent; dashes where the layer built no mask."""
    if not row["all_pairs"]:
        return ["-"] * 6
    owed = [row[name] / row["kept_pairs"] if row["kept_pairs"] else 0.0 for name in COLUMNS[2:]]
    sparsity = 1 - row["kept_pairs"] / row["all_pairs"]
    return [f"{100 * value:.1f} %" for value in (sparsity, row["pooled_mass"] / row["heads"], *owed)]


def text_of(value):
    return "-" if value is None else f"{value:.4f}" if isinstance(value, float) else str(value)
