"""torch's own checks of the operators: schemas, fake kernels against real ones, autograd registration, tracing with dynamic
shapes."""

import pytest
import torch

from sparge_torch import Keep, Rule, Schedule, Stack, build_mask, dense_mask, sparge_attention
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
    yield ops.sparse_attention.default, (q, k, v, *rule, *how)
    yield ops.sparse_attention.default, (*leaves, *of_head, *how)
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


def operators_of(function):
    """(result, names of this package's operators that ran), as torch's profiler sees them."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        result = function()
    return result, [event.name.removeprefix("sparge::") for event in profile.events() if event.name.startswith("sparge::")]


ONE, TWO = ["sparse_attention"], ["build_mask", "attention"]


@pytest.mark.parametrize("layout", ["bhnd", "bnhd"])
def test_where_nobody_asks_for_more_than_out_it_is_one_operator_of_the_same_bits(device, layout):
    q, k, v = qkv(device, kv_heads=2, layout=layout, grad=True)
    shares = torch.tensor([0.1, 0.2, 0.3, 0.4], device=device)

    def run(**options):
        return sparge_attention(q, k, v, top_k=shares, top_p=0.3, keep=Keep(band_tokens=3), layout=layout, **options)

    out, names = operators_of(run)
    assert names == TWO and out.requires_grad
    with torch.no_grad():
        assert operators_of(lambda: run(return_lse=True))[1] == TWO
        assert operators_of(lambda: run(return_stats=True))[1] == [*TWO, "mask_stats"]
        without, names = operators_of(run)
    assert names == ONE and not without.requires_grad and torch.equal(without, out) and without.stride() == out.stride()
    with torch.inference_mode():
        assert torch.equal(run(), out)
    q, k, v = q.detach(), k.detach(), v.detach()
    constant, names = operators_of(run)
    assert names == ONE and torch.equal(constant, out)


def test_the_one_operator_has_gradients_of_its_own(device):
    leaves, arguments = qkv(device, grad=True), (*Rule(0.2, 0.3).arguments(), *HOW["bhnd"])
    out, expected = torch.ops.sparge.sparse_attention.default(*leaves, *arguments), sparge_attention(*leaves, top_k=0.2, top_p=0.3)
    assert torch.equal(out, expected)
    grads = [torch.autograd.grad(x.float().square().sum(), leaves) for x in (out, expected)]
    assert all(torch.equal(x, y) for x, y in zip(*grads, strict=True))


def test_modes_see_the_mask(device):
    """Selective checkpoints save what build_mask returns, and whoever else looks at operators finds the two."""
    class Names(torch.utils._python_dispatch.TorchDispatchMode):
        names = []

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            if function.namespace == "sparge":
                self.names.append(function._opname)
            return function(*args, **(kwargs or {}))

    q, k, v = qkv(device)
    with Names() as mode:
        seen = sparge_attention(q, k, v, top_k=0.3)
    assert mode.names == TWO and torch.equal(seen, sparge_attention(q, k, v, top_k=0.3))


def test_a_stack_that_needs_no_mask_is_one_operator_a_layer(device):
    q, k, v = qkv(device)
    kept = Stack(1, Schedule(Rule(0.3), rebuild_every=2))
    (out, one), (same, two) = (operators_of(lambda: stack.attend(0, q, k, v)) for stack in (Stack(1, Schedule(Rule(0.3))), kept))  # noqa: B023
    assert (one, two) == (ONE, TWO) and torch.equal(out, same)


def test_a_given_mask_is_one_operator_with_and_without_gradients(device):
    q, k, v = qkv(device, grad=True)
    mask = dense_mask(q, k)
    out, names = operators_of(lambda: sparge_attention(q, k, v, mask=mask))
    with torch.no_grad():
        constant, same = operators_of(lambda: sparge_attention(q, k, v, mask=mask))
    assert names == same == ["attention"] and torch.equal(out, constant) and out.requires_grad and not constant.requires_grad


def test_a_mask_is_a_constant(device):
    q, k, _ = qkv(device, grad=True)
    mask = build_mask(q, k, top_k=0.3)
    assert not mask.requires_grad and mask.grad_fn is None


def test_second_derivatives_are_refused(device):
    q, k, v = qkv(device, grad=True)
    with pytest.raises(NotImplementedError, match="second derivative"):
        torch.autograd.grad(sparge_attention(q, k, v, top_k=0.3).sum(), q, create_graph=True)
