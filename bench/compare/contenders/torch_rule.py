"""The hybrid rule in torch, compiled: the mask alone in two forms, and the mask followed by FlexAttention."""

import torch

from .. import masks, rule
from ..cases import Item, rule_masks
from . import flex
from .first_line import first_line


def pool_both(q, k, q_block, kv_block):
    return rule.pool(q, q_block), rule.pool(k, kv_block)


compiled_pool = torch.compile(pool_both, dynamic=False)
compiled_bits = {"sort": torch.compile(rule.bits_by_sort, dynamic=False),
                 "bisect": torch.compile(rule.bits_by_bisection, dynamic=False)}


def lists(q, k, q_block, kv_block, by_k, tail):
    """The first `count` of the order are the kept blocks: FlexAttention needs no scatter."""
    order, count = rule.order_and_counts(q, k, q_block, kv_block, by_k, tail)
    return count.to(torch.int32), order.to(torch.int32)


compiled_lists = torch.compile(lists, dynamic=False)


def tail_tensor(work, inputs):
    """On the device, so that another value needs no compilation."""
    return torch.tensor(inputs.tail, dtype=torch.float32, device=work.device)


def pool_item(work, *_):
    from .. import check
    case = work.case
    q, k, _v = work.clustered
    outputs = 4 * case.batch * case.heads * case.head_dim * (case.q_blocks + case.kv_blocks)
    return Item(case, "pool", "torch", lambda: compiled_pool(q, k, case.q_block, case.kv_block),
                check.PoolCheck(case, q, k), q_block=case.q_block, kv_block=case.kv_block,
                moved_bytes=2.0 * case.tensor_bytes + outputs, output_bytes=outputs)


def mask_item(work, mask_name, form):
    case, x = work.case, work.rule_inputs(mask_name)
    q, k, tail = x.q, x.k, tail_tensor(work, x)

    def run():
        return compiled_bits[form](q, k, case.q_block, case.kv_block, work.by_k, tail)

    fields = work.fields(mask_name, masks.unpack_bits(run(), case.kv_blocks))
    fields.update(flop=0.0, output_bytes=4 * case.batch * case.heads * case.q_blocks * -(-case.kv_blocks // 32))
    return Item(case, "mask", "torch", run, lambda bits: work.mask_check(mask_name)(masks.unpack_bits(bits, case.kv_blocks)),
                variant=form, moved_bytes=2.0 * case.tensor_bytes + fields["output_bytes"], **fields)


def mask_forward_item(work, mask_name, _):
    case, x = work.case, work.rule_inputs(mask_name)
    q, k, v, tail = x.q, x.k, x.v, tail_tensor(work, x)
    partial = flex.no_blocks(*compiled_lists(q, k, case.q_block, case.kv_block, work.by_k, tail))

    def run():
        count, index = compiled_lists(q, k, case.q_block, case.kv_block, work.by_k, tail)
        mask = flex.block_mask(count, index, partial, case, case.q_block, case.kv_block)
        return flex.compiled(q, k, v, block_mask=mask), count, index

    def keep_of(count, index):
        rank = torch.arange(index.shape[-1], device=index.device)
        keep = torch.zeros(index.shape, dtype=torch.bool, device=index.device)
        return keep.scatter_(-1, index.long(), rank < count.unsqueeze(-1))

    def judge(result):
        out, count, index = result
        return work.mask_then_forward_check(mask_name, out, keep_of(count, index))

    keep = keep_of(*run()[1:])
    return Item(case, "mask_forward", "torch", run, judge, variant="sort+flex", **work.fields(mask_name, keep))


FORMS = (("pool", "default", pool_item), ("mask", "sort", mask_item), ("mask", "bisect", mask_item),
         ("mask_forward", "sort+flex", mask_forward_item))


def items(work, mask_names, wanted, forms, absent):
    """`forms`: of the mask, those of compiled_bits."""
    for op, form, make in FORMS:
        if not wanted(op, "torch") or (op == "mask" and form not in forms):
            continue
        for mask_name in [""] if op == "pool" else rule_masks(mask_names):
            try:
                yield make(work, mask_name, form)
            except Exception as error:
                absent("torch", f"{work.case.name}, {op}, {form}: {first_line(error)}")
