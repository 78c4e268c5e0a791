"""The tensors and masks of one case, made once and shared by all contenders."""

import dataclasses
import functools

import torch

from .. import check, check_gradient, inputs, masks, rule
from ..cases import MASKS, RULE_TOP_K, attention_flop

NORMAL_SEED, CLUSTER_SEED, MASK_SEED, GRAD_OUT_SEED = 21, 22, 23, 24


@dataclasses.dataclass(frozen=True)
class RuleInputs:
    """What the rule selects from. It keeps about the share of its mask, by its top_p or else by the scale of q."""
    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    tail: float  # 1 - top_p


class Workload:
    """q, k, v with a mask come in sets: the rule's masks and what is spread like them on clustered inputs, others on
    normal ones."""

    def __init__(self, case, device="cuda"):
        self.case, self.device = case, device

    @functools.cached_property
    def normal(self):
        return inputs.normal_qkv(self.case, NORMAL_SEED, self.device)

    @functools.cached_property
    def clustered(self):
        return inputs.clustered_qkv(self.case, CLUSTER_SEED, self.device)

    @functools.cached_property
    def grad_out(self):
        """dO ~ N(0, 1), like out."""
        return inputs.normal_like(self.normal[0], GRAD_OUT_SEED)

    def qkv(self, mask_name):
        if mask_name != "dense":
            root = MASKS[mask_name].like or mask_name
            if MASKS[root].kind == "rule":
                x = self.rule_inputs(root)
                return x.q, x.k, x.v
        return self.normal

    @functools.lru_cache(maxsize=None)
    def rule_inputs(self, mask_name):
        mask, case, (q, k, v) = MASKS[mask_name], self.case, self.clustered
        blocks = (case.q_block, case.kv_block)
        if not mask.top_p:
            return RuleInputs(q, k, v, rule.tail_for(q, k, *blocks, RULE_TOP_K, mask.share))
        tail = 1.0 - mask.top_p
        return RuleInputs(q * rule.scale_for(q, k, *blocks, RULE_TOP_K, tail, mask.share), k, v, tail)

    @functools.cached_property
    def by_k(self):
        return rule.top_k_count(RULE_TOP_K, self.case.kv_blocks)

    @functools.lru_cache(maxsize=None)
    def keep(self, mask_name, q_block=None, kv_block=None):
        """bool [batch, heads, q_blocks, kv_blocks]; other block sizes than the case's only for random masks."""
        mask, case = MASKS[mask_name], self.case
        if (q_block or kv_block) and mask.kind != "random":
            raise ValueError(f"the mask {mask_name} has the blocks of the case")
        if mask.kind == "random":
            return masks.random_keep(case, mask, MASK_SEED, self.device, q_block, kv_block)
        if mask.kind == "even":
            return masks.even_keep(self.keep(mask.like), MASK_SEED)
        if mask.kind == "rule":
            x = self.rule_inputs(mask_name)
            bits = rule.bits_by_sort(x.q, x.k, case.q_block, case.kv_block, self.by_k, x.tail)
            return masks.unpack_bits(bits, case.kv_blocks)
        return masks.MAKERS[mask.kind](case, mask, MASK_SEED, self.device)

    @functools.lru_cache(maxsize=None)
    def forward_check(self, mask_name, q_block=None, kv_block=None):
        q, k, v = self.qkv(mask_name)
        keep = None if mask_name == "dense" else self.keep(mask_name, q_block, kv_block)
        return check.ForwardCheck(self.case, q, k, v, keep, q_block or self.case.q_block, kv_block or self.case.kv_block)

    @functools.lru_cache(maxsize=None)
    def gradient_check(self, mask_name, q_block=None, kv_block=None):
        if mask_name == "ones":  # the same attention
            return self.gradient_check("dense")
        q, k, v = self.qkv(mask_name)
        keep = None if mask_name == "dense" else self.keep(mask_name, q_block, kv_block)
        return check_gradient.GradientCheck(self.case, q, k, v, self.grad_out, keep, q_block or self.case.q_block,
                                            kv_block or self.case.kv_block)

    @functools.lru_cache(maxsize=None)
    def mask_check(self, mask_name):
        x = self.rule_inputs(mask_name)
        return check.MaskCheck(self.case, x.q, x.k, RULE_TOP_K, x.tail)

    def mask_then_forward_check(self, mask_name, out, keep):
        """Judges a mask, and an output against that very mask."""
        good_mask, mask_words = self.mask_check(mask_name)(keep)
        truth = check.ForwardCheck(self.case, *self.qkv(mask_name), keep, self.case.q_block, self.case.kv_block)
        good_out, out_words = truth(out)
        return good_mask and good_out, f"mask: {mask_words}; out: {out_words}"

    def fields(self, mask_name, keep=None, q_block=None, kv_block=None, operation="forward"):
        """Of an item: what the mask keeps, and the work that follows from it."""
        case = self.case
        output_bytes = case.tensor_bytes * (3 if operation == "backward" else 1)
        if mask_name == "dense":
            return dict(mask="dense", mask_name="dense", q_block=case.q_block, kv_block=case.kv_block,
                        kept_pairs=case.all_pairs, all_pairs=case.all_pairs, kept_token_pairs=case.dense_token_pairs,
                        flop=attention_flop(case, case.dense_token_pairs, operation), output_bytes=output_bytes)
        keep = self.keep(mask_name, q_block, kv_block) if keep is None else keep
        pairs, token_pairs = masks.kept(keep, case, q_block, kv_block)
        return dict(mask=MASKS[mask_name].kind, mask_name=mask_name, q_block=q_block or case.q_block,
                    kv_block=kv_block or case.kv_block, kept_pairs=pairs, all_pairs=keep.numel(),
                    kept_token_pairs=token_pairs, flop=attention_flop(case, token_pairs, operation),
                    output_bytes=output_bytes)
