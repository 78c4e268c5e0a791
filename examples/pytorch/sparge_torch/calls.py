"""Plans and arguments of the library's calls, prepared once for each combination of shapes, strides, element type and options.

A prepared call holds everything but the addresses. Running it copies its arguments, so that threads do not share them, and
fills those in. Checks run when a call is prepared: what reaches the cache is right by its key.
"""

import functools

import torch

import sparge_ctypes as abi

from . import shapes
from .library import device, library

CACHED_CALLS = 4096  # of each kind; a model with ever new shapes forgets the oldest


def describe(x):
    """What of a tensor decides a call: the key of the cache."""
    return x.shape, x.stride(), x.dtype, x.get_device()


def stand_in(description):
    """A tensor without memory that has the description, for the checks."""
    shape, stride, dtype, _ = description
    return torch.empty_strided(shape, stride, dtype=dtype, device="meta")


def view(x, layout):
    """The argument for a tensor, without its address."""
    sizes, strides = (abi.c_int64 * 4)(*shapes.logical(x.shape, layout)), (abi.c_int64 * 4)(*shapes.logical(x.stride(), layout))
    return abi.Tensor(None, sizes, strides, abi.dtype_of(x))


def problem_of(q, k, blocks, scale, layout):
    batch, heads, q_tokens, head_dim = shapes.logical(q.shape, layout)
    _, kv_heads, kv_tokens, _ = shapes.logical(k.shape, layout)
    return abi.Problem(batch=batch, heads=heads, kv_heads=kv_heads, q_tokens=q_tokens, kv_tokens=kv_tokens, head_dim=head_dim,
                       q_block=blocks[0], kv_block=blocks[1], scale=scale)


class Prepared:
    """A plan, the arguments without addresses, and what `keep_alive` the arguments point to."""

    def __init__(self, name, plan, arguments, index, keep_alive=None):
        self.call, self.plan, self.template = library().ready(name, plan), plan, arguments
        self.kind, self.index, self.keep_alive = type(arguments), index, keep_alive
        self.workspace_bytes = plan.workspace_bytes

    def arguments(self):
        return self.kind.from_buffer_copy(self.template)

    def run(self, arguments):
        """On torch's current stream. The workspace is of torch's allocator, which hands it out again in stream order."""
        if current_device() != self.index:
            with torch.cuda.device(self.index):
                return self.run(arguments)
        size = self.workspace_bytes
        scratch = torch.empty(size, dtype=torch.uint8, device=self.index) if size else None  # until the call is over
        self.call(arguments, None if scratch is None else scratch.data_ptr(), size, current_stream(self.index))


def current_device():
    """torch.cuda.current_device() where CUDA is surely initialised: there are tensors."""
    return torch._C._cuda_getDevice()


def current_stream(index):
    """The cudaStream_t of torch's current stream, without a torch.cuda.Stream around it."""
    return torch._C._cuda_getCurrentRawStream(index)


def same_device(**descriptions):
    """The index of the CUDA device that all lie on."""
    (first, (*_, index)), *others = descriptions.items()
    for name, (*_, other) in others:
        if other != index:
            places = ["the CPU" if at < 0 else f"cuda:{at}" for at in (other, index)]
            raise ValueError(f"{name} is on {places[0]}, {first} on {places[1]}; they must be on the same device")
    return index


@functools.lru_cache(CACHED_CALLS)
def build_mask(q, k, rule_numbers, blocks, scale, layout):
    index = same_device(q=q, k=k)
    q, k = stand_in(q), stand_in(k)
    shapes.check_qk(q, k, layout)
    rule = rule_of(rule_numbers)
    problem = problem_of(q, k, blocks, scale, layout)
    plan = library().plan_build_mask(problem, abi.dtype_of(q), device(index))
    words = abi.Mask(None, library().mask_words(problem))
    arguments = abi.BuildMaskArgs(q=view(q, layout), k=view(k, layout), rule=rule, mask=words)
    prepared = Prepared("build_mask", plan, arguments, index, rule)
    prepared.mask_shape = shapes.mask_shape(q.shape, k.shape, blocks, layout)
    return prepared


def rule_of(numbers):
    """sparge_mask_rule without the shares of single heads."""
    top_k, top_p, min_blocks, (band, *rest) = numbers
    kept = dict(zip(("kv_front_tokens", "kv_back_tokens", "dense_q_front_tokens", "dense_q_back_tokens"), rest, strict=True))
    return abi.MaskRule(top_k=top_k, top_p=top_p, min_blocks=min_blocks, has_band=int(band >= 0), band_tokens=max(band, 0), **kept)


def with_head_shares(rule, heads, top_k_of_head, top_p_of_head):
    """A copy of the rule that points to the shares of single heads."""
    copy = abi.MaskRule.from_buffer_copy(rule)
    for name, shares in (("top_k_of_head", top_k_of_head), ("top_p_of_head", top_p_of_head)):
        if shares is None:
            continue
        if shares.dtype != torch.float32 or tuple(shares.shape) != (heads,) or not shares.is_contiguous() or not shares.is_cuda:
            raise ValueError(f"{name} is {shares.dtype} {tuple(shares.shape)} on {shares.device}; it must be contiguous "
                             f"torch.float32 ({heads},) on the device of q")
        setattr(copy, name, shares.data_ptr())
    return copy


@functools.lru_cache(CACHED_CALLS)
def attention(q, k, v, mask, blocks, scale, layout):
    index = same_device(q=q, k=k, v=v, mask=mask)
    q, k, v, mask = (stand_in(x) for x in (q, k, v, mask))
    check(q, k, v, mask, blocks, layout)
    plan = library().plan_forward(problem_of(q, k, blocks, scale, layout), abi.dtype_of(q), device(index))
    out = view(shapes.like(q), layout)
    arguments = abi.ForwardArgs(q=view(q, layout), k=view(k, layout), v=view(v, layout), mask=abi.Mask(None, mask.numel()), out=out)
    prepared = Prepared("forward", plan, arguments, index)
    prepared.lse_shape = shapes.logical(q.shape, layout)[:3]
    return prepared


def check(q, k, v, mask, blocks, layout):
    shapes.check_qkv(q, k, v, layout)
    shapes.check_mask(mask, q, k, blocks, layout)
    if not mask.is_contiguous():
        raise ValueError(f"mask.stride is {mask.stride()}; words must be contiguous: call mask.contiguous()")


class SparseAttention:
    """build_mask() and attention() of its mask, which nobody else sees: the mask and the workspace, which the two take one after
    the other, are of one allocation."""

    def __init__(self, of_mask, of_attention):
        self.of_mask, self.of_attention, self.index = of_mask, of_attention, of_mask.index
        self.mask_at = -(-max(of_mask.workspace_bytes, of_attention.workspace_bytes) // 256) * 256
        self.scratch_bytes = self.mask_at + max(4 * of_attention.template.mask.words, 1)

    def run(self, mask_arguments, arguments):
        """As Prepared.run(); the arguments lack the mask's address alone."""
        if current_device() != self.index:
            with torch.cuda.device(self.index):
                return self.run(mask_arguments, arguments)
        memory = torch.empty(self.scratch_bytes, dtype=torch.uint8, device=self.index)  # until both calls are over
        stream, scratch = current_stream(self.index), memory.data_ptr()
        mask_arguments.mask.data = arguments.mask.data = scratch + self.mask_at
        self.of_mask.call(mask_arguments, scratch, self.of_mask.workspace_bytes, stream)
        self.of_attention.call(arguments, scratch, self.of_attention.workspace_bytes, stream)


@functools.lru_cache(CACHED_CALLS)
def sparse_attention(q, k, v, rule_numbers, blocks, scale, layout):
    of_mask = build_mask(q, k, rule_numbers, blocks, scale, layout)
    shape = of_mask.mask_shape
    mask = shape, torch.empty(shape, device="meta").stride(), torch.int32, of_mask.index
    return SparseAttention(of_mask, attention(q, k, v, mask, blocks, scale, layout))


@functools.lru_cache(CACHED_CALLS)
def attention_backward(grad_out, q, k, v, out, mask, blocks, scale, layout):
    index = same_device(q=q, k=k, v=v, mask=mask, out=out, grad_out=grad_out)
    grad_out, q, k, v, out, mask = (stand_in(x) for x in (grad_out, q, k, v, out, mask))
    check(q, k, v, mask, blocks, layout)
    plan = library().plan_backward(problem_of(q, k, blocks, scale, layout), abi.dtype_of(q), device(index))
    inputs = {name: view(x, layout) for name, x in (("q", q), ("k", k), ("v", v), ("out", out), ("grad_out", grad_out))}
    outputs = {"grad_" + name: view(shapes.like(x), layout) for name, x in (("q", q), ("k", k), ("v", v))}
    return Prepared("backward", plan, abi.BackwardArgs(mask=abi.Mask(None, mask.numel()), **inputs, **outputs), index)


@functools.lru_cache(CACHED_CALLS)
def pool(q, k, blocks, scale, layout):
    index = same_device(q=q, k=k)
    q, k = stand_in(q), stand_in(k)
    shapes.check_qk(q, k, layout)
    problem = problem_of(q, k, blocks, scale, layout)
    plan = library().plan_pool(problem, abi.dtype_of(q), device(index))
    prepared = Prepared("pool", plan, abi.PoolArgs(q=view(q, layout), k=view(k, layout)), index)
    prepared.pooled_shapes = [(problem.batch, problem.heads, problem.q_blocks, problem.head_dim),
                              (problem.batch, problem.kv_heads, problem.kv_blocks, problem.head_dim)]
    return prepared


@functools.lru_cache(CACHED_CALLS)
def mask_stats(q, k, mask, rule_numbers, blocks, scale, layout):
    index = same_device(q=q, k=k, mask=mask)
    q, k, mask = stand_in(q), stand_in(k), stand_in(mask)
    check(q, k, k, mask, blocks, layout)
    rule = rule_of(rule_numbers)
    plan = library().plan_mask_stats(problem_of(q, k, blocks, scale, layout), device(index))
    return Prepared("mask_stats", plan, abi.MaskStatsArgs(rule=rule, mask=abi.Mask(None, mask.numel())), index, rule)


@functools.lru_cache(CACHED_CALLS)
def distillation_loss(student, index):
    shape, _, dtype, _ = student
    samples = shape[0]
    elements = stand_in(student).numel() // samples if samples else 0
    element = abi.dtype_of(stand_in(student))
    problem = abi.DistillationProblem(samples=samples, sample_elements=elements)
    plan = library().plan_distillation_loss(problem, element, device(index))
    return Prepared("distillation_loss", plan, abi.DistillationLossArgs(dtype=element), index)
