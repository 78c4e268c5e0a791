#!/usr/bin/env python3
"""Tests of the masks, on the CPU: plain asserts, run as a program. Exits with 77, skipped, where there is no torch."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

try:
    import torch
except ImportError:
    print("skipped: there is no torch here")
    sys.exit(77)

from compare import cases, check, check_gradient, counts, masks  # noqa: E402
from compare.contenders.workload import Workload  # noqa: E402

CASE = cases.Case("test", 1, 2, 8100, 64)  # 64 query blocks and 127 key blocks, the last of each partial
work = Workload(CASE, "cpu")


def row_counts(name):
    return work.keep(name).sum(3)


def test_every_mask_can_be_made_and_packed():
    for name in cases.MASKS:
        keep = work.keep(name)
        assert keep.dtype == torch.bool and keep.shape == (1, 2, CASE.q_blocks, CASE.kv_blocks), name
        assert bool((masks.unpack_bits(masks.pack_bits(keep), CASE.kv_blocks) == keep).all()), name
        assert bool((Workload(CASE, "cpu").keep(name) == keep).all()), "the same each time"
        share = cases.MASKS[name].expected_share(CASE)
        assert abs(float(keep.float().mean()) - share) < 0.012, (name, float(keep.float().mean()), share)


def test_even_masks_keep_as_much_as_what_they_are_like():
    for name, mask in cases.MASKS.items():
        if mask.like:
            rows = row_counts(name)
            assert int(rows.sum()) == int(row_counts(mask.like).sum()) and int(rows.max() - rows.min()) <= 1, name


def test_uneven_rows_keep_between_two_shares():
    least, most = counts.uneven_counts(cases.UNEVEN_SHARES, CASE.kv_blocks)
    rows = row_counts("uneven")
    assert int(rows.min()) == least and int(rows.max()) == most and len(rows.unique()) > 15


def test_dense_lines_are_four_a_head():
    for name, dense_rows in (("dense4", 4), ("columns4", 0)):
        keep = work.keep(name)
        assert ((keep.sum(3) == CASE.kv_blocks).sum(2) == dense_rows).all(), name
        assert ((keep.sum(2) == CASE.q_blocks).sum(2) == 4).all(), name
        assert bool((keep | ~work.keep("random95")).all()), "on top of a random mask"
    dense = work.keep("dense4").all(3)
    assert not bool((dense[0, 0] == dense[0, 1]).all()), "each head has its own"


def test_a_band_has_even_rows_that_are_like_their_neighbours():
    keep = work.keep("band")
    assert bool((row_counts("band") == counts.keep_count(0.05, CASE.kv_blocks)).all())
    shared = float((keep[:, :, 1:] & keep[:, :, :-1]).sum() / keep[:, :, 1:].sum())
    assert shared > 0.5, shared
    assert all(bool(keep[0, h, i, min(2 * i, CASE.kv_blocks - 1)]) for h in range(2) for i in range(CASE.q_blocks))


def test_the_rule_keeps_its_share_with_a_given_top_p():
    assert work.rule_inputs("rule_p20").tail == 0.8
    for name in ("rule", "rule_p20"):
        assert work.mask_check(name)(work.keep(name))[0]
        assert abs(float(work.keep(name).float().mean()) - 0.05) < 0.01
    assert work.qkv("rule_even")[0] is work.qkv("rule")[0] and work.qkv("random95")[0] is work.normal[0]


def test_checks_look_at_the_longest_and_the_shortest_row_and_the_longest_column():
    keep = work.keep("dense4")
    (_, h, i), (_, other_h, other_i) = check.uneven_rows(keep, CASE.q_block)
    assert bool(keep[0, h, i // CASE.q_block].all())
    assert int(keep[0, other_h, other_i // CASE.q_block].sum()) == int(keep.sum(3).min())
    assert check.uneven_rows(work.keep("random95"), CASE.q_block) == [] and check.uneven_rows(None, 128) == []
    for (b, h), keys in check_gradient.sample_keys(CASE, keep, CASE.kv_block).items():
        assert any(bool(keep[b, h, :, key // CASE.kv_block].all()) for key in keys)


def test_a_wrong_longest_row_is_seen():
    q, k, v = work.normal
    keep = work.keep("dense4")
    full = keep.repeat_interleave(CASE.q_block, 2)[:, :, :CASE.tokens]
    full = full.repeat_interleave(CASE.kv_block, 3)[..., :CASE.tokens]
    out = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=full)
    truth = work.forward_check("dense4")
    assert truth(out)[0], truth(out)[1]
    _, h, i = check.uneven_rows(keep, CASE.q_block)[0]
    out[0, h, i] *= 1.5
    assert not truth(out)[0]


def main():
    torch.set_grad_enabled(False)
    tests = [(name, test) for name, test in sorted(globals().items()) if name.startswith("test_")]
    for name, test in tests:
        test()
        print(f"passed: {name[5:].replace('_', ' ')}")
    print(f"{len(tests)} passed")


if __name__ == "__main__":
    main()
