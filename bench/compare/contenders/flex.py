"""FlexAttention of torch, compiled, with the same block mask. Kept blocks are passed as full ones, which it applies no
mask function to. Where it refuses 128 x 64 blocks it gets a random mask of the same share in blocks of 128 x 128.

Backward is timed alone, through autograd on a graph that is kept: torch has no operator of it that could be called."""

import torch
from torch.nn.attention.flex_attention import BlockMask, flex_attention, noop_mask

from .. import masks
from ..cases import MASKS, Item
from .first_line import first_line

# Every shape is compiled for itself, in one cache; past its limit torch would run the slow eager form.
torch._dynamo.config.recompile_limit = 256
torch._dynamo.config.accumulated_recompile_limit = 1024
torch._dynamo.config.fail_on_recompile_limit_hit = True
torch._functorch.config.donated_buffer = False  # a graph that is kept may not give its buffers away

compiled = torch.compile(flex_attention, dynamic=False)


def no_blocks(count, index):
    """The list of partial blocks: an empty one of the same layout. Not the same tensors, which the compiler mixes up."""
    return torch.zeros_like(count), torch.zeros_like(index)


def block_mask(count, index, partial, case, q_block, kv_block, for_backward=False):
    """From int32 lists of full blocks, and those of partial ones. Only backward needs the transpose."""
    return BlockMask.from_kv_blocks(*partial, count, index, BLOCK_SIZE=(q_block, kv_block), mask_mod=noop_mask,
                                    seq_lengths=(case.tokens, case.tokens), compute_q_blocks=for_backward)


def forward_run(work, q, k, v, mask):
    return lambda: compiled(q, k, v, block_mask=mask)


def backward_run(work, q, k, v, mask):
    leaves = tuple(x.detach().requires_grad_() for x in (q, k, v))
    with torch.enable_grad():
        out = compiled(*leaves, block_mask=mask)
    grad_out = torch.empty_like(out).copy_(work.grad_out)
    return lambda: torch.autograd.grad(out, leaves, grad_out, retain_graph=True)


RUNS = {"forward": forward_run, "backward": backward_run}


def item(work, operation, mask_name, q_block, kv_block):
    case = work.case
    own_blocks = (q_block, kv_block) == (case.q_block, case.kv_block)
    blocks = (None, None) if own_blocks else (q_block, kv_block)
    keep = work.keep(mask_name, *blocks)
    count, index = masks.lists(keep)
    mask = block_mask(count, index, no_blocks(count, index), case, q_block, kv_block, operation == "backward")
    run = RUNS[operation](work, *work.qkv(mask_name), mask)
    run()
    judge_of = work.forward_check if operation == "forward" else work.gradient_check
    return Item(case, operation, "flex", run, judge_of(mask_name, *blocks),
                variant="default" if own_blocks else f"{q_block}x{kv_block}",
                **work.fields(mask_name, keep, *blocks, operation=operation))


def items(work, mask_names, wanted, absent):
    for operation in RUNS:
        for mask_name in mask_names:
            if mask_name != "ones" and wanted(operation, "flex"):
                yield from first_that_compiles(work, operation, mask_name, absent)


def first_that_compiles(work, operation, mask_name, absent):
    own_blocks = (work.case.q_block, work.case.kv_block)
    others = [(128, 128)] if MASKS[mask_name].kind == "random" else []
    for blocks in dict.fromkeys([own_blocks, *others]):
        try:
            yield item(work, operation, mask_name, *blocks)
            return
        except Exception as error:
            absent("flex", f"{work.case.name}, {operation}, {mask_name}, {blocks[0]}x{blocks[1]}: {first_line(error)}")
