"""Forward, dq, dk, dv and the gradient through lse against autograd of masked dense attention in f64."""

import pytest
import torch

import reference
from sparge_torch import Keep, build_mask, dense_mask, mask_stats, pack_blocks, sparge_attention, unpack_blocks
from support import close, kept, logical, qkv

SHAPES = {"square": dict(q_tokens=512, kv_tokens=512), "partial blocks": {}, "grouped": dict(kv_heads=2),
          "head_dim 128": dict(head_dim=128),
          "one query": dict(heads=32, kv_heads=32, q_tokens=1, kv_tokens=200), "f16": dict(dtype=torch.float16)}


def gradients_of(function, q, k, v, grad_out, grad_lse):
    leaves = [x.detach().clone().requires_grad_() for x in (q, k, v)]
    out, lse = function(*leaves)
    return out.detach(), lse.detach(), *torch.autograd.grad([out, lse], leaves, [grad_out.to(out.dtype), grad_lse.to(lse.dtype)])


@pytest.mark.parametrize("layout", ["bhnd", "bnhd"])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
def test_results_and_gradients_are_those_of_masked_dense_attention(device, shape, layout):
    q, k, v = qkv(device, layout=layout, **{"batch": 1, **shape})
    mask = build_mask(q, k, top_k=0.2, top_p=0.3, layout=layout)
    keep = kept(mask, k, layout)
    assert 0 < keep.sum() < keep.numel() or keep.numel() < 20
    grad_out = torch.randn_like(q)
    grad_lse = torch.randn(logical(q, layout).shape[:3], device=device)

    found = gradients_of(lambda *x: sparge_attention(*x, mask=mask, layout=layout, return_lse=True), q, k, v, grad_out, grad_lse)
    inputs = [logical(x, layout) for x in (q, k, v, grad_out)]
    truth, naive = (gradients_of(lambda *x: reference.attention(*x, keep, working=working),  # noqa: B023
                                 *(x.to(working) for x in inputs), grad_lse) for working in (torch.float64, q.dtype))
    for name, x, exact, rough in zip(("out", "lse", "dq", "dk", "dv"), found, truth, naive, strict=True):
        close(x if name == "lse" else logical(x, layout), exact, rough, name)


def test_out_alone_and_lse_alone_have_gradients(device):
    q, k, v = qkv(device, grad=True)
    both = sparge_attention(q, k, v, top_k=0.3, return_lse=True)
    of_out, of_lse = (torch.autograd.grad(part.double().square().sum(), (q, k, v), retain_graph=True) for part in both)
    together = torch.autograd.grad(sum(part.double().square().sum() for part in both), (q, k, v))
    assert of_lse[2].abs().max() == 0, "lse does not depend on v"
    for x, one, other in zip(together, of_out, of_lse, strict=True):
        close(x, one.double() + other.double(), one.double() + other.double(), units=3)  # one rounding more on each side


def test_a_sum_hands_back_a_gradient_without_strides(device):
    q, k, v = qkv(device, grad=True)
    mask = build_mask(q, k, top_k=0.3)
    expanded = torch.autograd.grad(sparge_attention(q, k, v, mask=mask).sum(), (q, k, v))
    out = sparge_attention(q, k, v, mask=mask)
    plain = torch.autograd.grad(out, (q, k, v), torch.ones_like(out))
    assert all(torch.equal(a, b) for a, b in zip(expanded, plain, strict=True))


def test_slices_of_fused_qkv_are_read_where_they_lie(device):
    fused = torch.randn(2, 300, 3, 4, 64, device=device).bfloat16()
    q, k, v = fused.unbind(2)
    apart = [x.contiguous() for x in (q, k, v)]
    assert torch.equal(sparge_attention(q, k, v, top_k=0.3, layout="bnhd"), sparge_attention(*apart, top_k=0.3, layout="bnhd"))


def test_layouts_agree_to_the_bit(device):
    q, k, v = qkv(device)
    swapped = [x.transpose(1, 2) for x in (q, k, v)]
    for inputs in (swapped, [x.contiguous() for x in swapped]):
        out = sparge_attention(*inputs, top_k=0.2, top_p=0.3, layout="bnhd")
        assert torch.equal(out.transpose(1, 2), sparge_attention(q, k, v, top_k=0.2, top_p=0.3))


def test_rows_that_keep_nothing_are_zero(device):
    q, k, v = qkv(device, grad=True)
    keep = torch.zeros(2, 4, 3, 8, dtype=torch.bool, device=device)
    keep[:, :, 1:, 2] = True
    out, lse = sparge_attention(q, k, v, mask=pack_blocks(keep), return_lse=True)
    assert out[:, :, :128].abs().max() == 0 and lse[:, :, :128].eq(float("-inf")).all() and lse[:, :, 128:].isfinite().all()
    grads = torch.autograd.grad(out.square().sum(), (q, k, v))
    assert grads[1][:, :, :128].abs().max() == 0 and all(x.isfinite().all() for x in grads)


def test_a_mask_of_ones_is_dense_attention(device):
    q, k, v = qkv(device, kv_heads=2)
    out = sparge_attention(q, k, v, mask=dense_mask(q, k))
    truth, naive = (torch.nn.functional.scaled_dot_product_attention(*(x.to(working) for x in (q, k, v)), enable_gqa=True)
                    for working in (torch.float64, torch.bfloat16))
    close(out, truth, naive)


def test_mask_words_and_blocks_turn_into_each_other(device):
    keep = torch.rand(2, 3, 5, 77, device=device) < 0.4
    words = pack_blocks(keep)
    assert words.dtype == torch.int32 and words.shape == (2, 3, 5, 3) and torch.equal(unpack_blocks(words, 77), keep)
    with pytest.raises(TypeError, match="torch.bool"):
        pack_blocks(keep.int())


@pytest.mark.parametrize("keep", [None, Keep(band_tokens=40), Keep(kv_front_tokens=10, kv_back_tokens=70, dense_q_front_tokens=1)],
                         ids=["scores alone", "band", "ends"])
def test_masks_follow_the_rule(device, keep):
    q, k, _ = qkv(device)
    of_head = torch.tensor([0.05, 0.5, float("nan"), 2.0], device=device)
    for top_k, top_p in ((0.2, 0.0), (0.0, 0.5), (0.1, 0.4), (of_head, 0.1)):
        if device == "cpu" and isinstance(top_k, torch.Tensor):
            continue  # the reference does not clamp shares
        found = kept(build_mask(q, k, top_k=top_k, top_p=top_p, keep=keep), k)
        if isinstance(top_k, torch.Tensor):
            top_k = top_k.nan_to_num(0.0).clamp(0, 1)
        truth = reference.rule(q, k, top_k, top_p, 1, (keep or Keep()).numbers(), (128, 64))
        # Blocks whose scores differ by less than f32 may change places.
        assert (found != truth).sum() <= 2, f"top_k {top_k}, top_p {top_p}"


def test_stats_count_the_mask(device):
    q, k, v = qkv(device)
    out, stats = sparge_attention(q, k, v, top_k=0.1, top_p=0.3, keep=Keep(band_tokens=70), return_stats=True)
    keep = kept(build_mask(q, k, top_k=0.1, top_p=0.3, keep=Keep(band_tokens=70)), k)
    assert torch.equal(stats.kept_pairs, keep.sum((2, 3))) and bool((stats.all_pairs == 3 * 8).all()) and not stats.dense
    owed = stats.owed_to_both + stats.owed_to_top_k + stats.owed_to_top_p + stats.owed_to_force
    assert torch.equal(owed, stats.kept_pairs) and bool((stats.owed_to_force > 0).any())
    assert bool(((stats.pooled_mass > 0) & (stats.pooled_mass <= 1 + 1e-9)).all())
    assert torch.allclose(stats.sparsity, 1 - keep.double().mean((2, 3)))
    foreign = mask_stats(q, k, dense_mask(q, k), min_blocks=0)
    assert torch.equal(foreign.owed_to_force, foreign.all_pairs)
