"""bench_overhead.py [--json FILE]: host time of the operators beyond what the library's own call takes, and idle time of the
GPU between calls.

1. Host: calls of a problem so small that the GPU is never behind. `operator` is the time of a call from Python, `enqueue` that
   of the same library calls alone with arguments that are ready, kernel launches included; `overhead` is the difference.
2. GPU: a loop of sparge_attention() without a pause, and the same calls in a CUDA graph, which has no host in it. `idle` is the
   difference a call; the profiler's gaps between kernels of the loop are beside it.

Medians of rounds. Exits with 1 if a forward operator's overhead reaches 60 us, or if a loop leaves the GPU idle: `idle` beyond 2 us
for each kernel of a call and beyond 3 % of it. From kernel to kernel a stream takes about 1 us longer than a graph. The gaps are for
reading alone: the profiler slows the host down, and what the host then fails to enqueue in time shows as a long gap."""

import argparse
import ctypes
import json
import statistics
import sys
import time

import torch

import sparge_ctypes as abi
from sparge_torch import calls, distillation_loss, sparge_attention
from sparge_torch.calls import describe
from sparge_torch.library import library

RULE = dict(top_k=0.03, top_p=0.2)
LIMIT_US, LIMIT_IDLE, LIMIT_IDLE_US = 60, 0.03, 2
OPS = torch.ops.sparge
HOW = [128, 64], 0.0, "bhnd"
NAMES = {abi.BuildMaskArgs: "build_mask", abi.ForwardArgs: "forward", abi.BackwardArgs: "backward",
         abi.DistillationLossArgs: "distillation_loss"}
RULE_ARGUMENTS = 0.03, 0.2, None, None, 1, [-1, 0, 0, 0, 0]


def host_us(call, rounds=21, calls_a_round=100):
    """Microseconds of host time a call. A round is short enough that the queue of launches never fills up."""
    for _ in range(50):
        call()
    times = []
    for _ in range(rounds):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(calls_a_round):
            call()
        times.append((time.perf_counter() - begin) / calls_a_round * 1e6)
    torch.cuda.synchronize()
    return statistics.median(times)


def tensors(heads, tokens, grad=False):
    return tuple(torch.randn(1, heads, tokens, 128, device="cuda", dtype=torch.bfloat16, requires_grad=grad) for _ in range(3))


def enqueue(prepared, **addresses):
    """The library's call with everything ready, as C would make it."""
    arguments = prepared.arguments()
    for name, x in addresses.items():
        if isinstance(getattr(arguments, name), (abi.Tensor, abi.Mask)):
            getattr(arguments, name).data = x.data_ptr()
        else:
            setattr(arguments, name, x.data_ptr())
    size = prepared.plan.workspace_bytes
    scratch = torch.empty(max(size, 1), dtype=torch.uint8, device="cuda")
    name = NAMES[prepared.kind]
    function = getattr(ctypes.CDLL(library().path), "sparge_" + name)
    function.restype = ctypes.c_int32
    stream, status = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream), ctypes.c_void_p()
    memory = ctypes.c_void_p(scratch.data_ptr()), ctypes.c_size_t(size)
    ready = (ctypes.byref(prepared.plan), ctypes.byref(arguments), *memory, stream, status)

    def run(keep_alive=(arguments, scratch, addresses)):
        if function(*ready) != abi.OK:
            raise RuntimeError(f"sparge_{name} refused")
    return run


def host_table():
    """[(what, operator us, enqueue us)]."""
    q, k, v = tensors(2, 256)
    leaves = [x.clone().requires_grad_() for x in (q, k, v)]
    mask = OPS.build_mask.default(q, k, *RULE_ARGUMENTS, *HOW)
    out, lse = OPS.attention.default(q, k, v, mask, *HOW)
    grad_q, grad_k, grad_v = (torch.empty_like(x) for x in (q, k, v))
    how = tuple(HOW[0]), *HOW[1:]
    of_mask = enqueue(calls.build_mask(describe(q), describe(k), (0.03, 0.2, 1, (-1, 0, 0, 0, 0)), *how), q=q, k=k, mask=mask)
    of_forward = enqueue(calls.attention(*map(describe, (q, k, v, mask)), *how), q=q, k=k, v=v, mask=mask, out=out, lse=lse)
    backward = calls.attention_backward(*map(describe, (out, q, k, v, out, mask)), *how)
    of_backward = enqueue(backward, q=q, k=k, v=v, out=out, grad_out=out, lse=lse, mask=mask, grad_q=grad_q, grad_k=grad_k,
                          grad_v=grad_v)
    loss = calls.distillation_loss(describe(q), q.get_device())
    of_loss = enqueue(loss, student=q, teacher=k, loss=torch.empty((), device="cuda"))
    mask_us, forward_us, backward_us, loss_us = (host_us(call) for call in (of_mask, of_forward, of_backward, of_loss))

    def no_grad(function):
        with torch.no_grad():
            return host_us(function)

    graph_out = sparge_attention(*leaves, mask=mask)
    return [("build_mask", no_grad(lambda: OPS.build_mask.default(q, k, *RULE_ARGUMENTS, *HOW)), mask_us),
            ("attention", no_grad(lambda: OPS.attention.default(q, k, v, mask, *HOW)), forward_us),
            ("attention, gradients wanted", host_us(lambda: OPS.attention.default(*leaves, mask, *HOW)), forward_us),
            ("sparge_attention(mask=...)", no_grad(lambda: sparge_attention(q, k, v, mask=mask)), forward_us),
            ("sparge_attention(top_k, top_p): two operators", no_grad(lambda: sparge_attention(q, k, v, **RULE)),
             mask_us + forward_us),
            ("backward, by autograd.grad",
             host_us(lambda: torch.autograd.grad(graph_out, leaves, out, retain_graph=True)), backward_us),
            ("distillation_loss", no_grad(lambda: distillation_loss(q, k)), loss_us)]


def event_us(run, count):
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    run()
    torch.cuda.synchronize()
    begin.record()
    run()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) / count * 1e3


def idle(heads, tokens, count=60, rounds=5):
    """GPU microseconds a call in a loop and in a graph, and what the profiler saw: (loop, graph, kernels a call, gap mean, gap
    largest)."""
    q, k, v = tensors(heads, tokens)

    def loop():
        for _ in range(count):
            sparge_attention(q, k, v, **RULE)

    with torch.no_grad():
        loop()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            loop()
        pairs = [(event_us(loop, count), event_us(graph.replay, count)) for _ in range(rounds)]
        return *(statistics.median(times) for times in zip(*pairs, strict=True)), *profiled_gaps(loop, count)


def profiled_gaps(loop, count):
    """Kernels a call; mean and largest pause between a kernel's end and the next one's begin, in microseconds, None where the
    profiler sees no kernels."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        loop()
        torch.cuda.synchronize()
    on_gpu = [e.time_range for e in profile.events() if e.device_type == torch.autograd.DeviceType.CUDA]
    spans = sorted((span.start, span.end) for span in on_gpu)
    if len(spans) < 10:
        return 0, None, None
    kernels = len(spans) / count
    spans = spans[len(spans) // 4:]  # the queue is still empty at first
    gaps = [max(0.0, after[0] - before[1]) for before, after in zip(spans, spans[1:], strict=False)]
    return kernels, statistics.mean(gaps), max(gaps)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", help="write the figures here")
    options = parser.parse_args()
    torch.manual_seed(0)
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, sparge {library().version}\n")

    rows = [dict(what=what, operator_us=whole, enqueue_us=part, overhead_us=whole - part) for what, whole, part in host_table()]
    print("| host time, us | operator | enqueue | overhead |\n|---|---|---|---|")
    for row in rows:
        print(f"| {row['what']} | {row['operator_us']:.1f} | {row['enqueue_us']:.1f} | {row['overhead_us']:.1f} |")
    late = [row["what"] for row in rows[:4] if row["overhead_us"] >= LIMIT_US]

    print("\n| loop of sparge_attention(top_k, top_p), us a call | loop | graph | idle | gaps, mean | largest |")
    print("|---|---|---|---|---|---|")
    loops = []
    for heads, tokens in ((12, 8192), (12, 32768), (40, 32768)):
        eager, graph, kernels, mean, largest = idle(heads, tokens)
        loops.append(dict(heads=heads, tokens=tokens, loop_us=eager, graph_us=graph, idle_us=eager - graph, kernels=kernels,
                          gap_mean_us=mean, gap_largest_us=largest))
        gaps = "- | -" if mean is None else f"{mean:.2f} | {largest:.2f}"
        print(f"| {heads} heads, {tokens:,} tokens | {eager:.1f} | {graph:.1f} | {eager - graph:.1f} | {gaps} |")
        if eager - graph > max(LIMIT_IDLE * graph, LIMIT_IDLE_US * kernels):
            late.append(f"{heads} heads, {tokens} tokens")
    if options.json:
        with open(options.json, "w") as file:
            json.dump(dict(gpu=torch.cuda.get_device_name(), torch=torch.__version__, host=rows, loops=loops), file, indent=1)
    passed = f"passed: overhead of each forward operator below {LIMIT_US} us, the GPU is not left idle"
    print("\n" + (f"FAILED: {'; '.join(late)}" if late else passed))
    return 1 if late else 0


if __name__ == "__main__":
    sys.exit(main())
