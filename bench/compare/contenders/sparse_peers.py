"""Block-sparse peers, where their packages are: VSA of FastVideo (fastvideo_kernel) and SLA (sparse_linear_attention).
Both take lists; random masks of the same share, in their blocks."""

import importlib

import torch

from .. import masks
from ..cases import MASKS, Item
from .first_line import first_line


def vsa_item(work, mask_name):
    function = importlib.import_module("fastvideo_kernel").block_sparse_attn_from_indices
    case, block = work.case, 64
    if case.tokens % block:
        raise ValueError(f"it wants a multiple of {block} tokens")
    q, k, v = work.normal
    keep = work.keep(mask_name, block, block)
    count, index = masks.lists(keep)
    sizes = torch.full((case.tokens // block,), block, dtype=torch.int32, device=q.device)

    def run():
        return function(q, k, v, index, count, sizes)[0]

    run()
    return Item(case, "forward", "vsa", run, work.forward_check(mask_name, block, block), variant="64x64",
                **work.fields(mask_name, keep, block, block))


def sla_item(work, mask_name):
    """As its users call it, the linear branch included; only its sparse output is checked."""
    attention = importlib.import_module("sparse_linear_attention.kernel")._attention
    case = work.case
    q, k, v = work.normal
    keep = work.keep(mask_name)
    index = masks.lists(keep)[1]
    kept = int(keep[0, 0, 0].sum())
    lut = index[..., :kept].contiguous()
    features_q, features_k = torch.softmax(q, -1), torch.softmax(k, -1)
    pairs = keep.to(torch.int8)

    def run():
        return attention.apply(q, k, v, features_q, features_k, pairs, lut, kept, case.q_block, case.kv_block)[0]

    run()
    return Item(case, "forward", "sla", run, work.forward_check(mask_name), **work.fields(mask_name, keep))


def items(work, mask_names, wanted, absent):
    for who, make in (("vsa", vsa_item), ("sla", sla_item)):
        for mask_name in mask_names:
            if MASKS[mask_name].kind != "random" or not wanted("forward", who):
                continue
            try:
                yield make(work, mask_name)
            except ImportError as error:
                absent(who, f"its package does not load: {error}")
                break
            except Exception as error:
                absent(who, f"{work.case.name}, {mask_name}: {first_line(error)}")
