#!/usr/bin/env python3
"""Fills the generated parts of docs/inference_engine.md from the lines that inference_engine --json writes; needs no GPU.

    python3 bench/fill_engine_docs.py [--records docs/benchmarks/engine_h200.jsonl] [--document docs/inference_engine.md] [--check]
"""

import argparse
import os
import sys

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
sys.path.insert(0, os.path.join(ROOT, "bench"))

from compare import document  # noqa: E402
from compare.records import read as read_lines  # noqa: E402

# What makes two lines the same case: the later one is quoted.
KEY = ("gpu", "model", "dim", "tokens", "top_k", "top_p")
PARTS = (("linear", "linear layers"), ("mask", "mask"), ("self_attention", "self-attention"),
         ("cross_attention", "cross-attention"), ("elementwise", "elementwise"))
NOTHING = "*No run has been recorded yet.*"


def read(path):
    """The latest line of each case, in the order in which cases first appear. No file is no line."""
    latest = {tuple(record[field] for field in KEY): record for record in read_lines(path)}
    return list(latest.values())


def attention(parts):
    return parts["mask"] + parts["self_attention"]


def share(parts):
    return attention(parts) / sum(parts.values())


def layer_ms(record, which):
    return record[f"{which}_step_ms"] / record["layers"]


def over_other(record):
    """The speed-up as if dense self-attention were another library's; None where its time was not given."""
    if not record["other_dense_ms"]:
        return None
    dense = layer_ms(record, "dense") - attention(record["dense_layer_ms"]) + record["other_dense_ms"]
    return dense / layer_ms(record, "sparse")


def ms(value):
    return f"{value:.3g}" if value < 100 else f"{value:.0f}"


def case_of(record):
    return f"{record['model']}, {record['tokens']:,} tokens, top_p {record['top_p']:g}"


def summary_text(records):
    rows = ["| model | sparsity | share of self-attention: dense, sparse | layer, ms: dense, sparse | speed-up of self-attention | "
            "of all layers | by Amdahl | against another dense kernel | published |", "|---|---|---|---|---|---|---|---|---|"]
    for record in records:
        sparsity = 1 - record["kept_pairs"] / record["all_pairs"]
        other = over_other(record)
        peer = "" if other is None else f"{other:.2f}x (at {ms(record['other_dense_ms'])} ms)"
        rows.append(f"| {case_of(record)} | {100 * sparsity:.1f} % | {100 * share(record['dense_layer_ms']):.0f} %, "
                    f"{100 * share(record['sparse_layer_ms']):.0f} % | {ms(layer_ms(record, 'dense'))}, "
                    f"{ms(layer_ms(record, 'sparse'))} | {record['attention_speedup']:.1f}x | **{record['speedup']:.2f}x** | "
                    f"{record['projected_speedup']:.2f}x | {peer} | {record['published_speedup']:g}x |")
    return "\n".join(rows)


def parts_text(records):
    rows = ["| one layer, ms | " + " | ".join(f"{case_of(r)}: dense | sparse" for r in records) + " |",
            "|---|" + "---|---|" * len(records)]
    for key, name in PARTS:
        rows.append(f"| {name} | " + " | ".join(
            f"{ms(r['dense_layer_ms'][key])} | {ms(r['sparse_layer_ms'][key])}" for r in records) + " |")
    rows.append("| sum | " + " | ".join(
        f"{ms(sum(r['dense_layer_ms'].values()))} | {ms(sum(r['sparse_layer_ms'].values()))}" for r in records) + " |")
    rows.append("| replay of the step / layers | " + " | ".join(
        f"{ms(layer_ms(r, 'dense'))} | {ms(layer_ms(r, 'sparse'))}" for r in records) + " |")
    seconds = lambda r, which: r["model_layers"] * r["steps"] * r["passes"] * layer_ms(r, which) * 1e-3  # noqa: E731
    rows.append("| all layers x steps x passes, s | " + " | ".join(
        f"{seconds(r, 'dense'):.0f} | {seconds(r, 'sparse'):.0f}" for r in records) + " |")
    return "\n".join(rows)


def runs_text(records):
    return "\n".join(f"- {case_of(r)}: {r['gpu']}, {r['date']}, sources {r['sources'] or 'not given'}; {r['layers']} of "
                     f"{r['model_layers']} layers run, top_k {r['top_k']:g}; {r['kernel']}" for r in records)


def fill(text, records):
    content = "\n\n".join((summary_text(records), parts_text(records), runs_text(records))) if records else NOTHING
    return document.fill(text, "end to end", content)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", default=os.path.join(ROOT, "docs", "benchmarks", "engine_h200.jsonl"))
    parser.add_argument("--document", default=os.path.join(ROOT, "docs", "inference_engine.md"))
    parser.add_argument("--check", action="store_true", help="only say, by the exit status, whether it is up to date")
    options = parser.parse_args()
    with open(options.document, encoding="utf-8") as file:
        text = file.read()
    records = read(options.records)
    filled = fill(text, records)
    if options.check:
        return 0 if filled == text else 1
    with open(options.document, "w", encoding="utf-8") as file:
        file.write(filled)
    print(f"{len(records)} cases quoted")
    return 0


if __name__ == "__main__":
    sys.exit(main())
