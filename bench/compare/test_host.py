#!/usr/bin/env python3
"""Tests of what needs neither torch nor a GPU: plain asserts, run as a program."""

import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from compare import (cases, counters, counts, document, estimate, protocol, records, relations, suites, summary, table,  # noqa: E402
                     verdict)


def refused(action, *words):
    try:
        action()
    except ValueError as error:
        assert all(word in str(error) for word in words), str(error)
        return
    raise AssertionError("nothing was refused")


# ---- Counting ----


def test_a_share_is_rounded_up_without_the_rounding_of_the_share():
    assert counts.keep_count(0.05, 512) == 26
    assert counts.keep_count(0.2, 5) == 1 and counts.keep_count(0.1, 10) == 1 and counts.keep_count(0.1, 512) == 52
    assert counts.keep_count(1.0, 512) == 512 and counts.keep_count(0.05, 1182) == 60


def test_token_pairs_count_only_the_tokens_of_a_last_block():
    tokens, q_block, kv_block = 300, 128, 64  # blocks of 128, 128, 44 and of 64, 64, 64, 64, 44
    parts = {(False, False): 2 * 4, (False, True): 2, (True, False): 4, (True, True): 1}
    assert counts.kept_token_pairs(parts, tokens, tokens, q_block, kv_block) == tokens * tokens
    assert counts.block_tokens(2, tokens, q_block) == 44 and counts.block_tokens(3, tokens, q_block) == 0
    assert counts.kept_token_pairs({(True, True): 1}, 128, 64, 128, 64) == 128 * 64


def test_the_rule_keeps_the_longer_prefix():
    prob = [0.5, 0.3, 0.1, 0.06, 0.04]
    assert counts.rule_count(prob, 0.2, 0.0) == 1 and counts.rule_count(prob, 0.21, 0.0) == 2
    assert counts.rule_count(prob, 0.2, 0.79) == 2 and counts.rule_count(prob, 0.2, 0.85) == 3
    assert counts.rule_count(prob, 0.0, 0.0) == 1 and counts.rule_count(prob, 0.0, 0.0, min_blocks=0) == 0
    assert counts.rule_count(prob, 0.0, 1.0) == 5


def test_cases_know_their_blocks_and_bytes():
    case = cases.CASES["wan_14b_720p"]
    assert (case.q_blocks, case.kv_blocks) == (591, 1182) and case.all_pairs == 40 * 591 * 1182
    assert case.tensor_bytes == 40 * 75600 * 128 * 2
    assert counts.row_words(case.kv_blocks) == 37


def test_lists_of_names_are_checked():
    assert cases.choose("main", cases.CASES, cases.GROUPS) == cases.GROUPS["main"]
    assert cases.choose("all", cases.CASES, cases.GROUPS) == cases.GROUPS["all"]
    assert cases.choose("forward,mask,forward", cases.OPERATIONS) == ["forward", "mask"]
    assert cases.choose("all", cases.OPERATIONS) == list(cases.OPERATIONS)
    refused(lambda: cases.choose("forwards", cases.OPERATIONS), "forwards", "forward")
    assert cases.choose("usual", cases.MASKS, {"usual": []}) == [], "each case has its own"
    assert cases.choose("forward,mask,backward", cases.OPERATIONS) == ["forward", "mask", "backward"]


def test_the_main_cases_are_those_that_are_promised():
    main = [cases.CASES[name] for name in cases.GROUPS["main"]]
    assert [(case.heads, case.tokens, case.head_dim) for case in main] == [(40, 32768, 128), (40, 32768, 64), (12, 32760, 128)]
    assert all({"random95", "random80", "ones"} == set(case.masks) for case in main[:2]) and main[2].masks == ("random95",)
    assert all({"forward", "backward"} <= set(case.operations) <= set(cases.OPERATIONS) for case in main)
    assert all(set(case.masks) <= set(cases.MASKS) for case in cases.CASES.values())


def test_uneven_rows_and_even_ones_keep_as_much():
    assert counts.uneven_counts(cases.UNEVEN_SHARES, 512) == (11, 102)
    assert counts.uneven_counts(cases.UNEVEN_SHARES, 1182) == (24, 236)
    assert counts.uneven_counts(cases.UNEVEN_SHARES, 16) == (1, 3) and counts.uneven_counts((0.1, 0.2), 2) == (1, 1)
    for total, rows in ((0, 3), (7, 3), (9, 3), (2899, 256)):
        spread = counts.even_counts(total, rows)
        assert len(spread) == rows and sum(spread) == total and max(spread) - min(spread) <= 1
    assert counts.even_counts(2, 4) == [0, 1, 0, 1], "the longer ones are spread out"


def test_every_uneven_mask_has_an_even_one_of_equal_work():
    even_ones = {"uneven": "even11", "dense4": "dense4_even", "columns4": "columns4_even", "band": "random95",
                 "rule": "random95", "rule_p20": "random95", "rule_even": "random95"}
    assert {name: mask.even for name, mask in cases.MASKS.items() if mask.even} == even_ones
    for name, mask in cases.MASKS.items():
        if mask.like:
            assert mask.kind == "even" and cases.MASKS[mask.like].kind != "even"
        if mask.even:
            even = cases.MASKS[mask.even]
            assert even.kind in ("even", "random") and not even.even
            for case in (cases.CASES["h40_n32768_d128"], cases.CASES["wan_14b_720p"]):
                assert abs(even.expected_share(case) - mask.expected_share(case)) < 1e-9


def test_dense_lines_are_part_of_the_expected_share():
    case = cases.CASES["h4_n32768_d128"]
    assert (case.heads, case.q_blocks, case.kv_blocks, case.head_dim) == (4, 256, 512, 128)
    assert abs(cases.MASKS["dense4"].expected_share(case) - (1 - 0.95 * (252 / 256) * (508 / 512))) < 1e-12
    assert abs(cases.MASKS["columns4"].expected_share(case) - (1 - 0.95 * (508 / 512))) < 1e-12
    assert abs(cases.MASKS["uneven"].expected_share(case) - 0.11) < 1e-12
    assert cases.MASKS["ones"].expected_share(case) == 1 and abs(cases.MASKS["rule"].expected_share(case) - 0.05) < 1e-12


def test_masks_are_built_with_the_rules_among_those_asked_for():
    assert cases.rule_masks(("random95", "rule_p20", "ones")) == ["rule_p20"]
    assert cases.rule_masks(("random95",)) == ["rule"], "rule_even is no mask that the rule builds"
    assert cases.rule_masks(("rule_even", "rule", "rule_p20")) == ["rule", "rule_p20"]


def test_backward_counts_as_two_and_a_half_forwards():
    case = cases.CASES["h40_n32768_d64"]
    assert cases.attention_flop(case, 7) == 4 * 7 * 64 and cases.attention_flop(case, 7, "backward") == 10 * 7 * 64


# ---- Protocol ----


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def an_item(who, op="forward", ms=1.0, **more):
    case = cases.CASES["h40_n32768_d128"]
    fields = dict(q_block=128, kv_block=64, kept_pairs=case.all_pairs, all_pairs=case.all_pairs, flop=1e12, estimate_ms=ms)
    return cases.Item(case, op, who, run=lambda: None, **{**fields, **more})


def pairs_of(items, protocols):
    return [(item, name) for item in items for name in protocols]


def test_every_round_measures_everything_once_in_another_order():
    items, seen = [an_item(f"who{i}") for i in range(6)], []

    def measure(item, name):
        seen.append((item.who, name))
        return len(seen)

    assert protocol.run_rounds(pairs_of(items, protocol.PROTOCOLS), measure, 7, 3, 1e9, Clock()) == 7
    per_round = len(items) * 2
    orders = [tuple(seen[i:i + per_round]) for i in range(0, len(seen), per_round)]
    assert len(orders) == 7 and all(len(set(order)) == per_round for order in orders) and len(set(orders)) > 1
    assert all(len(item.samples[name]) == 7 for item in items for name in protocol.PROTOCOLS)
    again = [an_item(f"who{i}") for i in range(6)]
    seen.clear()
    protocol.run_rounds(pairs_of(again, protocol.PROTOCOLS), measure, 1, 3, 1e9, Clock())
    assert tuple(seen) == orders[0]


def test_a_round_that_no_longer_fits_is_not_begun():
    clock, item = Clock(), an_item("a")

    def measure(item, name):
        clock.now += 10
        return 1.0

    assert protocol.run_rounds([(item, "sustained")], measure, 7, 1, 35, clock) == 3
    assert len(item.samples["sustained"]) == 3
    late = an_item("b")
    assert protocol.run_rounds([(late, "sustained")], measure, 7, 1, 0, clock) == 1, "one round always"


def test_lone_calls_are_given_up_where_the_rounds_would_not_fit():
    items = [an_item(f"who{i}", ms=100.0) for i in range(40)]
    everything = protocol.fit(items, protocol.PROTOCOLS, 7, 1e9)
    assert everything == pairs_of(items, protocol.PROTOCOLS)
    whole = 7 * protocol.round_seconds(everything)
    some = protocol.fit(items, protocol.PROTOCOLS, 7, 0.9 * whole)
    assert 7 * protocol.round_seconds(some) <= 0.9 * whole and 40 < len(some) < 80
    assert [pair for pair in some if pair[1] == "sustained"] == pairs_of(items, ["sustained"])
    bursts = [item.who for item, name in some if name == "burst"]
    assert bursts == [item.who for item in items[:len(bursts)]], "those of the first items stay"
    assert protocol.fit(items, protocol.PROTOCOLS, 7, 1) == pairs_of(items, ["sustained"]), "never what is quoted"
    assert protocol.fit(items, ["burst"], 7, 1) == pairs_of(items, ["burst"]), "nor what alone was asked for"


def planned_main(kernels):
    """Items of the main cases with their ms on an H200, roughly; `kernels`: of the library, a case and operation."""
    dense = {"h40_n32768_d128": (36, 62, 100, 190), "h40_n32768_d64": (24, 35, 70, 120), "wan_1.3b_480p": (11, 19, 30, 57)}
    items = [an_item("torch", "copy", 0.5), an_item("torch", "matmul", 1.6)]
    for name in cases.GROUPS["main"]:
        cudnn, fa2, cudnn_backward, fa2_backward = dense[name]
        items += [an_item("cudnn", "forward", cudnn), an_item("fa2", "forward", fa2)]
        items += [an_item("cudnn", "backward", cudnn_backward), an_item("fa2", "backward", fa2_backward)]
        for mask in cases.CASES[name].masks:
            share = cases.MASKS[mask].share
            contenders = kernels + (mask != "ones")
            items += [an_item("x", "forward", 62 * share) for _ in range(contenders)]
            items += [an_item("x", "backward", 250 * share) for _ in range(contenders)]
        if "mask" in cases.CASES[name].operations:
            items += [an_item("x", "mask", 1) for _ in range(2)] + [an_item("x", "mask_forward", 4) for _ in range(kernels + 1)]
    return items


def test_seven_rounds_of_the_main_cases_fit_a_run():
    """550 s, of which two to three minutes go into compiling, checking and weighing."""
    for kernels, left in ((1, 430), (2, 400)):
        pairs = protocol.fit(planned_main(kernels), protocol.PROTOCOLS, protocol.LEAST_ROUNDS, left)
        assert protocol.LEAST_ROUNDS * protocol.round_seconds(pairs) <= left, protocol.round_seconds(pairs)


# ---- Suites ----


def operations_of(name):
    return {part.case: (part.operations, part.masks) for part in suites.SUITES[name].parts}


def test_suites_measure_what_they_say():
    for operation in ("forward", "backward"):
        found = operations_of(operation)
        assert list(found) == ["h40_n32768_d128", "wan_1.3b_480p", "wan_14b_720p", "h40_n32768_d64"]
        assert all(operations == (operation,) for operations, _ in found.values())
        assert {"random95", "random90", "random80", "ones", "rule"} <= set(found["h40_n32768_d128"][1])
        assert suites.SUITES[operation].who == ("sparge", "cudnn") and suites.SUITES[operation].protocols == ("sustained",)
    assert {"columns4", "columns4_even"} <= set(operations_of("backward")["h40_n32768_d128"][1])
    uneven = operations_of("uneven")
    assert set(uneven) == {"h40_n32768_d128", "h4_n32768_d128", "wan_1.3b_480p"}
    assert all(operations == ("forward", "backward") for operations, _ in uneven.values())
    assert {"copy", "pool", "select", "mask", "mask_forward", "forward"} == set(operations_of("mask")["wan_14b_720p"][0])
    sweep = [cases.CASES[part.case].tokens for part in suites.SUITES["mask_sweep"].parts]
    assert sweep[0] == 8192 and sweep[-1] == 2**20 and sweep == sorted(sweep)


def test_suites_name_cases_masks_and_operations_that_there_are():
    for suite in suites.SUITES.values():
        assert set(suite.who) <= set(table.NAMES) and not {"flex", "torch"} & set(suite.who), "no compiler"
        for part in suite.parts:
            assert part.case in cases.CASES and set(part.operations) <= set(cases.OPERATIONS)
            assert set(part.masks) <= set(cases.MASKS)
            evens = {cases.MASKS[name].even for name in part.masks} - {""}
            assert evens <= set(part.masks) or part.operations[0] == "copy", "the even masks are in the same run"


def test_suites_end_in_time():
    for name, suite in suites.SUITES.items():
        expected = estimate.Estimate(suite.parts, suite.who, suite.protocols, protocol.LOAD_S)
        assert expected.seconds(suite.rounds) <= 0.85 * suite.time_limit <= 240, (name, expected.seconds(suite.rounds))
        assert suite.rounds >= 3


def test_an_estimate_knows_the_known_contenders():
    part = suites.Part("h40_n32768_d128", ("copy", "mask", "forward", "backward"), ("random95", "rule_p20"))
    assert list(estimate.items_of(part, ("cudnn", "sparge"))) == [
        ("mask", "sparge", "rule_p20"), ("forward", "cudnn", "dense"), ("forward", "sparge", "random95"),
        ("forward", "sparge", "rule_p20"), ("backward", "cudnn", "dense"), ("backward", "sparge", "random95"),
        ("backward", "sparge", "rule_p20")]
    assert 30 < estimate.item_ms(part, "forward", "cudnn", "dense") < 40
    assert 90 < estimate.item_ms(part, "backward", "cudnn", "dense") < 110
    large = suites.Part("wan_14b_720p", ("backward",), ("random95",))
    assert 450 < estimate.item_ms(large, "backward", "cudnn", "dense") < 600


def test_names_choose_within_a_suite_or_replace_what_it_has():
    suite = suites.SUITES["forward"]
    assert suites.parts_of(suite, [], [], []) == list(suite.parts)
    one = suites.parts_of(suite, ["wan_14b_720p"], [], ["band"])
    assert one == [suites.Part("wan_14b_720p", ("forward",), ("band",))]
    refused(lambda: suites.parts_of(suite, ["tiny"], [], []), "tiny")
    assert suites.parts_of(None, ["tiny"], [], []) == [suites.Part("tiny", cases.OPERATIONS, cases.USUAL_MASKS)]
    assert suites.parts_of(None, ["tiny"], ["forward"], ["ones"]) == [suites.Part("tiny", ("forward",), ("ones",))]


def test_bursts_last_long_enough():
    assert protocol.calls_for(25, 40) == 1 and protocol.calls_for(25, 1) == 25 and protocol.calls_for(25, 24.9) == 2
    assert protocol.seconds_of("sustained", 1.0) >= 0.6 + 0.025
    assert protocol.summarize([3, 1, 2]) == (2, 1, 3, 3) and protocol.summarize([1, 2, 3, 4])[0] == 2.5
    refused(lambda: protocol.summarize([]))


# ---- Judging ----


def test_a_wrong_result_fails_and_a_rounded_one_passes():
    assert verdict.ulp(1.0) == 2.0**-7 and verdict.ulp(0.99) == 2.0**-8 and verdict.ulp(0.0) == 0.0
    assert verdict.forward(1e-3, 8e-4, 1e-6, 1e-6, 0.1)[0]
    assert not verdict.forward(1e-2, 8e-4, 1e-6, 1e-6, 0.1)[0]
    assert not verdict.forward(1e-3, 8e-4, 1e-4, 1e-6, 0.1)[0], "the cosine counts as well"
    assert not verdict.forward(float("nan"), 8e-4, 1e-6, 1e-6, 0.1)[0]
    assert verdict.mask(0, 2, 256, True, 1.0)[0] and not verdict.mask(1, 2, 256, True, 1.0)[0]
    assert not verdict.mask(0, 20, 256, True, 1.0)[0] and verdict.mask(0, 20, 256, False, 1.0)[0]
    assert not verdict.mask(0, 20, 256, False, 20.0)[0], "a mask that keeps everything is not the rule's"


def test_lse_and_gradients_are_judged():
    assert verdict.lse(1e-6, 1e-6, 5.0)[0] and not verdict.lse(1e-3, 1e-6, 5.0)[0]
    assert not verdict.lse(float("nan"), 1e-6, 5.0)[0]
    assert verdict.lse(5e-7, 0.0, 0.0)[0] and not verdict.lse(5e-6, 0.0, 0.0)[0], "near 0 a little more is allowed"
    passed, words = verdict.all_of(verdict.named("dQ", (True, "a")), verdict.named("dK", (False, "b")))
    assert not passed and words == "dQ: a; dK: b"
    assert verdict.all_of((True, "a"), (True, "b")) == (True, "a; b")


# ---- Records and tables ----

MACHINE = {"date": "2026-01-02", "commit": "abc", "gpu": "NVIDIA H200", "driver": "1", "torch": "2", "cudnn": "3"}


def a_run(run_id, selection="s", date="2026-01-02", ms=2.0):
    items = [an_item("cudnn", ms=ms), an_item("sparge_portable", ms=ms / 10, mask="random", mask_name="random95",
                                              kept_pairs=26 * 40 * 256)]
    for item in items:
        item.samples = {"sustained": [item.estimate_ms] * 7, "burst": [item.estimate_ms * 0.9] * 7}
    run = {"id": run_id, "selection": selection, "seed": 1}
    machine = {**MACHINE, "date": date}
    return [records.of_item(item, name, machine, run) for item in items for name in protocol.PROTOCOLS]


def test_a_record_has_the_fields_of_the_format():
    fields = ("run date commit gpu protocol op who variant batch heads kv_heads q_tokens kv_tokens head_dim dtype q_block "
              "kv_block mask kept_pairs all_pairs ms ms_min ms_max rounds gbps").split()
    record = a_run("r")[0]
    assert [field for field in fields if field not in record] == []
    assert record["tflops"] == 500.0 and record["rounds"] == 7 and record["heads"] == record["kv_heads"] == 40


def test_a_run_replaces_its_like_as_a_whole_and_no_other_where_it_should():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "new", "h.jsonl")
        assert records.write(path, a_run("monday", date="2026-01-01")) == set()
        assert records.write(path, a_run("first")) == set()
        assert records.write(path, a_run("masks", selection="other")) == set()
        assert records.write(path, a_run("third")) == set(), "the runs of a day stand beside each other"
        assert records.write(path, a_run("second"), replace=True) == {"first", "third"}
        assert [record["run"] for record in records.read(path)] == ["monday"] * 4 + ["masks"] * 4 + ["second"] * 4
        assert {record["run"] for record in records.latest(records.read(path))} == {"second"}
    refused(lambda: records.write("unused", []))


def test_a_run_is_compared_with_the_latest_earlier_one():
    old = a_run("old", date="2026-01-01", ms=9.0) + a_run("earlier", date="2026-01-01", ms=2.0)
    near, far = a_run("near", ms=2.08), a_run("far", ms=2.2)
    assert records.beyond(records.compare(near, old)) == []
    assert len(records.beyond(records.compare(far, old))) == 4
    assert "within 5 %" in table.comparison_text(near, old) and "earlier" in table.comparison_text(near, old)
    assert "NOT within" in table.comparison_text(far, old) and "+10.0 %" in table.comparison_text(far, old)
    assert "No earlier run" in table.comparison_text(near, near)


def test_the_table_says_what_a_reader_must_know():
    lines = a_run("r")
    text = table.render(lines)
    assert "10x" in text and "94.9 %" in text and "cuDNN" in text and "40 heads" in text
    lines[2]["check"], lines[2]["check_says"], lines[2]["rounds"] = "FAILED", "max error 1", 3
    other = a_run("other")[2:]
    assert "10x" not in table.render(lines[:2] + other), "no ratio across runs"
    text = table.render(lines)
    assert "WRONG RESULT: max error 1" in text and "only 3 rounds" in text
    assert table.number(0.0123456) == "0.0123" and table.number(204.4) == "204" and table.number(0) == ""
    assert table.bytes_text(3 * 2**20) == "3 MiB" and table.bytes_text(0) == "0"


def records_of(run_id, items, date="2026-01-02"):
    for item in items:
        item.samples = {"sustained": [item.estimate_ms] * 7}
    run = {"id": run_id, "selection": "s", "seed": 1}
    return [records.of_item(item, "sustained", {**MACHINE, "date": date, "sources": "x"}, run) for item in items]


def uneven_run(run_id="r", uneven_ms=2.2, dense_ms=36.0):
    pairs = 40 * 256
    return records_of(run_id, [
        an_item("cudnn", ms=dense_ms, flop=1e13),
        an_item("sparge", ms=1.8, mask="random", mask_name="random95", kept_pairs=26 * pairs, flop=1e13 * 26 / 512),
        an_item("sparge", ms=2.0, mask="even", mask_name="even11", kept_pairs=56 * pairs, flop=1e13 * 56 / 512),
        an_item("sparge", ms=uneven_ms, mask="uneven", mask_name="uneven", kept_pairs=56 * pairs, flop=1e13 * 56 / 512),
        an_item("sparge", ms=3.6, mask="rule", mask_name="rule", kept_pairs=52 * pairs, flop=1e13 * 52 / 512)])


def near(value, other):
    return abs(value / other - 1) < 1e-4


def test_speed_is_related_to_dense_attention_and_to_the_even_mask():
    dense, random95, even11, uneven, rule = relations.with_relations(uneven_run())
    assert "times_dense" not in dense and "pair_speed_of_even" not in dense
    assert near(random95["times_dense"], 20) and near(random95["times_dense_at_26_of_512"], 20)
    assert near(random95["pair_speed_of_dense"], 20 * 26 / 512) and random95["dense_ms"] == 36
    assert "times_dense_at_26_of_512" not in uneven, "far from 5 %"
    assert near(uneven["pair_speed_of_even"], 2.0 / 2.2) and uneven["even_mask"] == "even11"
    assert near(rule["pair_speed_of_even"], 1.0) and rule["even_mask"] == "random95"
    assert "pair_speed_of_even" not in even11
    nearly = records_of("r", [an_item("cudnn", ms=190, flop=1e14),
                              an_item("sparge", ms=10, mask="random", mask_name="random95", flop=1e14 * 60 / 1182)])
    assert near(relations.with_relations(nearly)[1]["times_dense_at_26_of_512"], 19 * (60 / 1182) / (26 / 512))
    alone = relations.with_relations(uneven_run()[3:4])[0]
    assert not set(relations.FIELDS) & set(alone), "never across runs"


def test_mask_building_is_related_to_reading_q_and_k():
    reading = 2 * cases.CASES["h40_n32768_d128"].tensor_bytes
    copy = cases.Item(None, "copy", "torch", run=lambda: None, moved_bytes=2.0**31, estimate_ms=0.5)
    lines = records_of("r", [copy, an_item("sparge", "mask", 0.24, mask="rule", mask_name="rule_p20", flop=0.0),
                             an_item("sparge", "mask_forward", 2.4, mask="rule", mask_name="rule_p20"),
                             an_item("cudnn", ms=48.0), an_item("fa2", ms=72.0)])
    mask, both = relations.with_relations(lines)[1:3]
    reading_ms = reading / (2.0**31 / 0.5)
    assert near(mask["reading_ms"], reading_ms) and near(mask["times_reading"], 0.24 / reading_ms)
    assert "times_dense" not in mask and near(both["times_dense"], 20) and near(both["times_fa2"], 30)
    assert near(both["mask_share"], 0.1)
    text = summary.render(lines, lines)
    assert "### Mask building" in text and "| 10 % |" in text and "| 30x |" in text


def test_medians_are_over_all_runs_of_the_same_library():
    history = uneven_run("a", 2.2) + uneven_run("b", 2.5) + uneven_run("c", 2.1)
    runs, uneven = relations.Runs(history), history[-2]
    middle, least, most, count = runs.median(uneven, "pair_speed_of_even")
    assert near(middle, 2.0 / 2.2) and near(least, 2.0 / 2.5) and near(most, 2.0 / 2.1) and count == 3
    assert runs.median(history[0], "times_dense") is None
    other = uneven_run("d", 9.0)
    for record in other:
        record["sources"] = "y"
    assert relations.Runs(history + other).median(uneven, "ms")[3] == 3, "other sources are another library"
    text = summary.render(records.latest(history), history)
    assert "0.909x (0.8 - 0.952, 3 runs)" in text and "### Forward against dense cuDNN" in text
    assert "Backward" not in text and "Mask building" not in text
    assert "| uneven |" in table.render(history[-5:])


def test_kernels_are_listed_in_the_last_run():
    item = an_item("sparge", "backward", kernels={"a_kernel": 0.5, "b_kernel": 1.23456789})
    item.samples = {"sustained": [1.0]}
    item.name  # the record is found by it
    lines = [records.of_item(item, "sustained", MACHINE, {"id": name, "selection": "s", "seed": 1}) for name in "ab"]
    records.set_kernels(lines, [item])
    assert "kernels" not in lines[0] and lines[1]["kernels"] == {"a_kernel": 0.5, "b_kernel": 1.2346}
    assert "b_kernel 1.23, a_kernel 0.5" in summary.render(lines[1:], lines)


def test_backward_is_compared_with_dense_backward():
    dense, ours = an_item("cudnn", ms=2.0), an_item("sparge_portable", "backward", ms=1.0, mask="random", kept_pairs=1)
    dense_backward = an_item("cudnn", "backward", ms=6.0)
    for item in (dense, ours, dense_backward):
        item.samples = {"sustained": [item.estimate_ms] * 7}
    lines = [records.of_item(item, "sustained", MACHINE, {"id": "r", "selection": "s", "seed": 1})
             for item in (dense, ours, dense_backward)]
    text = table.render(lines)
    row = next(line for line in text.splitlines() if line.startswith("| Backward | sparge"))
    assert "| 6x |" in row and relations.with_relations(lines)[1]["times_dense"] == 6.0
    assert "times_dense" not in relations.with_relations(lines[:2])[1], "never with forward"


def test_the_table_says_whether_other_days_repeat_it():
    one = a_run("one", date="2026-01-01")
    assert "of one day, 2026-01-01" in table.days_text(one) and "not known" in table.days_text(one)
    assert table.render(one).count("| none |") == 2
    same_day = one + a_run("two", date="2026-01-01", selection="t", ms=3.0)
    assert "of one day" in table.days_text(same_day), "two runs of a day are one day"
    near, far = one + a_run("near", ms=2.08), one + a_run("far", ms=2.2)
    assert "4 were measured on more than one day; 4 of those repeat within 5 %, 0 do not" in table.days_text(near)
    assert "0 of those repeat within 5 %, 4 do not" in table.days_text(far) and "2.2 ms on 2026-01-02" in table.days_text(far)
    assert "2 days, 4.0 % apart" in table.render(near[4:], near) and "**2 days, 10.0 % apart**" in table.render(far[4:], far)
    renamed = a_run("other")
    for record in renamed:
        record["kernel"] = "another"
    assert "0 were measured on more than one day" in table.days_text(one + renamed), "another kernel is another thing"
    assert "not been measured" in table.days_text([])


def test_plots_draw_medians_of_what_was_measured():
    import plot_mask
    import plot_speedup
    history = uneven_run("a") + uneven_run("b", 2.4) + records_of("other", [an_item("cudnn", ms=1.0)])
    (shape, direction), panel = next(iter(plot_speedup.series_of(history).items()))
    assert shape[1] == 40 and direction == "forward"
    assert set(panel) == {("forward", "sparge", ""), ("forward", "sparge", "uneven"), ("forward", "sparge", "rule")}
    assert near(panel["forward", "sparge", ""][0][1], 20) and near(panel["forward", "sparge", "uneven"][0][1], (15 + 36 / 2.2) / 2)
    sweep = [an_item("sparge", "mask", 0.1, mask="rule", mask_name="rule_p20", flop=0.0) for _ in range(4)]
    sweep += [an_item("sparge", "mask_forward", 1.0, mask="rule", mask_name="rule_p20") for _ in range(4)]
    for item, name in zip(sweep, 2 * cases.GROUPS["sweep"][:4]):
        item.case = cases.CASES[name]
    found = plot_mask.sweeps_of(records_of("sweep", sweep))
    (key, series), = found.items()
    assert key == (1, 12, 128, "rule_p20") and [n for n, _ in series["mask", "ms"]] == [8192, 16384, 32768, 65536]
    assert all(near(share, 0.1) for _, share in series["mask_forward", "mask_share"])
    assert plot_mask.sweeps_of(records_of("short", sweep[:2])) == {}
    assert plot_mask.tokens_text(8192) == "8k" and plot_mask.tokens_text(2**20) == "1M"


def test_the_document_has_a_place_for_every_part():
    import fill_docs
    path = os.path.join(fill_docs.ROOT, "docs", "benchmarks.md")
    with open(path, encoding="utf-8") as file:
        text = file.read()
    for name in fill_docs.contents([], path):
        document.fill(text, name, "")
    filled = fill_docs.contents(uneven_run(), path)
    assert "0.909x" in filled["uneven"] and "20x" in filled["forward"] and not filled["backward"]
    assert set(filled) == set(fill_docs.contents([], path))


COUNTERS_CSV = '''==PROF== Connected to process 7
"ID","Process ID","Kernel Name","Metric Name","Metric Unit","Metric Value"
"0","7","void sparge::entry<sparge::ForwardSm90<X>>(T1::Params)","sm__cycles_elapsed.max","cycle","2,500,000"
"0","7","void sparge::entry<sparge::ForwardSm90<X>>(T1::Params)","dram__bytes_read.sum","Gbyte","1.06"
"0","7","void sparge::entry<sparge::ForwardSm90<X>>(T1::Params)","sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active","%","84.5"
"0","7","void sparge::entry<sparge::ForwardSm90<X>>(T1::Params)","unheard_of.sum","%","1"
'''


def test_counters_say_what_limits_a_kernel():
    assert counters.choose({"sm__cycles_elapsed", "sm__pipe_tensor_cycles_active"}) == [
        "sm__cycles_elapsed.max", "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active"]
    record, = counters.parse(COUNTERS_CSV)
    assert record == {"kernel": "O", "cycles": 2.5e6, "read_bytes": 1.06e9, "tensor_percent": 84.5}
    counted = [{"op": "forward", "case": "c", "mask_name": "random95", **record}]
    line = {"op": "forward", "case": "c", "mask_name": "random95", "protocol": "sustained", "who": "sparge", "ms": 2.0}
    assert counters.mhz_under_load(counted, [line]) == {("forward", "c", "random95"): 1250}
    assert "tensor cores (84 %), power (1250 of 1980 MHz)" in counters.table(counted, [line])
    assert counters.limit_of({"l2_percent": 30}, 1970) == "latency (L2 30 %)"
    assert counters.table([], []) == ""
    refused(lambda: counters.parse("==ERROR== no permission"), "no permission")
    refused(lambda: counters.parse(COUNTERS_CSV.replace("ForwardSm90", "Other")), "Other")


def test_counters_reach_the_document():
    import fill_docs
    with tempfile.TemporaryDirectory() as folder:
        lines, counted, page = (os.path.join(folder, name) for name in ("lines.jsonl", "counters.jsonl", "page.md"))
        records.write(lines, uneven_run())
        record, = counters.parse(COUNTERS_CSV)
        records.write(counted, [{"op": "forward", "case": "some_case", "mask_name": "ones", **record}])
        with open(os.path.join(fill_docs.ROOT, "docs", "benchmarks.md"), encoding="utf-8") as file:
            text = file.read()
        with open(page, "w", encoding="utf-8") as file:
            file.write(text)
        subprocess.run([sys.executable, "-B", fill_docs.__file__, "--records", lines, "--counters", counted, "--document", page], check=True,
                       capture_output=True)
        with open(page, encoding="utf-8") as file:
            assert "| Forward | some_case | ones | O | 84 % |" in file.read()


FAKE_NCU = """#!/bin/sh
case "$*" in
  --query-metrics) echo "sm__cycles_elapsed  Counter"; exit ;;
  *"--launch-count 1"*there/forward_bench*) echo "$*" >> "$CALLS"; cat "$CSV" ;;
  *) echo "no such program" >&2; exit 1 ;;
esac
"""


def test_counters_are_read_of_every_case_of_the_suite():
    script = os.path.join(os.path.dirname(os.path.abspath(counters.__file__)), "..", "counters.py")
    with tempfile.TemporaryDirectory() as folder:
        paths = {name: os.path.join(folder, name) for name in ("ncu", "csv", "calls", "out")}
        for name, text in (("ncu", FAKE_NCU), ("csv", COUNTERS_CSV)):
            with open(paths[name], "w", encoding="utf-8") as file:
                file.write(text)
        os.chmod(paths["ncu"], 0o755)
        environment = {**os.environ, "PATH": folder + os.pathsep + os.environ["PATH"], "CALLS": paths["calls"], "CSV": paths["csv"]}

        def run(*arguments):
            return subprocess.run([sys.executable, "-B", script, "--out", paths["out"], *arguments], env=environment, capture_output=True,
                                  text=True)

        done = run("--programs", "there", "--operations", "forward")
        assert done.returncode == 0, done.stderr
        found = records.read(paths["out"])
        assert [(record["case"], record["mask_name"]) for record in found] == counters.items_of("forward") and len(found) == 8
        assert all(record["op"] == "forward" and record["cycles"] == 2.5e6 for record in found)
        with open(paths["calls"], encoding="utf-8") as file:
            calls = file.read()
        assert "--metrics sm__cycles_elapsed.max" in calls
        filters = re.findall(r"--benchmark_filter=(\S*)", calls)
        whole = "forward/wan_14b_720p/keep_5/bf16{}/iterations:1/manual_time"  # as Google Benchmark matches it
        assert len(filters) == 8 and sum(bool(re.search(one, whole.format(""))) for one in filters) == 1
        assert not any(re.search(one, whole.format("/lse")) for one in filters)
        lost = run("--programs", "elsewhere")
        assert lost.returncode == 1 and "forward/h40_n32768_d128/rule/bf16" in lost.stderr and "backward/wan_1.3b_480p" in lost.stderr
        assert len(records.read(paths["out"])) == 8


def test_kernels_have_short_names():
    assert records.short_name("void sparge::entry<sparge::Pool<__nv_bfloat16, (int)128>>(T1::Params)") == "Pool"
    assert records.short_name("void sparge::entry<sparge::MaskCentre>(sparge::MaskCentre::Params)") == "MaskCentre"
    assert records.short_name("void flash::flash_fwd_kernel<Traits<128>, true>(Params)") == "flash_fwd_kernel"
    assert records.short_name("Memset (Device)") == "Memset (Device)"


def test_a_document_is_filled_between_its_markers():
    text = "a\n<!-- table: begin -->\nold\n<!-- table: end -->\nb\n"
    filled = document.fill(text, "table", "new")
    assert filled == "a\n<!-- table: begin -->\nnew\n<!-- table: end -->\nb\n"
    assert document.fill(filled, "table", "new") == filled
    refused(lambda: document.fill(text, "plot", "x"), "plot")


def main():
    tests = [(name, test) for name, test in sorted(globals().items()) if name.startswith("test_")]
    for name, test in tests:
        test()
        print(f"passed: {name[5:].replace('_', ' ')}")
    print(f"{len(tests)} passed")


if __name__ == "__main__":
    main()
