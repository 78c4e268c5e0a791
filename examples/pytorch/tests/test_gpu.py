"""What only a GPU shows: CUDA graphs, streams, threads, FlexAttention under the same mask."""

import threading

import pytest
import torch
from torch.nn.attention.flex_attention import BlockMask, flex_attention, noop_mask

import reference
import sparge_torch
from sparge_torch import Report, Rule, Schedule, Stack, build_mask, calls, distillation_loss, pack_blocks, sparge_attention
from support import close, kept, qkv

pytestmark = pytest.mark.gpu


class Student(torch.nn.Module):
    def __init__(self, heads=4, head_dim=64):
        super().__init__()
        self.heads, channels = heads, heads * head_dim
        self.qkv, self.out = torch.nn.Linear(channels, 3 * channels), torch.nn.Linear(channels, channels)

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(2, (3, self.heads, -1)).unbind(2)
        return self.out(sparge_attention(q, k, v, top_k=0.2, top_p=0.3, layout="bnhd").flatten(2))


def training(checkpointed):
    torch.manual_seed(1)
    model = Student().to("cuda", torch.bfloat16)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step(x, teacher):
        optimiser.zero_grad(set_to_none=False)
        out = sparge_torch.checkpoint(model, x, preserve_rng_state=False) if checkpointed else model(x)
        loss = distillation_loss(out, teacher)
        loss.backward()
        optimiser.step()
        return loss
    return model, step


@pytest.mark.parametrize("checkpointed", [False, True], ids=["plain", "checkpointed"])
def test_a_captured_training_step_replays_what_eager_code_computes(checkpointed):
    torch.manual_seed(2)
    batches = [tuple(torch.randn(2, 1000, 256, device="cuda", dtype=torch.bfloat16) for _ in range(2)) for _ in range(5)]
    model, step = training(checkpointed)
    eager = [step(*batch).item() for batch in (batches[0], batches[0], batches[0], *batches)]
    eager_weights = [p.clone() for p in model.parameters()]

    model, step = training(checkpointed)
    x, teacher = (t.clone() for t in batches[0])
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        found = [step(x, teacher).item() for _ in range(3)]
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step(x, teacher)
    for batch in batches:
        x.copy_(batch[0])
        teacher.copy_(batch[1])
        graph.replay()
        found.append(loss.item())
    assert found == pytest.approx(eager, rel=1e-3) and found[0] > found[-1]
    for p, q in zip(model.parameters(), eager_weights, strict=True):
        assert (p - q).norm() <= 1e-2 * q.norm()


def test_compiled_code_runs_in_cuda_graphs():
    report = Report(1)
    stack = Stack(1, Schedule(Rule(0.2, 0.3)), report)
    plain = Stack(1, Schedule(Rule(0.2, 0.3)))

    def run(q, k, v):
        return stack.attend(0, q * 1.5, k, v)
    for mode in ("default", "reduce-overhead"):
        compiled = torch.compile(run, fullgraph=True, mode=mode)
        for _ in range(4):
            q, k, v = qkv("cuda")
            assert torch.equal(compiled(q, k, v).clone(), plain.attend(0, q * 1.5, k, v))
    assert report.summary()["calls"] == 8 and 0 < report.summary()["sparsity of masks"] < 1


def test_reports_count_replays_of_a_graph():
    report = Report(1)
    stack = Stack(1, Schedule(Rule(0.2, 0.3)), report)
    q, k, v = qkv("cuda")
    stack.attend(0, q, k, v)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        stack.attend(0, q, k, v)
    for _ in range(3):
        graph.replay()
    assert report.summary()["calls"] == 4


def test_one_operator_in_a_graph_follows_its_inputs():
    q, k, v = qkv("cuda")
    shares = torch.full((4,), 0.2, device="cuda")
    sparge_attention(q, k, v, top_k=shares)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = sparge_attention(q, k, v, top_k=shares)
    for share in (0.2, 0.6):
        q.normal_()
        shares.fill_(share)
        graph.replay()
        expected, _ = sparge_attention(q, k, v, top_k=share, return_lse=True)  # of two operators
        assert torch.equal(out, expected)


def test_calls_run_on_the_current_stream():
    q, k, v = qkv("cuda")
    expected = sparge_attention(q, k, v, top_k=0.2)
    late = torch.zeros_like(q)
    side = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        torch.cuda._sleep(50_000_000)
        late.copy_(q)
        out = sparge_attention(late, k, v, top_k=0.2)
    side.synchronize()
    assert torch.equal(out, expected)


def test_threads_on_streams_of_their_own_get_the_bits_of_one_thread():
    """Plans are made by several threads at once, and calls are enqueued at the same time."""
    cases = [dict(head_dim=d, kv_tokens=n, kv_heads=h) for d in (64, 128) for n in (500, 1700) for h in (2, 4)]
    inputs = [qkv("cuda", grad=True, **case) for case in cases]

    def results(q, k, v):
        out, lse, stats = sparge_attention(q, k, v, top_k=0.2, top_p=0.3, return_lse=True, return_stats=True)
        with torch.no_grad():
            alone = sparge_attention(q, k, v, top_k=0.2, top_p=0.3)
        return alone, out, lse, stats.kept_pairs, *torch.autograd.grad(out.float().square().sum() + lse.sum(), (q, k, v))
    expected = [results(*x) for x in inputs]
    torch.cuda.synchronize()
    for prepared in (calls.build_mask, calls.attention, calls.sparse_attention, calls.attention_backward, calls.pool, calls.mask_stats):
        prepared.cache_clear()
    failures = []

    def work(offset):
        try:
            with torch.cuda.stream(torch.cuda.Stream()):
                for i in range(3 * len(cases)):
                    index = (i + offset) % len(cases)
                    found = results(*inputs[index])
                    torch.cuda.current_stream().synchronize()
                    if not all(torch.equal(a, b) for a, b in zip(found, expected[index], strict=True)):
                        failures.append(f"thread {offset}, {cases[index]}")
        except Exception as error:  # a thread's exception would be lost
            failures.append(repr(error))
    threads = [threading.Thread(target=work, args=(offset,)) for offset in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures[:3]


def flex_mask(keep, blocks, q_tokens, kv_tokens):
    """The same block pairs, all of them full ones, which FlexAttention applies no mask function to."""
    counts = keep.sum(3, dtype=torch.int32)
    indices = torch.argsort(keep.to(torch.uint8), dim=3, descending=True, stable=True).to(torch.int32)
    partial = torch.zeros_like(counts), torch.zeros_like(indices)
    return BlockMask.from_kv_blocks(*partial, counts, indices, BLOCK_SIZE=blocks, mask_mod=noop_mask,
                                    seq_lengths=(q_tokens, kv_tokens))


def test_flex_attention_agrees_under_the_same_mask():
    """With blocks of 128 by 128 on both sides: FlexAttention's compiled kernels refuse 128 by 64 in this version of torch."""
    q, k, v = qkv("cuda", q_tokens=1024, kv_tokens=1536, grad=True)
    blocks = (128, 128)
    mask = build_mask(q, k, top_k=0.2, top_p=0.3, q_block=128, kv_block=128)
    keep = kept(mask, k, kv_block=128)
    ours = sparge_attention(q, k, v, mask=mask, q_block=128, kv_block=128)
    flex = torch.compile(flex_attention, dynamic=False)(q, k, v, block_mask=flex_mask(keep, blocks, 1024, 1536))
    leaves = [x.detach().double().requires_grad_() for x in (q, k, v)]
    truth, _ = reference.attention(*leaves, keep, blocks)
    grad_out = torch.randn_like(ours)
    close(ours, truth.detach(), flex.detach(), "out")
    grads = [torch.autograd.grad(out, inputs, grad_out.to(out.dtype))
             for out, inputs in ((ours, (q, k, v)), (flex, (q, k, v)), (truth, leaves))]
    for name, x, theirs, exact in zip("qkv", *grads, strict=True):
        close(x, exact, theirs, f"grad_{name}")


def test_a_mask_of_the_callers_own_may_be_any_pattern():
    q, k, v = qkv("cuda", q_tokens=640, kv_tokens=2100)
    keep = torch.rand(2, 4, 5, 33, device="cuda") < 0.3
    truth, naive = (reference.attention(q, k, v, keep, working=working)[0] for working in (torch.float64, torch.bfloat16))
    close(sparge_attention(q, k, v, mask=pack_blocks(keep)), truth, naive)


def test_no_call_waits_for_the_device():
    q, k, v = qkv("cuda", grad=True)
    report = Report(1)
    stack = Stack(1, Schedule(Rule(0.2, 0.3)), report)
    stack.attend(0, q, k, v).sum().backward()
    torch.cuda.set_sync_debug_mode("error")
    try:
        stack.attend(0, q, k, v).sum().backward()
    finally:
        torch.cuda.set_sync_debug_mode("default")
