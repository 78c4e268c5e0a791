#!/usr/bin/env python3
"""Draws what training_step --csv wrote: loss by step, and the error on held-out videos. Needs matplotlib.

    python3 examples/plot_loss.py training.csv [--out docs/images/training_step.png]
"""

import argparse
import csv
import os

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))


def read(path):
    """Title, losses by step, and [(steps done, held-out error)]."""
    with open(path, newline="") as file:
        title = file.readline().lstrip("# ").strip()
        lines = list(csv.DictReader(file))
    losses = [float(line["loss"]) for line in lines if line["loss"]]
    errors = [(int(line["step"]), float(line["held_out_error"])) for line in lines if line["held_out_error"]]
    return title, losses, errors


def running_mean(values, width):
    """Of up to `width` values that end at each; [(step, mean)]."""
    return [(step, sum(values[max(0, step + 1 - width):step + 1]) / min(width, step + 1)) for step in range(len(values))]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("csv")
    parser.add_argument("--out", default=os.path.join(ROOT, "docs", "images", "training_step.png"))
    options = parser.parse_args()
    title, losses, errors = read(options.csv)
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    width = max(1, len(losses) // 20)
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8))
    left.plot(range(len(losses)), losses, color="#b8cce4", linewidth=0.8, label="each step")
    left.plot(*zip(*running_mean(losses, width)), color="#1f4e79", label=f"mean of {width} steps")
    left.set_yscale("log")
    left.set_ylabel("distillation loss")
    left.legend(fontsize=8)
    right.plot(*zip(*errors), "o-", color="#c55a11", markersize=4)
    right.set_ylim(bottom=0)
    right.set_ylabel("|student - teacher| / |teacher|, held out")
    for axes in (left, right):
        axes.set_xlabel("step")
        axes.grid(True, which="both", color="#eeeeee")
    figure.suptitle(title, fontsize=9)
    figure.tight_layout()
    os.makedirs(os.path.dirname(os.path.abspath(options.out)), exist_ok=True)
    figure.savefig(options.out, dpi=110, metadata={"Software": None})
    print(options.out)


if __name__ == "__main__":
    main()
