"""torch.compile(fullgraph=True), which fails on any graph break."""

import pytest
import torch

from sparge_torch import Keep, Report, Rule, Schedule, Stack, build_mask, distillation_loss, sparge_attention
from support import close, qkv



def compiled(function, backend="aot_eager", **options):
    """By default the front of the compiler, which traces, calls fake kernels and joins the graphs of forward and backward.
    Inductor behind it takes its time, so that one test has it here, and those of test_gpu.py."""
    return torch.compile(function, fullgraph=True, backend=backend, **options)


def step(q, k, v):
    out, lse, stats = sparge_attention(q * 1.5, k, v, top_k=0.2, top_p=0.3, keep=Keep(band_tokens=3), return_lse=True,
                                       return_stats=True)
    return (out.float().square().sum() + lse.sum()) * 0.1, stats.sparsity


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_forward_and_backward_compile_without_a_break(device, dynamic):
    compiled_step = compiled(step, "inductor" if device == "cuda" and not dynamic else "aot_eager", dynamic=dynamic)
    for tokens in (300, 420):
        q, k, v = qkv(device, q_tokens=tokens, kv_tokens=tokens, grad=True)
        (eager, sparsity), (loss, same) = step(q, k, v), compiled_step(q, k, v)
        torch.testing.assert_close(loss, eager, rtol=1e-3, atol=0)
        assert torch.equal(sparsity, same)
        for x, y in zip(torch.autograd.grad(loss, (q, k, v)), torch.autograd.grad(eager, (q, k, v)), strict=True):
            close(x, y, y, units=2)


def test_both_layouts_a_mask_and_autocast_compile(device):
    def run(q, k, v):
        with torch.autocast(device, torch.bfloat16):
            mask = build_mask(q, k, top_k=0.2, layout="bnhd")
            return sparge_attention(q, k, v, mask=mask, layout="bnhd")
    q, k, v = (x.float() for x in qkv(device, layout="bnhd"))
    out = compiled(run)(q, k, v)
    assert out.dtype == torch.bfloat16 and torch.equal(out, run(q, k, v))


def test_the_dense_fallback_compiles(device):
    def run(q, k, v):
        return sparge_attention(q, k, v, top_k=0.2, dense_below=4096)
    q, k, v = qkv(device)
    close(compiled(run)(q, k, v), run(q, k, v), run(q, k, v))


def test_distillation_loss_compiles(device):
    student, teacher = torch.randn(2, 7, 33, device=device, requires_grad=True), torch.randn(2, 7, 33, device=device)
    loss = compiled(lambda *x: distillation_loss(*x) * 3)(student, teacher)
    loss.backward()
    torch.testing.assert_close(student.grad, 6 * (student.detach() - teacher) / student.numel())


def test_a_schedule_is_compiled_once_a_choice_and_not_once_a_step(device):
    report = Report(2, device)
    stack = Stack(2, Schedule(Rule(0.2, 0.3), dense_steps=2, dense_layers=1, rebuild_every=2), report)
    graphs = []

    def count(graph, inputs):
        graphs.append(graph)
        return graph.forward

    def model(q, k, v):
        return stack.attend(1, stack.attend(0, q, k, v), k, v)

    run = torch.compile(model, fullgraph=True, backend=count)
    q, k, v = qkv(device, q_tokens=500)
    for i in range(10):
        stack.start_step(i)
        run(q, k, v)
    assert len(graphs) <= 5, f"{len(graphs)} graphs of 10 steps"
    first, second = report.rows()
    assert (first["dense, first steps"], first["dense, first layers"]) == (2, 8)
    assert (second["dense, first steps"], second["sparse, mask built"], second["sparse, mask reused"]) == (2, 4, 4)
