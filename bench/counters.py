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

OPERATIONS = {"forward": ("ForwardSm90", 1), "backward": ("BackwardD(kdv|q)Sm90", 2)}  # their kernels, and how many a call has


def known_metrics():
    """What the GPU of this machine can count."""
    listed = subprocess.run(["ncu", "--query-metrics"], capture_output=True, text=True, check=True).stdout
    return {line.split()[0] for line in listed.splitlines() if line.strip()}


def profile(program, name, kernels, launches, metrics):
    """CSV of the launches behind one to warm up."""
    command = ["ncu", "--clock-control", "none", "--csv", "--kernel-name-base", "demangled", "--kernel-name", f"regex:{kernels}",
               "--launch-skip", str(launches), "--launch-count", str(launches), "--metrics", ",".join(metrics), program,
               f"--benchmark_filter=^{name}/iterations:"]  # how Google Benchmark ends the name
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
        program = os.path.join(options.programs, f"{operation}_bench")
        for case, mask in counters.items_of(operation):
            name = f"{operation}/{case}/{counters.BENCH_MASKS[mask]}/bf16"
            try:
                launches = counters.parse(profile(program, name, *OPERATIONS[operation], metrics))
            except (RuntimeError, ValueError, subprocess.TimeoutExpired) as error:
                print(f"{name}: {error}", file=sys.stderr)
                status = 1
                continue
            of_item = {"date": datetime.date.today().isoformat(), "op": operation, "case": case, "mask_name": mask}
            with open(options.out, "a", encoding="utf-8") as file:
                file.writelines(json.dumps({**of_item, **launch}) + "\n" for launch in launches)
            print(f"{name}: {launches}")
    return status


if __name__ == "__main__":
    sys.exit(main())
