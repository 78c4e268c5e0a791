"""How long a run will take, before anything is made: from what an H200 does, roughly. Needs no framework."""

from . import protocol
from .cases import CASES, MASKS, attention_flop, rule_masks

START_S = 25.0    # imports, the context of the GPU, the library
FINISH_S = 3.0
INPUT_GB_PER_S = 5.0  # of q, k and v, made and calibrated
COPY_GB_PER_S = 4200.0
DENSE_TFLOPS = {("cudnn", "forward"): 610, ("cudnn", "backward"): 550, ("fa2", "forward"): 350, ("fa2", "backward"): 290}
SPARSE_TFLOPS = {"forward": 550, "backward": 420}
NARROW = 0.75     # of that with head_dim 64
CALLS_BEFORE_ROUNDS = 6  # to check, warm up, estimate and weigh
KERNELS_S = 0.5   # to list the kernels of an item
UNKNOWN = ("fa3", "fa4", "flex", "vsa", "sla", "torch")


def items_of(part, who):
    """(operation, contender, mask) of the known contenders."""
    for operation in part.operations:
        if operation in ("forward", "backward"):
            for name in ("cudnn", "fa2"):
                if name in who:
                    yield operation, name, "dense"
            masks = part.masks
        elif operation in ("copy", "matmul"):
            continue
        else:
            masks = [""] if operation == "pool" else rule_masks(part.masks)
        if "sparge" in who:
            for mask in masks:
                yield operation, "sparge", mask


def item_ms(part, operation, who, mask):
    case = CASES[part.case]
    narrow = NARROW if case.head_dim == 64 else 1.0
    reading_ms = 2 * case.tensor_bytes / COPY_GB_PER_S * 1e-6
    building_ms = {"pool": 1.2 * reading_ms, "select": 0.5 * reading_ms + 0.02, "mask": 1.5 * reading_ms + 0.02}
    if operation in building_ms:
        return building_ms[operation]
    direction = "backward" if operation == "backward" else "forward"
    share = 1.0 if mask == "dense" else MASKS[mask].expected_share(case)
    tflops = narrow * DENSE_TFLOPS.get((who, direction), SPARSE_TFLOPS[direction])
    attention_ms = attention_flop(case, case.dense_token_pairs * share, direction) / tflops * 1e-9
    return attention_ms + (building_ms["mask"] if operation == "mask_forward" else 0.0)


def check_seconds(part, operation):
    """A truth is made once for each mask: gradients from whole heads, the rule from all pooled pairs of three heads."""
    case = CASES[part.case]
    if operation == "backward":
        return 0.3 + 0.8 * (case.tokens / 32768)**2
    return 0.3 if operation == "forward" else 0.5 + 1.0 * (case.tokens / 262144)**2


class Estimate:
    def __init__(self, parts, who, protocols, load_s):
        self.before, self.round = START_S + FINISH_S, 0.0
        for part in parts:
            case = CASES[part.case]
            self.before += 1.0 + 3 * case.tensor_bytes * 1e-9 / INPUT_GB_PER_S
            for operation, name, mask in items_of(part, who):
                ms = item_ms(part, operation, name, mask)
                self.before += CALLS_BEFORE_ROUNDS * ms * 1e-3 + check_seconds(part, operation)
                self.before += KERNELS_S if name == "sparge" else 0.0
                self.add(ms, protocols, load_s)
        for operation, ms in (("copy", 0.5), ("matmul", 1.6)):
            if any(operation in part.operations for part in parts):
                self.add(ms, protocols, load_s)

    def add(self, ms, protocols, load_s):
        self.round += sum(protocol.seconds_of(name, ms, load_s) + protocol.BETWEEN_S for name in protocols)

    def seconds(self, rounds):
        return self.before + rounds * self.round
