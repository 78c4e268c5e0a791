"""What training frameworks do around attention: checkpointing, autocast, distributed data parallel, distillation."""

import functools

import pytest
import torch
from torch.utils.checkpoint import checkpoint as plain_checkpoint

import sparge_torch
from sparge_torch import build_mask, distillation_loss, sparge_attention
from support import kept, qkv


class Masks(torch.utils._python_dispatch.TorchDispatchMode):
    """The masks that are built while it is on."""

    def __init__(self):
        super().__init__()
        self.built, self.used = [], []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        if function is torch.ops.sparge.build_mask.default:
            self.built.append(result.clone())
        if function is torch.ops.sparge.attention.default:
            self.used.append(args[3].clone())
        return result


class Layer(torch.nn.Module):
    """Projections with one attention: [batch, tokens, channels]."""

    def __init__(self, heads=2, head_dim=64):
        super().__init__()
        self.heads, channels = heads, heads * head_dim
        self.qkv, self.out = torch.nn.Linear(channels, 3 * channels), torch.nn.Linear(channels, channels)

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(2, (3, self.heads, -1)).unbind(2)
        return x + self.out(sparge_attention(q, k, v, top_k=0.3, top_p=0.2, layout="bnhd").flatten(2))


def layer_and_input(device, dtype=torch.bfloat16):
    torch.manual_seed(5)
    return Layer().to(device, dtype), torch.randn(2, 300, 128, device=device, dtype=dtype)


CHECKPOINTS = {"torch's": functools.partial(plain_checkpoint, use_reentrant=False),
               "reentrant": functools.partial(plain_checkpoint, use_reentrant=True),
               "with kept masks": sparge_torch.checkpoint}


@pytest.mark.parametrize("how", CHECKPOINTS.values(), ids=CHECKPOINTS.keys())
def test_recompute_has_the_same_mask_and_the_same_gradients(device, how):
    layer, x = layer_and_input(device)
    x.requires_grad_()
    layer(x).float().square().sum().backward()
    plain = [p.grad.clone() for p in (*layer.parameters(), x)]
    layer.zero_grad()
    x.grad = None
    with Masks() as masks:
        how(layer, x).float().square().sum().backward()
    assert len(masks.used) == 2 and torch.equal(*masks.used)
    assert all(torch.equal(a, b.grad) for a, b in zip(plain, (*layer.parameters(), x), strict=True))


def test_kept_masks_are_those_of_forward_even_where_recompute_would_choose_others(device):
    """A layer that does not repeat itself, such as one with dropout outside of torch's generators."""
    q, k, v = qkv(device, grad=True)
    noise = [torch.randn_like(k) * 3 for _ in range(2)]

    def run(q, k, v):
        return sparge_attention(q, k + noise.pop(), v, top_k=0.3)

    with Masks() as masks:
        sparge_torch.checkpoint(run, q, k, v).sum().backward()
    assert len(masks.built) == 1 and len(masks.used) == 2 and torch.equal(*masks.used)


def test_autocast_casts_as_torchs_attention_does(device):
    q, k, v = (x.float().requires_grad_() for x in qkv(device))
    with torch.autocast(device, torch.bfloat16):
        out, lse = sparge_attention(q, k, v, top_k=0.3, return_lse=True)
    assert out.dtype == torch.bfloat16 and lse.dtype == torch.float32
    out.float().sum().backward()
    assert all(x.grad.dtype == torch.float32 for x in (q, k, v))
    low = [x.detach().bfloat16() for x in (q, k, v)]
    assert torch.equal(out, sparge_attention(*low, top_k=0.3))


def test_a_mask_serves_many_calls(device):
    q, k, v = qkv(device)
    mask = build_mask(q, k, top_k=0.3, top_p=0.2)
    assert torch.equal(sparge_attention(q, k, v, mask=mask), sparge_attention(q, k, v, top_k=0.3, top_p=0.2))
    before = mask.clone()
    moved = q + torch.randn_like(q)
    with Masks() as masks:
        out, stats = sparge_attention(moved, k, v, mask=mask, return_stats=True)
    assert not masks.built and torch.equal(masks.used[0], before) and torch.equal(stats.kept_pairs, kept(mask, k).sum((2, 3)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_distillation_loss_is_the_weighted_mean_square(device, dtype):
    student, teacher = (torch.randn(3, 5, 1003, device=device, dtype=dtype) for _ in range(2))
    weights = torch.rand(3, device=device)
    student.requires_grad_()
    for w in (None, weights):
        exact = student.detach().double().requires_grad_()
        factor = 1.0 if w is None else w.double()[:, None, None]
        truth = (factor * (exact - teacher.double()).square()).mean()
        loss = distillation_loss(student, teacher, w)
        torch.testing.assert_close(loss.double(), truth.detach(), rtol=1e-6, atol=0)
        grad, = torch.autograd.grad(loss * 1024, student)
        exact_grad, = torch.autograd.grad(truth * 1024, exact)
        kind = torch.finfo(dtype)
        error = (grad.double() - exact_grad).abs() - (kind.eps / 2 + 2**-21) * exact_grad.abs()
        assert error.max() <= kind.eps * kind.tiny, "rounded once, the scale inside"


def test_distillation_loss_takes_any_layout_of_both(device):
    student, teacher = (torch.randn(2, 6, 8, device=device).transpose(1, 2) for _ in range(2))
    torch.testing.assert_close(distillation_loss(student, teacher), (student - teacher).square().mean())


def replica(rank, world, port, device, result):
    import cpu_operators  # noqa: F401
    torch.distributed.init_process_group("gloo", f"tcp://127.0.0.1:{port}", rank=rank, world_size=world)
    layer, x = layer_and_input(device, torch.bfloat16)
    x = torch.cat([x, 2 * x])
    model = torch.nn.parallel.DistributedDataParallel(layer)
    model(x[2 * rank:2 * rank + 2]).float().square().mean().backward()
    if rank == 0:
        result.put({name: p.grad.float().cpu().numpy() for name, p in layer.named_parameters()})
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def test_data_parallel_replicas_agree_with_one_process(device):
    """Two processes, by gloo, which serves CPU tensors and those of one GPU alike."""
    import socket
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    context = torch.multiprocessing.get_context("spawn")
    result = context.SimpleQueue()
    processes = [context.Process(target=replica, args=(rank, 2, port, device, result)) for rank in range(2)]
    for process in processes:
        process.start()
    grads = result.get()
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    layer, x = layer_and_input(device, torch.bfloat16)
    layer(torch.cat([x, 2 * x])).float().square().mean().backward()
    for name, p in layer.named_parameters():
        truth = p.grad.float().cpu()
        assert (torch.from_numpy(grads[name]) - truth).norm() <= 2e-2 * truth.norm(), name
