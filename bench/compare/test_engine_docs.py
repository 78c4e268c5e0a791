#!/usr/bin/env python3
"""Tests of bench/fill_engine_docs.py: plain asserts, run as a program."""

import json
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

import fill_engine_docs as engine  # noqa: E402

RECORD = {"date": "2026-01-02", "gpu": "a GPU", "sources": "abc", "kernel": "a kernel", "model": "a model", "dim": 1536, "heads": 12,
          "ffn": 8960, "tokens": 32760, "text_tokens": 512, "model_layers": 30, "layers": 4, "arena_bytes": 1, "top_k": 0.03,
          "top_p": 0.05, "kept_pairs": 50, "all_pairs": 1000, "pooled_mass": 0.05, "dense_step_ms": 80.0, "sparse_step_ms": 32.0,
          "dense_layer_ms": {"linear": 3.0, "mask": 0.0, "self_attention": 15.0, "cross_attention": 0.5, "elementwise": 1.5},
          "sparse_layer_ms": {"linear": 3.0, "mask": 1.0, "self_attention": 2.0, "cross_attention": 0.5, "elementwise": 1.5},
          "steps": 50, "passes": 2, "other_dense_ms": 0, "speedup": 2.5, "attention_speedup": 5.0, "projected_speedup": 2.5,
          "published_speedup": 2.3}
DOCUMENT = "before\n<!-- end to end: begin -->\nold\n<!-- end to end: end -->\nafter\n"


def test_no_run_is_said_to_be_none():
    filled = engine.fill(DOCUMENT, [])
    assert engine.NOTHING in filled and "old" not in filled and filled.startswith("before") and filled.endswith("after\n")
    assert engine.read("no such file") == []


def test_shares_and_seconds_come_from_the_record():
    filled = engine.fill(DOCUMENT, [RECORD])
    assert "| 95.0 % | 75 %, 38 % | 20, 8 | 5.0x | **2.50x** | 2.50x |  | 2.3x |" in filled, filled
    assert "| all layers x steps x passes, s | 60 | 24 |" in filled
    assert "4 of 30 layers run" in filled


def test_another_dense_kernel_replaces_self_attention_alone():
    assert engine.over_other(RECORD) is None
    assert abs(engine.over_other({**RECORD, "other_dense_ms": 11.0}) - (20 - 15 + 11) / 8) < 1e-12


def test_the_later_line_of_a_case_is_quoted():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "lines.jsonl")
        with open(path, "w", encoding="utf-8") as file:
            for record in (RECORD, {**RECORD, "top_p": 0.2}, {**RECORD, "speedup": 9.0}):
                file.write(json.dumps(record) + "\n")
        records = engine.read(path)
    assert [(r["top_p"], r["speedup"]) for r in records] == [(0.05, 9.0), (0.2, 2.5)]


def test_filling_twice_changes_nothing():
    once = engine.fill(DOCUMENT, [RECORD])
    assert engine.fill(once, [RECORD]) == once


if __name__ == "__main__":
    for name, test in sorted(globals().items()):
        if name.startswith("test_"):
            test()
            print(f"passed: {name[5:].replace('_', ' ')}")
