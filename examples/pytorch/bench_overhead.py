"""bench_overhead.py [--json FILE]: host time of the operators beyond what the library's own calls take, and idle time of the
GPU in a loop of calls. Half a minute.

1. Host: calls of a problem so small that the GPU is never behind. `operator` is the time of a call from Python, `enqueue` that
   of the same library calls alone with arguments that are ready, kernel launches included; `overhead` is the difference.
   Medians of rounds.
2. GPU: `loop` is the time between two events around calls of sparge_attention() without a pause, after some that fill the queue;
   `kernels` that of the same calls while the GPU slept until all were enqueued, so that it waits for no host: the kernels alone and
   the way from one to the next; `graph` the same calls in a CUDA graph. Neither waits for the host, but the sleep cools the GPU, and
   a graph has shorter ways, so `idle` is what the loop takes beyond the slower of the two: the median of rounds that take turns.
   `host` is the time that the host took to enqueue a call.

Every line ends with its verdict. Exits with 1 if one failed: an overhead of 60 us or more of a forward operator or of the call that
needs no more than out, or an idle time beyond both 2 us and 2 % of the kernels. A dash: no limit. Calls of two operators have none of
their own, and backward has none."""

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
LIMIT_US, LIMIT_IDLE_US, LIMIT_IDLE = 60, 2, 0.02
LEAD = 10  # calls that fill the queue before time is taken; with the measured ones, fewer launches than a queue holds
SHAPES = ((12, 8192, 40), (12, 32768, 20), (40, 32768, 20))  # heads, tokens, calls
OPS = torch.ops.sparge
HOW = [128, 64], 0.0, "bhnd"
NAMES = {abi.BuildMaskArgs: "build_mask", abi.ForwardArgs: "forward", abi.BackwardArgs: "backward",
         abi.DistillationLossArgs: "distillation_loss"}
RULE_ARGUMENTS = 0.03, 0.2, None, None, 1, [-1, 0, 0, 0, 0]


def host_us(functions, rounds=21, calls_a_round=100):
    """Microseconds of host time a call of each function. They take turns, so that a slow spell of the machine meets all alike. A
    turn is short enough that the queue of launches never fills up."""
    times = [[] for _ in functions]
    for turn in range(-1, rounds):  # the first one warms up
        for function, of_function in zip(functions, times, strict=True):
            torch.cuda.synchronize()
            begin = time.perf_counter()
            for _ in range(calls_a_round):
                function()
            if turn >= 0:
                of_function.append((time.perf_counter() - begin) / calls_a_round * 1e6)
    torch.cuda.synchronize()
    return [statistics.median(of_function) for of_function in times]


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
    """[(what, operator us, enqueue us, whether it has a limit)]."""
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

    def of_both():
        of_mask()
        of_forward()

    graph_out = sparge_attention(*leaves, mask=mask)
    rows = [("build_mask", lambda: OPS.build_mask.default(q, k, *RULE_ARGUMENTS, *HOW), of_mask, True),
            ("attention", lambda: OPS.attention.default(q, k, v, mask, *HOW), of_forward, True),
            ("attention, gradients wanted", lambda: OPS.attention.default(*leaves, mask, *HOW), of_forward, True),
            ("sparge_attention(mask)", lambda: sparge_attention(q, k, v, mask=mask), of_forward, True),
            ("sparge_attention(top_k, top_p): one operator", lambda: sparge_attention(q, k, v, **RULE), of_both, True),
            ("with return_lse: two operators", lambda: sparge_attention(q, k, v, **RULE, return_lse=True), of_both, False),
            ("gradients wanted: two operators", lambda: sparge_attention(*leaves, **RULE), of_both, False),
            ("backward, by autograd.grad", lambda: torch.autograd.grad(graph_out, leaves, out, retain_graph=True), of_backward, False),
            ("distillation_loss", lambda: distillation_loss(q, k), of_loss, True)]
    times = host_us([function for _, operator, part, _ in rows for function in (operator, part)])
    return [(what, whole, part, limited) for (what, *_, limited), whole, part in zip(rows, times[::2], times[1::2], strict=True)]


def in_a_row(call, count, asleep):
    """(GPU microseconds, host microseconds) a call. With `asleep` the GPU sleeps until the host has enqueued everything."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    cycles = 20_000_000
    while True:
        torch.cuda.synchronize()
        if asleep:
            torch.cuda._sleep(cycles)
        for _ in range(LEAD):
            call()
        begin.record()
        start = time.perf_counter()
        for _ in range(count):
            call()
        host = time.perf_counter() - start
        end.record()
        woke = begin.query()
        torch.cuda.synchronize()
        if not asleep or not woke:
            return begin.elapsed_time(end) / count * 1e3, host / count * 1e6
        cycles *= 2
        if cycles > 2_000_000_000:
            raise RuntimeError("the GPU does not sleep for as long as the host enqueues: the queue of launches is full")


def graph_us(graph, count):
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    graph.replay()
    begin.record()
    graph.replay()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) / count * 1e3


def idle(heads, tokens, count, rounds=9):
    """Medians, in microseconds a call."""
    q, k, v = tensors(heads, tokens)

    def call():
        sparge_attention(q, k, v, **RULE)

    with torch.no_grad():
        for _ in range(LEAD):
            call()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(count):
                call()
        rows = []
        for _ in range(rounds):
            (loop, _), (kernels, host) = in_a_row(call, count, False), in_a_row(call, count, True)
            replayed = graph_us(graph, count)
            rows.append(dict(loop_us=loop, kernels_us=kernels, idle_us=loop - max(kernels, replayed), host_us=host, graph_us=replayed))
    return {name: statistics.median(row[name] for row in rows) for name in rows[0]}


def verdict(passed):
    return "-" if passed is None else "passed" if passed else "FAILED"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", help="write the figures here")
    options = parser.parse_args()
    torch.manual_seed(0)
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, sparge {library().version}\n")

    print(f"| host time, us | operator | enqueue | overhead | below {LIMIT_US} |\n|---|---|---|---|---|")
    host = []
    for what, whole, part, limited in host_table():
        row = dict(what=what, operator_us=whole, enqueue_us=part, overhead_us=whole - part,
                   passed=whole - part < LIMIT_US if limited else None)
        host.append(row)
        print(f"| {what} | {whole:.1f} | {part:.1f} | {whole - part:.1f} | {verdict(row['passed'])} |", flush=True)

    print(f"\n| sparge_attention(top_k, top_p), us a call | loop | kernels | idle | host | graph | idle below {LIMIT_IDLE_US} us or "
          f"{100 * LIMIT_IDLE:.0f} % |\n|---|---|---|---|---|---|---|")
    loops = []
    for heads, tokens, count in SHAPES:
        row = dict(what=f"{heads} heads, {tokens:,} tokens", heads=heads, tokens=tokens, **idle(heads, tokens, count))
        row["passed"] = row["idle_us"] < max(LIMIT_IDLE_US, LIMIT_IDLE * row["kernels_us"])
        loops.append(row)
        cells = " | ".join(f"{row[name]:.1f}" for name in ("loop_us", "kernels_us", "idle_us", "host_us", "graph_us"))
        print(f"| {row['what']} | {cells} | {verdict(row['passed'])} |", flush=True)
    if options.json:
        with open(options.json, "w") as file:
            json.dump(dict(gpu=torch.cuda.get_device_name(), torch=torch.__version__, host=host, loops=loops), file, indent=1)
    late = [row["what"] for row in (*host, *loops) if row["passed"] is False]
    print("\n" + (f"FAILED: {'; '.join(late)}" if late else "passed: every line that has a limit"))
    return 1 if late else 0


if __name__ == "__main__":
    sys.exit(main())
