"""Dense attention: cuDNN and FlashAttention-2 through torch, FlashAttention-3 and -4 where their packages are.

Backward is timed alone, as a call of torch's operator of it on the out and the logsumexp of one forward: no autograd, and
no gradient to add to. What the operator does besides its kernels, such as clearing a buffer, is part of it."""

import importlib

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from ..cases import Item
from .first_line import first_line

BACKENDS = {"cudnn": SDPBackend.CUDNN_ATTENTION, "fa2": SDPBackend.FLASH_ATTENTION}
PACKAGES = {"fa3": "flash_attn_interface", "fa4": "flash_attn.cute"}


def like(layout, values):
    """The values in another tensor's layout, so that no operator has to copy them."""
    return torch.empty_like(layout).copy_(values)


def forward_of_torch(work, who):
    q, k, v = work.normal

    def run():
        with sdpa_kernel(BACKENDS[who]):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v)
    return run


def flash_backward(q, k, v, grad_out):
    ops = torch.ops.aten
    out, lse, cum_q, cum_k, max_q, max_k, seed, offset, _ = ops._scaled_dot_product_flash_attention(q, k, v)
    grad_out = like(out, grad_out)
    return lambda: ops._scaled_dot_product_flash_attention_backward(grad_out, q, k, v, out, lse, cum_q, cum_k, max_q, max_k,
                                                                    0.0, False, seed, offset)


def cudnn_backward(q, k, v, grad_out):
    ops = torch.ops.aten
    out, lse, cum_q, cum_k, max_q, max_k, seed, offset, _ = ops._scaled_dot_product_cudnn_attention(q, k, v, None, True)
    grad_out = like(out, grad_out)
    return lambda: ops._scaled_dot_product_cudnn_attention_backward(grad_out, q, k, v, out, lse, seed, offset, None, cum_q,
                                                                    cum_k, max_q, max_k, 0.0, False)


BACKWARDS = {"cudnn": cudnn_backward, "fa2": flash_backward}


def backward_of_torch(work, who):
    return BACKWARDS[who](*work.normal, work.grad_out)


def forward_of_package(work, who):
    function = importlib.import_module(PACKAGES[who]).flash_attn_func
    # These take [batch, tokens, heads, head_dim]; contiguous there, as their users have it.
    q, k, v = (x.transpose(1, 2).contiguous() for x in work.normal)

    def run():
        out = function(q, k, v)
        return (out[0] if isinstance(out, tuple) else out).transpose(1, 2)
    return run


def backward_of_package(work, who):
    """Through autograd, on a graph that is kept: the packages' own operators change between their versions."""
    function = importlib.import_module(PACKAGES[who]).flash_attn_func
    q, k, v = (x.transpose(1, 2).contiguous().requires_grad_() for x in work.normal)
    with torch.enable_grad():
        out = function(q, k, v)
    out = out[0] if isinstance(out, tuple) else out
    grad_out = like(out, work.grad_out.transpose(1, 2))

    def run():
        return tuple(x.transpose(1, 2) for x in torch.autograd.grad(out, (q, k, v), grad_out, retain_graph=True))
    return run


MAKERS = {"forward": {**dict.fromkeys(BACKENDS, forward_of_torch), **dict.fromkeys(PACKAGES, forward_of_package)},
          "backward": {**dict.fromkeys(BACKENDS, backward_of_torch), **dict.fromkeys(PACKAGES, backward_of_package)}}


def items(work, wanted, absent):
    for operation, makers in MAKERS.items():
        judge_of = work.forward_check if operation == "forward" else work.gradient_check
        for who, make in makers.items():
            if not wanted(operation, who):
                continue
            try:
                run = make(work, who)
            except ImportError as error:
                absent(who, f"its package does not load: {error}")
            except Exception as error:
                absent(who, f"{work.case.name}, {operation}: {first_line(error)}")
            else:
                yield Item(work.case, operation, who, run, judge_of("dense"), **work.fields("dense", operation=operation))
