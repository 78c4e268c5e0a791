"""torch's own checks of the operators: schemas, fake kernels against real ones, autograd registration, tracing with dynamic
shapes."""

import pytest
import torch

from sparge_torch import Keep, Rule, build_mask
from support import logical, qkv

HOW = {"bhnd": ([128, 64], 0.0, "bhnd"), "bnhd": ([128, 64], 0.1, "bnhd")}


def samples(device, layout):
    """(operator, arguments) of every operator."""
    ops = torch.ops.sparge
    q, k, v = qkv(device, batch=1, kv_heads=2, q_tokens=130, kv_tokens=200, layout=layout)
    how = HOW[layout]
    rule = Rule(0.2, 0.3, Keep(band_tokens=3)).arguments()
    of_head = Rule(torch.full((4,), 0.2, device=device), 0.3).arguments()
    mask = build_mask(q, k, top_k=0.2, top_p=0.3, layout=layout)
    leaves = [x.clone().requires_grad_() for x in (q, k, v)]
    out, lse = ops.attention.default(q, k, v, mask, *how)
    grad_out, grad_lse = torch.randn_like(out), torch.randn_like(lse)
    yield ops.build_mask.default, (q, k, *rule, *how)
    yield ops.build_mask.default, (*leaves[:2], *of_head, *how)
    yield ops.mask_stats.default, (q, k, mask, *rule, *how)
    yield ops.attention.default, (q, k, v, mask, *how)
    yield ops.attention.default, (*leaves, mask, *how)
    yield ops.attention_backward.default, (grad_out, grad_lse, q, k, v, out, lse, mask, *how)
    yield ops.attention_backward.default, (None, grad_lse, q, k, v, out, lse, mask, *how)
    of_sum = torch.ones(1, device=device, dtype=q.dtype).expand(q.shape)
    yield ops.attention_backward.default, (of_sum, None, q, k, v, out, lse, mask, *how)
    student = torch.randn(3, 40, device=device, requires_grad=True)
    teacher, weights = torch.randn(3, 40, device=device), torch.rand(3, device=device)
    yield ops.distillation_loss.default, (student, teacher, weights)
    yield ops.distillation_loss_backward.default, (torch.ones((), device=device), student.detach(), teacher, None)


@pytest.mark.parametrize("layout", ["bhnd", "bnhd"])
def test_opcheck(device, layout):
    for operator, arguments in samples(device, layout):
        torch.library.opcheck(operator, arguments)


def test_outputs_lie_as_q_does(device):
    q, k, v = qkv(device)
    interleaved = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v)]
    fused = torch.randn(2, 300, 3, 4, 64, device=device).bfloat16().unbind(2)
    for inputs, layout in (((q, k, v), "bhnd"), (interleaved, "bhnd"), (fused, "bnhd")):
        mask = build_mask(*inputs[:2], top_k=0.3, layout=layout)
        out, lse = torch.ops.sparge.attention.default(*inputs, mask, [128, 64], 0.0, layout)
        assert out.stride() == torch.empty_like(inputs[0]).stride() and lse.is_contiguous()
        assert lse.shape == logical(inputs[0], layout).shape[:3]


def test_a_mask_is_a_constant(device):
    q, k, _ = qkv(device, grad=True)
    mask = build_mask(q, k, top_k=0.3)
    assert not mask.requires_grad and mask.grad_fn is None


def test_second_derivatives_are_refused(device):
    q, k, v = qkv(device, grad=True)
    from sparge_torch import sparge_attention
    with pytest.raises(NotImplementedError, match="second derivative"):
        torch.autograd.grad(sparge_attention(q, k, v, top_k=0.3).sum(), q, create_graph=True)
