"""The attention of all layers of a model under a schedule: what each layer does in this step, its mask, the report."""

import torch

from . import shapes
from .attention import attention_of_mask, attention_of_rule, autocast, dense_attention, raw_stats
from .schedule import BUILT, DENSE_SHORT, REUSED, Schedule
from .stats import MaskStats


class Stack:
    """Call start_step() before each step of sampling or training, then attend() in each layer.

    start_step() settles the choices of all layers outside of compiled code, which then depends on the choice and not on the
    number of the step: it is compiled once for each choice, not for each step."""

    def __init__(self, layers, schedule: Schedule, report=None, q_block=128, kv_block=64):
        self.layers, self.schedule, self.report, self.blocks = layers, schedule, report, (q_block, kv_block)
        self.masks = {}
        self.start_step(0)

    def start_step(self, step, branch=""):
        """`branch` names runs of the model within a step that may not share masks, such as those with and without a condition."""
        self.branch = branch
        self.choices = [self.schedule.choose(step, layer) for layer in range(self.layers)]

    def attend(self, layer, q, k, v, layout="bhnd"):
        """Attention of one layer in this step."""
        q, k, v = autocast(q, k, v)
        choice = self.choices[layer]
        short = shapes.logical(k.shape, layout)[2] < self.schedule.dense_below_tokens
        if choice.rule is None or short:
            if self.report is not None:
                self.report.add(layer, choice.kind if choice.rule is None else DENSE_SHORT)
            return dense_attention(q, k, v, layout)
        if self.report is None and self.schedule.rebuild_every == 1:  # nobody wants the mask
            return attention_of_rule(q, k, v, choice.rule.arguments(), list(self.blocks), 0.0, layout)
        mask = self.mask(layer, choice, q, k, layout)
        return attention_of_mask(q, k, v, mask, list(self.blocks), 0.0, layout)[0]

    def mask(self, layer, choice, q, k, layout):
        """That of an earlier step where the schedule says so and there is one of these shapes, else a new one."""
        sizes = tuple(q.shape), tuple(k.shape)  # not those of the words, of which 500 keys have as many as 700
        sizes_of_mask, mask = self.masks.get((layer, self.branch), (None, None))
        if choice.kind == REUSED and sizes_of_mask == sizes:
            if self.report is not None:
                self.report.add(layer, REUSED)
            return mask
        how = list(self.blocks), 0.0, layout
        rule = choice.rule.arguments()
        mask = torch.ops.sparge.build_mask.default(q, k, *rule, *how)
        if self.schedule.rebuild_every > 1:
            self.masks[layer, self.branch] = sizes, mask
        if self.report is not None:
            self.report.add(layer, BUILT, MaskStats.from_raw(raw_stats(q, k, mask, rule, *how)))
        return mask
