"""Which steps and layers are sparse, by which rule, and how long a mask is kept."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from .rule import Rule

# Why a call was what it was: the columns of the report.
BUILT, REUSED = "sparse, mask built", "sparse, mask reused"
DENSE_STEP, DENSE_LAYER, DENSE_SHORT = "dense, first steps", "dense, first layers", "dense, few tokens"
KINDS = (BUILT, REUSED, DENSE_STEP, DENSE_LAYER, DENSE_SHORT)


@dataclass(frozen=True)
class Choice:
    """Of one layer in one step. `rule` is None where the layer is dense."""
    kind: str
    rule: Rule | None = None


@dataclass(frozen=True)
class Schedule:
    """rule: the rule of all layers and steps that the next two leave alone. rule_of_layer: {layer: Rule}. rule_from_step:
    {step: Rule}, each valid from its step to the next one's; a layer's own rule goes first. dense_steps, dense_layers: the
    first steps of a run and the first layers are dense. dense_below_tokens: as dense_below of sparge_attention().
    rebuild_every: steps that use a mask, the one that builds it included."""
    rule: Rule
    rule_of_layer: Mapping[int, Rule] = field(default_factory=dict)
    rule_from_step: Mapping[int, Rule] = field(default_factory=dict)
    dense_steps: int = 0
    dense_layers: int = 0
    dense_below_tokens: int = 0
    rebuild_every: int = 1

    def __post_init__(self):
        for name, least in (("dense_steps", 0), ("dense_layers", 0), ("dense_below_tokens", 0), ("rebuild_every", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least {least}")

    def choose(self, step, layer):
        """What `layer` does in `step`; both count from 0."""
        if step < self.dense_steps:
            return Choice(DENSE_STEP)
        if layer < self.dense_layers:
            return Choice(DENSE_LAYER)
        begun = [first for first in self.rule_from_step if first <= step]
        rule = self.rule_from_step[max(begun)] if begun else self.rule
        reused = (step - self.dense_steps) % self.rebuild_every != 0
        return Choice(REUSED if reused else BUILT, self.rule_of_layer.get(layer, rule))
