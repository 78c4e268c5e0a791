"""What a run measures, and named sets of it that show one thing in a few minutes. Needs no framework."""

import dataclasses

from . import cases


@dataclasses.dataclass(frozen=True)
class Part:
    """One case. Masks are those of forward and backward; mask building takes the rule's among them."""
    case: str
    operations: tuple
    masks: tuple


@dataclasses.dataclass(frozen=True)
class Suite:
    shows: str
    parts: tuple
    who: tuple
    rounds: int
    protocols: tuple = ("sustained",)
    time_limit: float = 240


MAIN, WAN, LARGE, NARROW, FEW = ("h40_n32768_d128", "wan_1.3b_480p", "wan_14b_720p", "h40_n32768_d64", "h4_n32768_d128")
EVEN_MASKS = ("random95", "random90", "random80", "ones")
UNEVEN_MASKS = ("random95", "uneven", "even11", "dense4", "dense4_even", "band", "rule")
MASK_OPERATIONS = ("copy", "pool", "select", "mask", "mask_forward", "forward")


def one_way(operation, main_masks):
    return (Part(MAIN, (operation,), main_masks), *(Part(name, (operation,), ("random95",)) for name in (WAN, LARGE, NARROW)))


SUITES = {
    "forward": Suite("forward against dense cuDNN at 95, 90, 80 and 0 %, and with the rule's own mask",
                     one_way("forward", (*EVEN_MASKS, "rule")), ("sparge", "cudnn"), rounds=5),
    "backward": Suite("backward against dense cuDNN, and dense columns against the same work spread evenly",
                      one_way("backward", (*EVEN_MASKS, "rule", "columns4", "columns4_even")), ("sparge", "cudnn"), rounds=4),
    "uneven": Suite("uneven masks against even ones of equal work, forward and backward",
                    tuple(Part(name, ("forward", "backward"), UNEVEN_MASKS) for name in (MAIN, FEW, WAN)), ("sparge",),
                    rounds=4),
    "mask": Suite("mask building against reading Q and K once, and mask + forward against dense attention",
                  tuple(Part(name, MASK_OPERATIONS, ("rule_p20",)) for name in (MAIN, WAN, LARGE)),
                  ("sparge", "cudnn", "fa2"), rounds=5),
    "mask_sweep": Suite("the time of mask building, and its share of mask + forward, from 8 thousand to a million tokens",
                        tuple(Part(name, ("copy", "mask", "mask_forward"), ("rule_p20",)) for name in cases.GROUPS["sweep"]),
                        ("sparge",), rounds=3),
}


def parts_of(suite, case_names, operations, mask_names):
    """Of a suite, of which names choose cases and replace the rest; or of cases with what is usual for them."""
    if not suite:
        return [Part(name, tuple(operations or cases.CASES[name].operations), tuple(mask_names or cases.CASES[name].masks))
                for name in case_names]
    strangers = [name for name in case_names if name not in [part.case for part in suite.parts]]
    if strangers:
        raise ValueError(f"the suite has no case {', '.join(strangers)}")
    return [Part(part.case, tuple(operations or part.operations), tuple(mask_names or part.masks))
            for part in suite.parts if part.case in (case_names or [part.case])]
