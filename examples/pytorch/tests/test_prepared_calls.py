"""Plans and arguments, made by the library without a GPU: for one that is described by hand."""

import os

import pytest
import torch

import sparge_ctypes as abi
from sparge_torch import Error, calls
from support import qkv

RULE = (0.03, 0.2, 1, (-1, 0, 0, 0, 0))
HOW = ((128, 64), 0.0, "bhnd")


@pytest.fixture(autouse=True)
def described_gpu(monkeypatch):
    if "SPARGE_LIBRARY" not in os.environ:
        pytest.skip("needs the library: set SPARGE_LIBRARY to its path")
    h200 = abi.Device(capability_major=9, sm_count=132, shared_bytes_per_block=232448, shared_bytes_per_sm=233472, l2_bytes=62914560)
    monkeypatch.setattr(calls, "device", lambda index: h200)
    prepared = (calls.build_mask, calls.attention, calls.sparse_attention, calls.attention_backward, calls.pool, calls.mask_stats,
                calls.distillation_loss)
    for one in prepared:
        one.cache_clear()
    yield
    for one in prepared:
        one.cache_clear()  # nothing that was planned for the described GPU may reach a real one


def describe(x):
    """As if the tensor lay on cuda:0."""
    return (*calls.describe(x)[:3], 0)


def prepared_attention(q, k, v, how=HOW):
    mask = torch.empty(calls.shapes.mask_shape(q.shape, k.shape, *how[::2]), dtype=torch.int32)
    return calls.attention(describe(q), describe(k), describe(v), describe(mask), *how)


def test_a_call_is_prepared_once_for_its_shapes_and_strides():
    q, k, v = qkv("cpu")
    first = prepared_attention(q, k, v)
    assert prepared_attention(torch.empty_like(q), k, v) is first
    assert prepared_attention(q, k, v, ((128, 64), 0.5, "bhnd")) is not first
    assert prepared_attention(q[:, :, ::2], k, v) is not first
    assert first.lse_shape == (2, 4, 300) and first.template.mask.words == 2 * 4 * 3
    assert first.workspace_bytes == first.plan.workspace_bytes and first.workspace_bytes % 256 == 0


@pytest.mark.parametrize("layout", ["bhnd", "bnhd"])
def test_arguments_have_the_strides_of_the_tensors_in_logical_order(layout):
    q, k, v = qkv("cpu", layout=layout)
    fused = torch.empty(2, 300, 3, 4, 64, dtype=torch.bfloat16)[:, :, 0]
    fused = fused if layout == "bnhd" else fused.transpose(1, 2)
    template = prepared_attention(fused, k, v, ((128, 64), 0.0, layout)).template
    assert list(template.q.shape) == [2, 4, 300, 64] and list(template.q.stride) == [300 * 768, 64, 768, 1]
    assert list(template.out.stride) == [300 * 256, 64, 256, 1], "out lies as q does, without its gaps"
    assert list(template.k.stride) == ([500 * 256, 500 * 64, 64, 1] if layout == "bhnd" else [500 * 256, 64, 256, 1])


def test_arguments_of_two_calls_share_nothing():
    call = prepared_attention(*qkv("cpu"))
    one, other = call.arguments(), call.arguments()
    one.q.data = 4096
    assert other.q.data is None and call.template.q.data is None
    assert one.struct_size == abi.ForwardArgs().struct_size


def test_rules_reach_the_library():
    q, k, _ = qkv("cpu")
    call = calls.build_mask(describe(q), describe(k), (0.03, 0.2, 2, (70, 1, 2, 3, 4)), *HOW)
    rule = call.arguments().rule.contents
    assert (rule.top_k, rule.top_p, rule.min_blocks, rule.has_band, rule.band_tokens) == (0.03, 0.2, 2, 1, 70)
    assert (rule.kv_front_tokens, rule.kv_back_tokens, rule.dense_q_front_tokens, rule.dense_q_back_tokens) == (1, 2, 3, 4)
    assert calls.build_mask(describe(q), describe(k), RULE, *HOW).arguments().rule.contents.has_band == 0


def test_every_call_has_a_plan():
    q, k, v = qkv("cpu", kv_heads=2)
    mask = torch.empty(2, 4, 3, 1, dtype=torch.int32)
    backward = calls.attention_backward(*(describe(x) for x in (q, q, k, v, q, mask)), *HOW)
    assert backward.plan.workspace_bytes >= 2 * 4 * 300 * 8
    assert calls.pool(describe(q), describe(k), *HOW).pooled_shapes == [(2, 4, 3, 64), (2, 2, 8, 64)]
    assert calls.mask_stats(describe(q), describe(k), describe(mask), RULE, *HOW).plan.workspace_bytes >= 0
    assert calls.distillation_loss(describe(torch.empty(3, 5, 7)), 0).plan.workspace_bytes > 0


class Recorder:
    """In place of a call of the library: what it got."""

    def __init__(self):
        self.got = []

    def __call__(self, arguments, workspace, workspace_bytes, stream):
        self.got.append((arguments, workspace, workspace_bytes, stream))


def test_mask_and_workspaces_of_one_operator_share_an_allocation_and_do_not_overlap(monkeypatch):
    q, k, v = qkv("cpu")
    call = calls.sparse_attention(describe(q), describe(k), describe(v), RULE, *HOW)
    assert calls.sparse_attention(describe(q), describe(k), describe(v), RULE, *HOW) is call
    assert call.of_mask is calls.build_mask(describe(q), describe(k), RULE, *HOW) and call.of_attention is prepared_attention(q, k, v)
    memory = []

    def empty(size, dtype, device):
        memory.append(torch.zeros(size, dtype=dtype))
        return memory[-1]
    monkeypatch.setattr(calls.torch, "empty", empty)
    monkeypatch.setattr(calls, "current_device", lambda: 0)
    monkeypatch.setattr(calls, "current_stream", lambda index: 77)
    mask_call, attention_call = Recorder(), Recorder()
    monkeypatch.setattr(call.of_mask, "call", mask_call)
    monkeypatch.setattr(call.of_attention, "call", attention_call)
    call.run(call.of_mask.arguments(), call.of_attention.arguments())

    one, = memory
    (of_mask, scratch, mask_bytes, stream), = mask_call.got
    (of_attention, same, attention_bytes, other), = attention_call.got
    assert scratch == same == one.data_ptr() and stream == other == 77
    assert (mask_bytes, attention_bytes) == (call.of_mask.plan.workspace_bytes, call.of_attention.plan.workspace_bytes)
    begin = of_mask.mask.data - scratch
    assert of_attention.mask.data == of_mask.mask.data and begin % 256 == 0 and begin >= max(mask_bytes, attention_bytes)
    assert begin + 4 * of_mask.mask.words == one.numel() and of_mask.mask.words == of_attention.mask.words == 2 * 4 * 3


def test_refusals_by_a_call_that_was_made_ready_are_the_librarys():
    call = prepared_attention(*qkv("cpu"))
    with pytest.raises(Error, match="q"):
        call.call(call.arguments(), None, 0, None)


def test_refusals_of_plans_name_field_and_value():
    with pytest.raises(Error, match="head_dim.*96"):
        prepared_attention(*qkv("cpu", head_dim=96))
    q, k, v = qkv("cpu")
    with pytest.raises(Error, match="q_block.*100"):
        prepared_attention(q, k, v, ((100, 64), 0.0, "bhnd"))
