"""What the GPU can do at most: a copy, and a product of matrices."""

import torch

from ..cases import Item


def items():
    source = torch.randn(2**28, device="cuda")  # 1 GiB
    target = torch.empty_like(source)
    yield Item(None, "copy", "torch", lambda: target.copy_(source), moved_bytes=2.0 * source.nbytes)

    size = 8192
    a, b = (torch.randn((size, size), device="cuda", dtype=torch.bfloat16) for _ in range(2))
    out = torch.empty_like(a)
    yield Item(None, "matmul", "torch", lambda: torch.matmul(a, b, out=out), flop=2.0 * size**3)
