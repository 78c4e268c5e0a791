#!/usr/bin/env python3
"""Draws speed-up over dense cuDNN against sparsity, with the line of a kernel that loses nothing. Needs matplotlib.

    python3 bench/plot_speedup.py [--records docs/benchmarks/h200.jsonl] [--out docs/images/speedup.svg]
"""

import argparse
import os
import sys

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
sys.path.insert(0, os.path.join(ROOT, "bench"))

from compare import records, relations, table  # noqa: E402

LINE_MASKS = ("random", "ones")               # even: a line over sparsity
DOT_MASKS = ("uneven", "lines", "band", "rule")  # each a dot
MARKS = {"sparge": "o-", "sparge_portable": "s-", "flex": "^--", "vsa": "v--", "sla": "D--", "torch": "x--"}


def series_of(lines):
    """{(shape, direction): {(op, who, mask): [(kept share, speed-up)]}}; the mask is "" for random and full masks, which
    make one line. Speed-ups are medians over runs. The direction is the operation of dense cuDNN that they are over."""
    shapes = {}
    for record in records.latest(lines):
        if record["protocol"] == "sustained" and record["batch"] and record["check"] == "passed":
            shapes.setdefault(records.shape_of(record), []).append(record)
    found = {}
    runs = relations.Runs(lines)
    for shape, group in shapes.items():
        for record in group:
            times = runs.median(record, "times_dense")
            if times is None or record["mask"] not in (*LINE_MASKS, *DOT_MASKS):
                continue
            mask = "" if record["mask"] in LINE_MASKS or record["op"] == "mask_forward" else record["mask_name"]
            point = (record["kept_pairs"] / record["all_pairs"], times[0])
            panel = found.setdefault((shape, table.DENSE_OP[record["op"]]), {})
            panel.setdefault((record["op"], record["who"], mask), []).append(point)
    return {key: panel for key, panel in found.items() if len(shares_of(panel)) > 1}


def shares_of(panel):
    """A panel of one share would be a heap of dots."""
    return {share for points in panel.values() for share, _ in points}


def draw(axes, shape, direction, series):
    least = min(shares_of(series)) * 0.8
    axes.plot([least, 1], [1 / least, 1], ":", color="grey", label="ideal: 1 / kept share")
    for (op, who, mask), points in sorted(series.items()):
        points.sort()
        name = table.NAMES.get(who, who) + (", mask built too" if op == "mask_forward" else "") + (f", {mask}" if mask else "")
        style = "*" if op == "mask_forward" else "x" if mask else MARKS.get(who, "+-")
        axes.plot([share for share, _ in points], [times for _, times in points], style, label=name)
    axes.axhline(1, color="lightgrey", linewidth=0.8, zorder=0)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.invert_xaxis()
    ticks = [share for share in (1, 0.5, 0.2, 0.1, 0.05, 0.02) if share >= least]
    axes.set_xticks(ticks, [f"{100 * (1 - share):.0f} %" for share in ticks])
    axes.minorticks_off()
    times = [time for time in (0.5, 1, 2, 5, 10, 20) if time <= 1 / least]
    axes.set_yticks(times, [f"{time:g}x" for time in times])
    axes.set_xlabel("sparsity")
    axes.set_ylabel("times as fast as dense cuDNN")
    axes.set_title(f"{table.OPS[direction]}: {table.title(shape)}", fontsize=9)
    axes.grid(True, which="major", color="#eeeeee")
    axes.legend(fontsize=7)


def order_of_panel(panel):
    """Backward beside the forward of its shape; large heads first."""
    (shape, direction), _ = panel
    return -shape[1], -shape[5], shape, direction != "forward"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", default=os.path.join(ROOT, "docs", "benchmarks", "h200.jsonl"))
    parser.add_argument("--out", default=os.path.join(ROOT, "docs", "images", "speedup.svg"))
    options = parser.parse_args()
    found = series_of(records.read(options.records))
    if not found:
        print("there is no shape with both dense cuDNN and a sparse contender", file=sys.stderr)
        return 1
    import matplotlib
    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "sparge"  # the same records give the same file
    import matplotlib.pyplot as plt
    columns = min(2, len(found))
    rows = -(-len(found) // columns)
    figure, grid = plt.subplots(rows, columns, figsize=(5.5 * columns, 4.2 * rows), squeeze=False)
    panels = [axes for row in grid for axes in row]
    for axes, ((shape, direction), series) in zip(panels, sorted(found.items(), key=order_of_panel)):
        draw(axes, shape, direction, series)
    for axes in panels[len(found):]:
        axes.set_visible(False)
    figure.tight_layout()
    os.makedirs(os.path.dirname(os.path.abspath(options.out)), exist_ok=True)
    metadata = {"Date": None} if options.out.endswith(".svg") else None
    figure.savefig(options.out, metadata=metadata)
    print(options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
