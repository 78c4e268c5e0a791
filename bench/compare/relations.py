"""What a record means beside others of its run: dense attention, the even mask of equal work, a copy. Needs no framework.

Ratios are taken within one run only, since absolute figures move between machines and days.
"""

import statistics

from . import records
from .cases import MASKS

DENSE_OP = {"forward": "forward", "mask_forward": "forward", "backward": "backward"}  # what a speed-up is over
READS_QK = ("pool", "mask")
TARGET_SHARE = 26 / 512  # ceil(5 %) of 512 key blocks
NEAR = 0.1  # a speed-up is converted to that share only from one so near

# Fields of a record, and what they are.
FIELDS = {
    "dense_ms": "of dense cuDNN of the same direction",
    "times_dense": "dense_ms / ms",
    "times_dense_at_26_of_512": "the same, times kept share / (26 / 512)",
    "pair_speed_of_dense": "TFLOP/s over that of dense cuDNN",
    "times_fa2": "as times_dense, of dense FlashAttention-2",
    "even_mask": "an even mask of equal work",
    "pair_speed_of_even": "TFLOP/s over that of the even mask",
    "reading_ms": "of reading Q and K once, at the GB/s of the run's own copy (what it reads and writes)",
    "times_reading": "ms / reading_ms",
    "mask_share": "of the mask alone in mask + forward",
}


class Index:
    """Finds the other records of a run."""

    def __init__(self, lines):
        self.found = {self.key(record): record for record in lines}

    @staticmethod
    def key(record, **other):
        record = {**record, **other}
        return (record["run"], record["protocol"], records.shape_of(record), record["op"], record["who"], record["variant"],
                record["mask_name"])

    def dense(self, record, who="cudnn"):
        op = DENSE_OP.get(record["op"])
        return op and self.found.get(self.key(record, op=op, who=who, variant="default", mask_name="dense"))

    def even(self, record):
        mask = MASKS.get(record["mask_name"])
        return mask and mask.even and self.found.get(self.key(record, mask_name=mask.even))

    def copy(self, record):
        none = {"batch": 0, "heads": 0, "kv_heads": 0, "q_tokens": 0, "kv_tokens": 0, "head_dim": 0}
        return self.found.get(self.key(record, op="copy", who="torch", variant="default", mask_name="dense", **none))

    def mask_alone(self, record):
        return self.found.get(self.key(record, op="mask", who="sparge", variant="default"))

    def of(self, record):
        """Those of FIELDS that the run knows."""
        found = {}
        dense, flash, even, copy = self.dense(record), self.dense(record, "fa2"), self.even(record), self.copy(record)
        if dense and record["who"] != "cudnn":
            speed = record["tflops"] / dense["tflops"]
            found.update(dense_ms=dense["ms"], times_dense=dense["ms"] / record["ms"], pair_speed_of_dense=speed)
            kept = speed * record["ms"] / dense["ms"]
            if abs(kept / TARGET_SHARE - 1) <= NEAR and record["op"] != "mask_forward":  # the mask takes what it takes
                found["times_dense_at_26_of_512"] = speed / TARGET_SHARE
        if flash and record["who"] not in ("cudnn", "fa2"):
            found["times_fa2"] = flash["ms"] / record["ms"]
        if even and record["tflops"]:
            found.update(even_mask=even["mask_name"], pair_speed_of_even=record["tflops"] / even["tflops"])
        if copy and record["op"] in READS_QK:
            reading_ms = qk_bytes(record) / copy["gbps"] * 1e-6
            found.update(reading_ms=reading_ms, times_reading=record["ms"] / reading_ms)
        if record["op"] == "mask_forward" and record["who"].startswith("sparge") and self.mask_alone(record):
            found["mask_share"] = self.mask_alone(record)["ms"] / record["ms"]
        return {name: value if isinstance(value, str) else records.rounded(value) for name, value in found.items()}


def qk_bytes(record):
    """Of 16-bit values."""
    tokens = record["heads"] * record["q_tokens"] + record["kv_heads"] * record["kv_tokens"]
    return 2.0 * record["batch"] * tokens * record["head_dim"]


def with_relations(lines):
    """The records, each with its relations; those that it came with are made anew."""
    index = Index(lines)
    return [{**{name: value for name, value in record.items() if name not in FIELDS}, **index.of(record)}
            for record in lines]


class Runs:
    """Medians over all runs of one thing: the same item, GPU, kernel and sources of the library."""

    def __init__(self, lines):
        self.found = {}
        for record in with_relations(lines):
            self.found.setdefault(self.key(record), {})[record["run"]] = record

    @staticmethod
    def key(record):
        return records.thing_of(record), record.get("sources", "")

    def values(self, record, field):
        return [other[field] for other in self.found.get(self.key(record), {}).values() if other.get(field)]

    def median(self, record, field):
        """(median, least, most, number of runs), or None where no run has the field."""
        values = self.values(record, field)
        return (statistics.median(values), min(values), max(values), len(values)) if values else None
