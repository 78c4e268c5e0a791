#!/usr/bin/env python3
"""Draws the time of mask building against the number of tokens, and its share of mask + forward. Needs matplotlib.

    python3 bench/plot_mask.py [--records docs/benchmarks/h200.jsonl] [--out docs/images/mask.svg]
"""

import argparse
import os
import sys

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
sys.path.insert(0, os.path.join(ROOT, "bench"))

from compare import records, relations  # noqa: E402

LEAST_LENGTHS = 3  # fewer points are no line
WHOLE = 1024       # lengths of a sweep are multiples of it; those of models stay out
FIELDS = {("mask", "ms"): "mask", ("mask", "reading_ms"): "reading Q and K once", ("mask_forward", "ms"): "mask + forward"}


def sweeps_of(lines):
    """{(batch, heads, head_dim, mask): {(operation, field): [(tokens, median over runs)]}} of the library."""
    runs, found = relations.Runs(lines), {}
    for record in records.latest(lines):
        if record["protocol"] != "sustained" or not record["who"].startswith("sparge") or record["check"] != "passed":
            continue
        if record["q_tokens"] % WHOLE:
            continue
        for operation, field in [*FIELDS, ("mask_forward", "mask_share")]:
            median = runs.median(record, field) if record["op"] == operation else None
            if median:
                key = (record["batch"], record["heads"], record["head_dim"], record["mask_name"])
                found.setdefault(key, {}).setdefault((operation, field), []).append((record["q_tokens"], median[0]))
    return {key: {name: sorted(points) for name, points in series.items()} for key, series in found.items()
            if len(series.get(("mask", "ms"), [])) >= LEAST_LENGTHS}


def tokens_text(tokens):
    return f"{tokens // 2**20}M" if tokens >= 2**20 else f"{tokens // 2**10}k"


def draw(axes, key, series):
    """Times on a logarithmic scale at the left, the share of the mask in percent at the right."""
    batch, heads, head_dim, mask = key
    for name, style in zip(FIELDS, ("o-", ":", "s-")):
        if name in series:
            axes.plot(*zip(*series[name]), style, label=FIELDS[name])
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    tokens = [n for n, _ in series[("mask", "ms")]]
    axes.set_xticks(tokens, [tokens_text(n) for n in tokens])
    axes.minorticks_off()
    axes.set_xlabel("tokens")
    axes.set_ylabel("ms")
    axes.grid(True, which="major", color="#eeeeee")
    axes.set_title(f"batch {batch}, {heads} heads, head dimension {head_dim}, {mask}", fontsize=9)
    shares = series.get(("mask_forward", "mask_share"))
    if shares:
        right = axes.twinx()
        right.plot([n for n, _ in shares], [100 * share for _, share in shares], "x--", color="grey")
        right.set_ylim(bottom=0)
        right.set_ylabel("mask in mask + forward, % (dashed)")
    axes.legend(fontsize=7, loc="upper left")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", default=os.path.join(ROOT, "docs", "benchmarks", "h200.jsonl"))
    parser.add_argument("--out", default=os.path.join(ROOT, "docs", "images", "mask.svg"))
    options = parser.parse_args()
    found = sweeps_of(records.read(options.records))
    if not found:
        print(f"no mask is recorded at {LEAST_LENGTHS} lengths or more", file=sys.stderr)
        return 1
    import matplotlib
    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "sparge"  # the same records give the same file
    import matplotlib.pyplot as plt
    figure, panels = plt.subplots(len(found), 1, figsize=(6, 4 * len(found)), squeeze=False)
    for axes, (key, series) in zip(panels[:, 0], sorted(found.items())):
        draw(axes, key, series)
    figure.tight_layout()
    os.makedirs(os.path.dirname(os.path.abspath(options.out)), exist_ok=True)
    figure.savefig(options.out, metadata={"Date": None} if options.out.endswith(".svg") else None)
    print(options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
