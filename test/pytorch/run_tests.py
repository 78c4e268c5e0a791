"""run_tests.py host|gpu FOLDER: runs the tests of the package in FOLDER that need no GPU, or those that do. Exits with 4 (skipped) where torch,
pytest or, for gpu, a GPU is missing; with SPARGE_REQUIRE_GPU=1 that is a failure."""

import importlib.util
import os
import subprocess
import sys

SKIPPED = 4  # pytest's own 4 is another thing, so its status is not passed on


def missing(part):
    """What the tests need and this machine lacks, or None."""
    for module in ("torch", "pytest"):
        if importlib.util.find_spec(module) is None:
            return module
    if part == "gpu":
        import torch
        return None if torch.cuda.is_available() else "a GPU"
    return None


def main(part, folder):
    lacks = missing(part)
    if lacks:
        required = part == "gpu" and os.environ.get("SPARGE_REQUIRE_GPU") == "1"
        print(f"required, but missing: {lacks}" if required else f"skipped: needs {lacks}")
        return 1 if required else SKIPPED
    selected = "gpu" if part == "gpu" else "not gpu"
    workers = ["-n", "4"] if part == "gpu" and importlib.util.find_spec("xdist") else []  # most of its time is compilation
    status = subprocess.call([sys.executable, "-B", "-m", "pytest", "-q", "-ra", "-m", selected, "--durations=5", *workers],
                             cwd=folder)
    return 0 if status == 0 else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
