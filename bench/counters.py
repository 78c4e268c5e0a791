#!/usr/bin/env python3
"""Reads hardware counters of the kernels that the tables of docs/benchmarks.md quote, with Nsight Compute, and adds a line for
each kernel of each case to a file. Clocks are left alone; the caches are cold, as ncu leaves them.

    python3 bench/counters.py [--programs build-gpu/bin] [--out docs/benchmarks/counters_h200.jsonl]
"""

import argparse
import datetime
import json
import os
import subprocess
import sys

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
sys.path.insert(0, os.path.join(ROOT, "bench"))

from compare import counters  # noqa: E402

SHAPES = {"h40_n32768_d128": ("keep_5", "keep_10", "keep_20", "keep_100", "rule"), "wan_1.3b_480p": ("keep_5",),
          "wan_14b_720p": ("keep_5",), "h40_n32768_d64": ("keep_5",)}
# Masks of backward are fewer: at keep_100 alone a case takes seconds under ncu.
OPERATIONS = {"forward": ("ForwardSm90", 1), "backward": ("BackwardD(kdv|q)Sm90", 2)}


def known_metrics():
    """What the GPU of this machine can count."""
    listed = subprocess.run(["ncu", "--query-metrics"], capture_output=True, text=True, check=True).stdout
    return {line.split()[0] for line in listed.splitlines() if line.strip()}


def profile(program, name, kernels, launches, metrics):
    """CSV of the launches behind one to warm up."""
    command = ["ncu", "--clock-control", "none", "--csv", "--kernel-name-base", "demangled", "--kernel-name", f"regex:{kernels}",
               "--launch-skip", str(launches), "--launch-count", str(launches), "--metrics", ",".join(metrics), program,
               f"--benchmark_filter=^{name}$"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if done.returncode != 0:
        raise RuntimeError(f"{name}: {done.stdout[-400:]}{done.stderr[-400:]}")
    return done.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", default=os.path.join(ROOT, "build-gpu", "bin"), help="folder of the benchmark programs")
    parser.add_argument("--out", default=os.path.join(ROOT, "docs", "benchmarks", "counters_h200.jsonl"))
    parser.add_argument("--operations", default=",".join(OPERATIONS))
    options = parser.parse_args()
    metrics = counters.choose(known_metrics())
    status = 0
    for operation in options.operations.split(","):
        kernels, launches = OPERATIONS[operation]
        for shape, masks in SHAPES.items():
            for mask in masks if operation == "forward" else masks[:1]:
                name = f"{operation}/{shape}/{mask}/bf16"
                try:
                    text = profile(os.path.join(options.programs, f"{operation}_bench"), name, kernels, launches, metrics)
                    lines = counters.parse(text)
                except (RuntimeError, ValueError, subprocess.TimeoutExpired) as error:
                    print(f"{name}: {error}", file=sys.stderr)
                    status = 1
                    continue
                with open(options.out, "a", encoding="utf-8") as file:
                    for line in lines:
                        record = {"date": datetime.date.today().isoformat(), "op": operation, "case": shape, "mask": mask, **line}
                        file.write(json.dumps(record) + "\n")
                        print(record)
    return status


if __name__ == "__main__":
    sys.exit(main())
