"""Schedules, the dense fallback, the report."""

import pytest
import torch

from sparge_torch import Report, Rule, Schedule, Stack, dense_attention, sparge_attention
from sparge_torch.schedule import BUILT, DENSE_LAYER, DENSE_SHORT, DENSE_STEP, REUSED
from support import close, qkv

LIGHT, HEAVY, LATE = Rule(0.5), Rule(0.1, 0.2), Rule(0.3)


def test_a_schedule_chooses_by_step_and_layer():
    schedule = Schedule(LIGHT, rule_of_layer={2: HEAVY}, rule_from_step={5: LATE, 9: HEAVY}, dense_steps=2,
                        dense_layers=1, rebuild_every=3)
    kinds = [schedule.choose(step, 1).kind for step in range(9)]
    assert kinds == [DENSE_STEP] * 2 + [BUILT, REUSED, REUSED] * 2 + [BUILT]
    assert schedule.choose(0, 0).kind == DENSE_STEP
    assert schedule.choose(4, 0).kind == DENSE_LAYER and schedule.choose(4, 0).rule is None
    assert [schedule.choose(step, 1).rule for step in (4, 5, 8, 9)] == [LIGHT, LATE, LATE, HEAVY]
    assert schedule.choose(5, 2).rule is HEAVY, "a layer's own rule goes first"


@pytest.mark.parametrize("name, value", [("dense_steps", -1), ("dense_below_tokens", -5), ("rebuild_every", 0)])
def test_a_schedule_that_makes_no_sense_is_refused_by_name_and_value(name, value):
    with pytest.raises(ValueError, match=f"{name} is {value}; it must be at least"):
        Schedule(LIGHT, **{name: value})


def test_layers_follow_the_schedule_and_the_report_says_so(device):
    report = Report(3, device)
    stack = Stack(3, Schedule(LIGHT, rule_of_layer={2: HEAVY}, dense_steps=1, dense_layers=1, rebuild_every=2), report)
    q, k, v = qkv(device)
    for step in range(4):
        stack.start_step(step)
        outs = [stack.attend(layer, q, k, v) for layer in range(3)]
        for out, rule in zip(outs, [None, LIGHT, HEAVY], strict=True):
            dense = step == 0 or rule is None
            expected = dense_attention(q, k, v) if dense else sparge_attention(q, k, v, top_k=rule.top_k, top_p=rule.top_p)
            assert torch.equal(out, expected)
    rows = report.rows()
    counts = [(row[DENSE_STEP], row[DENSE_LAYER], row[BUILT], row[REUSED]) for row in rows]
    assert counts == [(1, 3, 0, 0), (1, 0, 2, 1), (1, 0, 2, 1)]
    _, stats = sparge_attention(q, k, v, top_k=0.5, return_stats=True)
    assert rows[1]["kept_pairs"] == 2 * stats.kept_pairs.sum().item() and rows[1]["heads"] == 2 * 8
    summary = report.summary()
    assert summary["calls"] == 12 and summary[BUILT] == 4 and 0 < summary["sparsity of masks"] < 1
    density = 1 - summary["sparsity of masks"]
    assert summary["share of pairs computed"] == pytest.approx((6 * density + 6) / 12)
    text = str(report)
    assert text.count("\n|") == 4 and "dense, first steps: 3" in text and "sparsity of masks: 0." in text
    report.reset()
    assert report.summary()["calls"] == 0 and "-" in str(report)


def test_reuse_without_a_mask_of_this_shape_builds_one(device):
    report = Report(1, device)
    stack = Stack(1, Schedule(LIGHT, rebuild_every=4), report)
    stack.start_step(2)
    for tokens in (500, 500, 700):
        stack.attend(0, *qkv(device, kv_tokens=tokens))
    stack.start_step(3, branch="without condition")
    stack.attend(0, *qkv(device, kv_tokens=700))
    row, = report.rows()
    assert (row[BUILT], row[REUSED]) == (3, 1)


def test_below_the_stated_length_attention_is_dense_and_says_so(device):
    q, k, v = qkv(device)
    out, lse, stats = sparge_attention(q, k, v, top_k=0.1, dense_below=501, return_lse=True, return_stats=True)
    assert stats.dense and torch.equal(stats.kept_pairs, stats.all_pairs) and stats.sparsity.max() == 0
    truth = torch.logsumexp(q.double() @ k.double().transpose(-1, -2) / 8, -1)
    assert (lse - truth).abs().max() <= 1e-5 * truth.abs().max()
    alone = sparge_attention(q, k, v, top_k=0.1, dense_below=501)
    assert torch.equal(alone, dense_attention(q, k, v))
    close(out, alone, alone, units=2)
    _, at_the_length = sparge_attention(q, k, v, top_k=0.1, dense_below=500, return_stats=True)
    assert not at_the_length.dense and at_the_length.sparsity.min() > 0

    report = Report(1, device)
    stack = Stack(1, Schedule(HEAVY, dense_below_tokens=501), report)
    assert torch.equal(stack.attend(0, q, k, v), alone)
    assert report.summary()[DENSE_SHORT] == 1 and report.summary()["share of pairs computed"] == 1.0
