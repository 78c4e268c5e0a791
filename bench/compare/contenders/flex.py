"""FlexAttention of torch, compiled, with the same block mask. Kept blocks are passed as full ones, which it applies no
mask function to. Where it refuses 128 x 64 blocks it gets a random mask of the same share in blocks of 128 x 128."""

import torch
from torch.nn.attention.flex_attention import BlockMask, flex_attention, noop_mask

from .. import masks
from ..cases import MASKS, Item

# Every shape is compiled for itself, in one cache; past its limit torch would run the slow eager form.
torch._dynamo.config.recompile_limit = 256
torch._dynamo.config.accumulated_recompile_limit = 1024
torch._dynamo.config.fail_on_recompile_limit_hit = True

compiled = torch.compile(flex_attention, dynamic=False)


def no_blocks(count, index):
    """The list of partial blocks: an empty one of the same layout. Not the same tensors, which the compiler mixes up."""
    return torch.zeros_like(count), torch.zeros_like(index)


def block_mask(count, index, partial, case, q_block, kv_block):
    """From int32 lists of full blocks, and those of partial ones. Only the backward pass would need the transpose."""
    return BlockMask.from_kv_blocks(*partial, count, index, BLOCK_SIZE=(q_block, kv_block), mask_mod=noop_mask,
                                    seq_lengths=(case.tokens, case.tokens), compute_q_blocks=False)


def item(work, mask_name, q_block, kv_block):
    case = work.case
    q, k, v = work.qkv(mask_name)
    own_blocks = (q_block, kv_block) == (case.q_block, case.kv_block)
    blocks = (None, None) if own_blocks else (q_block, kv_block)
    keep = work.keep(mask_name, *blocks)
    count, index = masks.lists(keep)
    bm = block_mask(count, index, no_blocks(count, index), case, q_block, kv_block)

    def run():
        return compiled(q, k, v, block_mask=bm)

    run()
    return Item(case, "forward", "flex", run, work.forward_check(mask_name, *blocks),
                variant="default" if own_blocks else f"{q_block}x{kv_block}",
                **work.fields(mask_name, keep, *blocks))


def items(work, mask_names, wanted, absent):
    for mask_name in mask_names:
        if mask_name == "ones" or not wanted("forward", "flex"):
            continue
        try:
            yield item(work, mask_name, work.case.q_block, work.case.kv_block)
        except Exception as error:
            absent("flex", f"{work.case.name}, {mask_name}, {work.case.q_block}x{work.case.kv_block}: {first_line(error)}")
            if MASKS[mask_name][0] != "random":
                continue
            try:
                yield item(work, mask_name, 128, 128)
            except Exception as second:
                absent("flex", f"{work.case.name}, {mask_name}, 128x128: {first_line(second)}")


def first_line(error):
    return f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0][:160]}"
