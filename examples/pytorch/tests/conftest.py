"""Tests of `device` run on the CPU, where the operators are the reference (cpu_operators.py), and on a GPU, where they are the
library. Those marked gpu need the library. Without a GPU they are skipped with that reason, or fail where the environment has
SPARGE_REQUIRE_GPU=1."""

import os

import pytest
import torch

import cpu_operators  # noqa: F401, registers the CPU kernels

NO_GPU = "needs a CUDA device, and torch sees none"


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request):
    torch.manual_seed(7)
    return request.param


@pytest.fixture(autouse=True)
def fresh_compiler():
    torch._dynamo.reset()


def pytest_runtest_setup(item):
    if item.get_closest_marker("gpu") is None or torch.cuda.is_available():
        return
    if os.environ.get("SPARGE_REQUIRE_GPU") == "1":
        pytest.fail(NO_GPU)
    pytest.skip(NO_GPU)
