"""What can be measured: shapes, mask kinds, and the item that is one line of the result. Needs no framework."""

import dataclasses
import typing

OPERATIONS = ("copy", "matmul", "pool", "select", "mask", "mask_forward", "forward", "backward")
USUAL_OPERATIONS = ("copy", "matmul", "mask", "mask_forward", "forward", "backward")
USUAL_MASKS = ("random95", "random80", "ones")

@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    batch: int
    heads: int
    tokens: int
    head_dim: int
    kv_heads: int = 0  # 0 = heads
    q_block: int = 128
    kv_block: int = 64
    dtype: str = "bf16"
    masks: tuple = USUAL_MASKS             # of forward and backward, where none are named
    operations: tuple = USUAL_OPERATIONS   # where none are named

    @property
    def q_blocks(self):
        return -(-self.tokens // self.q_block)

    @property
    def kv_blocks(self):
        return -(-self.tokens // self.kv_block)

    @property
    def all_pairs(self):
        return self.batch * self.heads * self.q_blocks * self.kv_blocks

    @property
    def dense_token_pairs(self):
        return self.batch * self.heads * self.tokens * self.tokens

    @property
    def element_bytes(self):
        return 2

    @property
    def tensor_bytes(self):
        """Of one of q, k, v and out."""
        return self.batch * self.heads * self.tokens * self.head_dim * self.element_bytes


SWEEP_TOKENS = tuple(2**power for power in range(13, 21))  # 8 thousand to a million

CASES = {
    case.name: case
    for case in (
        Case("h40_n32768_d128", 1, 40, 32768, 128),
        Case("h40_n32768_d64", 1, 40, 32768, 64),
        Case("h4_n32768_d128", 1, 4, 32768, 128, masks=("random95",), operations=("forward", "backward")),
        Case("wan_1.3b_480p", 1, 12, 32760, 128, masks=("random95",), operations=("forward", "backward")),
        Case("wan_14b_720p", 1, 40, 75600, 128),
        Case("cogvideox_2b", 1, 30, 17776, 64),
        *(Case(f"h12_n{tokens}_d128", 1, 12, tokens, 128, masks=("rule_p20",), operations=("copy", "mask", "mask_forward"))
          for tokens in SWEEP_TOKENS),
        Case("tiny", 1, 2, 1000, 64, operations=OPERATIONS),  # to try the program itself
    )
}
GROUPS = {
    "main": ["h40_n32768_d128", "h40_n32768_d64", "wan_1.3b_480p"],
    "sweep": [f"h12_n{tokens}_d128" for tokens in SWEEP_TOKENS],
    "all": ["h40_n32768_d128", "h40_n32768_d64", "wan_1.3b_480p", "wan_14b_720p", "cogvideox_2b"],
}


@dataclasses.dataclass(frozen=True)
class Mask:
    """How a mask is made, and the even mask that its speed per kept pair is set against."""

    kind: str             # of masks.MAKERS, or rule, or even: as many pairs as `like`, spread evenly over the rows
    share: float = 0.0    # of the key blocks of a row, on average and without dense lines
    even: str = ""        # an even mask of equal work
    like: str = ""        # of an even mask: the mask whose work it has
    dense_rows: int = 0   # of a head, at random places
    dense_columns: int = 0
    top_p: float = 0.0    # of the rule; 0 = whatever keeps `share` of these inputs

    def expected_share(self, case):
        """Of the block pairs, roughly: to plan a run before the mask is made."""
        if self.like:
            return MASKS[self.like].expected_share(case)
        dropped = 1.0 - self.share
        dropped *= max(0.0, 1.0 - self.dense_rows / case.q_blocks) * max(0.0, 1.0 - self.dense_columns / case.kv_blocks)
        return 1.0 - dropped


UNEVEN_SHARES = (0.02, 0.20)

# random: ceil(share * key blocks) random key blocks in every row.   ones: all.
# uneven: a number of random key blocks that differs from row to row, uniform in UNEVEN_SHARES.
# lines:  random, with whole rows and columns of every head on top.
# band:   random in number, but half of a row around the diagonal, and the rest much like its neighbours'.
# rule:   the library's rule, on clustered inputs. Its rows are very uneven: 16 to 299 of 512 key blocks where 5 % are kept.
#         With the defaults of the library (rule_p20) the inputs are scaled such that it keeps 5 %.
MASKS = {
    "random95": Mask("random", 0.05),
    "random90": Mask("random", 0.10),
    "random80": Mask("random", 0.20),
    "ones": Mask("ones", 1.0),
    "uneven": Mask("uneven", sum(UNEVEN_SHARES) / 2, even="even11"),
    "even11": Mask("even", like="uneven"),
    "dense4": Mask("lines", 0.05, even="dense4_even", dense_rows=4, dense_columns=4),
    "dense4_even": Mask("even", like="dense4"),
    "columns4": Mask("lines", 0.05, even="columns4_even", dense_columns=4),
    "columns4_even": Mask("even", like="columns4"),
    "band": Mask("band", 0.05, even="random95"),
    "rule": Mask("rule", 0.05, even="random95"),
    "rule_even": Mask("even", even="random95", like="rule"),  # on the same inputs: what those alone change
    "rule_p20": Mask("rule", 0.05, even="random95", top_p=0.2),
}

RULE_TOP_K = 0.03


def rule_masks(mask_names):
    """Those that mask building is measured with."""
    return [name for name in mask_names if MASKS[name].kind == "rule"] or ["rule"]


TORCH_RULE_FORMS = ("sort", "bisect")


def choose(text, known, groups=None):
    """The names of a comma-separated list, in order and once each. Unknown ones are refused by name."""
    chosen = []
    for word in text.split(","):
        names = list(known) if word == "all" and not (groups or {}).get("all") else (groups or {}).get(word, [word])
        for name in names:
            if name not in known:
                raise ValueError(f"'{name}' is none of: {', '.join([*known, *(groups or {})])}")
            if name not in chosen:
                chosen.append(name)
    return chosen


@dataclasses.dataclass
class Item:
    """One thing to time. `run` enqueues it and returns its result; `check` judges a result: (passed, words)."""

    case: typing.Optional[Case]
    op: str
    who: str
    run: typing.Callable
    check: typing.Callable = lambda result: (True, "not checked")
    variant: str = "default"
    mask: str = "dense"       # Mask.kind, or dense
    mask_name: str = "dense"  # the key of MASKS
    q_block: int = 0
    kv_block: int = 0
    kept_pairs: int = 0
    all_pairs: int = 0
    kept_token_pairs: int = 0
    flop: float = 0.0
    moved_bytes: float = 0.0
    own_bytes: int = 0        # beyond inputs and outputs, held by the item itself; a framework's are measured
    output_bytes: int = 0     # allocated by each run
    kernel: str = ""
    verdict: tuple = (True, "")
    extra_bytes: int = 0
    estimate_ms: float = 0.0
    samples: dict = dataclasses.field(default_factory=dict)  # protocol -> [ms]
    sm_mhz: dict = dataclasses.field(default_factory=dict)   # protocol -> [MHz]
    kernels: dict = dataclasses.field(default_factory=dict)  # name -> ms a call
    host_ms: float = 0.0      # to enqueue a call

    @property
    def name(self):
        return "/".join([self.op, self.case.name if self.case else "-", self.mask_name, self.who, self.variant])


PRODUCTS = {"forward": 2, "backward": 5}  # of matrices; backward computes Q K^T again


def attention_flop(case, kept_token_pairs, operation="forward"):
    """2 x head_dim operations a kept pair of tokens and product."""
    return 2.0 * PRODUCTS[operation] * kept_token_pairs * case.head_dim
