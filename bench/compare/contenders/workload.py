"""The tensors and masks of one case, made once and shared by all contenders."""

import functools

from .. import check, check_gradient, inputs, masks, rule
from ..cases import MASKS, RULE_TOP_K, attention_flop

NORMAL_SEED, CLUSTER_SEED, MASK_SEED, GRAD_OUT_SEED = 21, 22, 23, 24


class Workload:
    """q, k, v with a mask come in two sets: random masks on normal inputs, the rule's mask on clustered ones."""

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
        return self.clustered if mask_name == "rule" else self.normal

    @functools.cached_property
    def tail(self):
        """1 - top_p of the rule, set so that it keeps 5 % on these inputs."""
        q, k, _ = self.clustered
        return rule.tail_for(q, k, self.case.q_block, self.case.kv_block, RULE_TOP_K, MASKS["rule"][1])

    @functools.cached_property
    def by_k(self):
        return rule.top_k_count(RULE_TOP_K, self.case.kv_blocks)

    @functools.lru_cache(maxsize=None)
    def keep(self, mask_name, q_block=None, kv_block=None):
        """bool [batch, heads, q_blocks, kv_blocks]; other block sizes than the case's only for random masks."""
        kind, share = MASKS[mask_name]
        if kind == "rule":
            if q_block or kv_block:
                raise ValueError("the rule's mask has the blocks of the case")
            q, k, _ = self.clustered
            bits = rule.bits_by_sort(q, k, self.case.q_block, self.case.kv_block, self.by_k, self.tail)
            return masks.unpack_bits(bits, self.case.kv_blocks)
        return masks.random_keep(self.case, share, MASK_SEED, self.device, q_block, kv_block)

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

    @functools.cached_property
    def mask_check(self):
        q, k, _ = self.clustered
        return check.MaskCheck(self.case, q, k, RULE_TOP_K, self.tail)

    def mask_then_forward_check(self, out, keep):
        """Judges a mask, and an output against that very mask."""
        q, k, v = self.clustered
        good_mask, mask_words = self.mask_check(keep)
        good_out, out_words = check.ForwardCheck(self.case, q, k, v, keep, self.case.q_block, self.case.kv_block)(out)
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
        return dict(mask=MASKS[mask_name][0], mask_name=mask_name, q_block=q_block or case.q_block,
                    kv_block=kv_block or case.kv_block, kept_pairs=pairs, all_pairs=keep.numel(),
                    kept_token_pairs=token_pairs, flop=attention_flop(case, token_pairs, operation),
                    output_bytes=output_bytes)
