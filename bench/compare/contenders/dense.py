"""Dense attention: cuDNN and FlashAttention-2 through torch, FlashAttention-3 and -4 where their packages are."""

import importlib

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from ..cases import Item

BACKENDS = {"cudnn": SDPBackend.CUDNN_ATTENTION, "fa2": SDPBackend.FLASH_ATTENTION}
PACKAGES = {"fa3": "flash_attn_interface", "fa4": "flash_attn.cute"}


def torch_item(work, who):
    q, k, v = work.normal

    def run():
        with sdpa_kernel(BACKENDS[who]):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v)

    return Item(work.case, "forward", who, run, work.forward_check("dense"), **work.fields("dense"))


def package_item(work, who):
    function = importlib.import_module(PACKAGES[who]).flash_attn_func
    # These take [batch, tokens, heads, head_dim]; contiguous there, as their users have it.
    q, k, v = (x.transpose(1, 2).contiguous() for x in work.normal)

    def run():
        out = function(q, k, v)
        return (out[0] if isinstance(out, tuple) else out).transpose(1, 2)

    return Item(work.case, "forward", who, run, work.forward_check("dense"), **work.fields("dense"))


def items(work, wanted, absent):
    for who, make in [*((who, torch_item) for who in BACKENDS), *((who, package_item) for who in PACKAGES)]:
        if not wanted("forward", who):
            continue
        try:
            yield make(work, who)
        except ImportError as error:
            absent(who, f"its package does not load: {error}")
