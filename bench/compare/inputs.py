"""Seeded inputs on the device."""

import torch

CENTRES, RUN_TOKENS = 64, 256


def generator(device, seed):
    return torch.Generator(device=device).manual_seed(seed)


def normal_qkv(case, seed, device="cuda"):
    """q, k, v ~ N(0, 1), bf16, contiguous [batch, heads, tokens, head_dim]."""
    source = generator(device, seed)
    shape = (case.batch, case.heads, case.tokens, case.head_dim)
    return tuple(torch.randn(shape, generator=source, device=device, dtype=torch.bfloat16) for _ in range(3))


def normal_like(x, seed):
    return torch.randn(x.shape, generator=generator(x.device, seed), device=x.device, dtype=x.dtype)


def clustered_qkv(case, seed, device="cuda"):
    """64 centres c ~ N(0, 1) a head; each run of 256 tokens draws one; k = c + N(0, 1), q = 2c + N(0, 1), v ~ N(0, 1)."""
    source = generator(device, seed)
    shape = (case.batch, case.heads, case.tokens, case.head_dim)
    centres = torch.randn((case.batch, case.heads, CENTRES, case.head_dim), generator=source, device=device)
    runs = -(-case.tokens // RUN_TOKENS)
    drawn = torch.randint(CENTRES, (case.batch, case.heads, runs), generator=source, device=device)
    drawn = drawn.repeat_interleave(RUN_TOKENS, dim=2)[:, :, :case.tokens]
    centre = centres.gather(2, drawn.unsqueeze(-1).expand(shape))

    def around(weight):
        noise = torch.randn(shape, generator=source, device=device)
        return noise.add_(centre, alpha=weight).to(torch.bfloat16)

    k, q = around(1.0), around(2.0)
    v = torch.randn(shape, generator=source, device=device, dtype=torch.bfloat16)
    return q, k, v
