#!/usr/bin/env python3
"""Fills the generated parts of docs/benchmarks.md from the records; needs no GPU and no framework.

    python3 bench/fill_docs.py [--records docs/benchmarks/h200.jsonl] [--document docs/benchmarks.md] [--check]
"""

import argparse
import os
import sys

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
sys.path.insert(0, os.path.join(ROOT, "bench"))

from compare import counters, document, protocol, records, summary, table  # noqa: E402

PLOTS = {"plot": ("images/speedup.svg", "Times as fast as dense cuDNN against sparsity, forward and backward where measured, "
                  "with the ideal line"),
         "mask_plot": ("images/mask.svg", "Time of mask building and of mask + forward against the number of tokens")}


def runs_text(lines):
    """Which runs the tables quote, on what."""
    runs = {}
    for record in lines:
        runs.setdefault(record["run"], record)
    rows = ["| run | date | commit | GPU | driver | torch | cuDNN | what |", "|---|---|---|---|---|---|---|---|"]
    for run, record in sorted(runs.items(), key=lambda entry: entry[1]["date"]):
        what = ", ".join(part for part in record["selection"].split(";") if part.startswith(("suite=", "cases=", "ops=")))
        rows.append(f"| {run} | {record['date']} | {record['commit']} | {record['gpu']} | {record['driver']} | "
                    f"{record['torch']} | {record['cudnn']} | {what} |")
    return "\n".join(rows)


def repeat_text(lines):
    """Whether days repeat each other, and the last run the ones before it."""
    last = lines[-1]["run"]
    last_text = table.comparison_text([record for record in lines if record["run"] == last],
                                      [record for record in lines if record["run"] != last])
    return f"{table.days_text(lines)}\n\nThe last run, {last}: {last_text}"


def plot_text(name, document_path):
    """The picture, where plot_speedup.py or plot_mask.py has drawn it."""
    path, words = PLOTS[name]
    folder = os.path.dirname(os.path.abspath(document_path))
    return f"![{words}]({path})" if os.path.exists(os.path.join(folder, path)) else ""


def contents(lines, document_path, counted=()):
    """{part of the document: Markdown}."""
    quoted = records.latest(lines)
    found = {name: plot_text(name, document_path) for name in PLOTS}
    if not lines:
        return {**found, **dict.fromkeys(("runs", "tables", "repeat", "counters", *summary.TITLES), "")}
    return {**found, **summary.texts(quoted, lines), "runs": runs_text(quoted), "tables": table.render(quoted, lines),
            "repeat": repeat_text(lines), "counters": counters.table(list(counted), quoted)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", default=os.path.join(ROOT, "docs", "benchmarks", "h200.jsonl"))
    parser.add_argument("--counters", default=os.path.join(ROOT, "docs", "benchmarks", "counters_h200.jsonl"))
    parser.add_argument("--document", default=os.path.join(ROOT, "docs", "benchmarks.md"))
    parser.add_argument("--check", action="store_true", help="only say, by the exit status, whether it is up to date")
    options = parser.parse_args()
    lines = records.read(options.records)
    with open(options.document, encoding="utf-8") as file:
        text = file.read()
    quoted = records.latest(lines)
    unfit = [record for record in quoted if record["check"] != "passed" or record["rounds"] < protocol.LEAST_ROUNDS]
    filled = text
    for name, content in contents(lines, options.document, records.read(options.counters)).items():
        filled = document.fill(filled, name, content)
    if options.check:
        return 0 if filled == text else 1
    with open(options.document, "w", encoding="utf-8") as file:
        file.write(filled)
    print(f"{len(quoted)} records quoted, {len(unfit)} of them with a failed check or too few rounds")
    return 0


if __name__ == "__main__":
    sys.exit(main())
