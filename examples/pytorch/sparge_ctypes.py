"""The C ABI of sparge.h through ctypes: every struct and every call, and nothing else to install.

    sparge = Library("libsparge.so")
    device = sparge.query_device(0)
    problem = Problem(batch=1, heads=12, kv_heads=12, q_tokens=32760, kv_tokens=32760, head_dim=128)
    plan = sparge.plan_forward(problem, BF16, device)
    sparge.forward(plan, ForwardArgs(q=tensor(q), k=tensor(k), v=tensor(v), mask=mask(bits), out=tensor(out)),
                   workspace_pointer, workspace_bytes, stream)

sparge.h says what every struct and call means. Pointers are integers, as `data_ptr()` gives them; q, k, v and out are seen
as [batch, heads, tokens, head_dim], so hand a [batch, tokens, heads, head_dim] tensor over as `x.transpose(1, 2)`. A
refused call raises Error. Calls only enqueue: whatever they use must stay alive until the stream has passed them. The
functions at the end of the file are for torch tensors; torch is imported only when one of them needs it.
"""

import ctypes
from ctypes import POINTER, byref, c_char, c_char_p, c_double, c_float, c_int32, c_int64, c_size_t, c_uint64, c_void_p

OK, INVALID_ARGUMENT, UNSUPPORTED, WORKSPACE_TOO_SMALL, PLAN_MISMATCH, CUDA_ERROR = range(6)
BF16, F16, F32 = 1, 2, 3
MOST_PARTIALS = 16
ORDER_NONE, ORDER_CAUSAL_BOTTOM_RIGHT = 0, 1
CHECK_ALIGNMENT, CHECK_LOCATION = 0, 1
CALIBRATE_SPARSITY, CALIBRATE_KEPT_MASS = 0, 1
CALIBRATE_EACH_HEAD, CALIBRATE_ALL_HEADS = 0, 1


class Struct(ctypes.Structure):
    """A struct of sparge.h. One that begins with its size sets it by itself; members that are not named are zero."""

    def __init__(self, *values, **members):
        kinds = {name: kind for name, kind, *_ in self._fields_}
        for name, value in members.items():
            if name not in kinds:
                raise TypeError(f"{type(self).__name__} has no {name}")
            if isinstance(value, kinds[name]) or not isinstance(value, Struct):
                continue
            members[name] = ctypes.pointer(value)  # the rule of a mask: the pointer keeps it alive
        super().__init__(*values, **members)
        if self._fields_[0][0] == "struct_size":
            self.struct_size = ctypes.sizeof(self)

    def __repr__(self):
        members = (f"{name}={getattr(self, name)!r}" for name, *_ in self._fields_ if name not in HIDDEN)
        return f"{type(self).__name__}({', '.join(members)})"


HIDDEN = ("struct_size", "reserved", "opaque")


class Status(Struct):
    _fields_ = [("struct_size", c_size_t), ("code", c_int32), ("cuda_error", c_int32), ("axis", c_int32),
                ("reserved", c_int32), ("field", c_char_p), ("given", c_int64), ("expected", c_int64),
                ("text", c_char * 464)]


EMPTY_STATUS = Status()


class Device(Struct):
    _fields_ = [("struct_size", c_size_t), ("ordinal", c_int32), ("capability_major", c_int32),
                ("capability_minor", c_int32), ("sm_count", c_int32), ("shared_bytes_per_block", c_int64),
                ("shared_bytes_per_sm", c_int64), ("l2_bytes", c_int64)]


class Problem(Struct):
    _fields_ = [("struct_size", c_size_t), ("batch", c_int64), ("heads", c_int64), ("kv_heads", c_int64),
                ("q_tokens", c_int64), ("kv_tokens", c_int64), ("head_dim", c_int32), ("q_block", c_int32),
                ("kv_block", c_int32), ("scale", c_float), ("order", c_int32), ("reserved", c_int32),
                ("q_offset", c_int64), ("all_q_tokens", c_int64)]

    @property
    def q_blocks(self):
        return -(-self.q_tokens // (self.q_block or 128))

    @property
    def kv_blocks(self):
        return -(-self.kv_tokens // (self.kv_block or 64))


class Options(Struct):
    _fields_ = [("struct_size", c_size_t), ("has_force_kernel", c_int32), ("force_kernel", c_int32),
                ("pointer_check", c_int32), ("reserved", c_int32)]


class Tensor(Struct):
    _fields_ = [("data", c_void_p), ("shape", c_int64 * 4), ("stride", c_int64 * 4), ("dtype", c_int32),
                ("reserved", c_int32)]


class Mask(Struct):
    _fields_ = [("data", c_void_p), ("words", c_size_t)]


class MaskRule(Struct):
    _fields_ = [("struct_size", c_size_t), ("top_k", c_double), ("top_p", c_double), ("top_k_of_head", c_void_p),
                ("top_p_of_head", c_void_p), ("min_blocks", c_int32), ("has_band", c_int32), ("band_tokens", c_int64),
                ("kv_front_tokens", c_int64), ("kv_back_tokens", c_int64), ("dense_q_front_tokens", c_int64),
                ("dense_q_back_tokens", c_int64)]


class MaskStats(Struct):
    """sparge_mask_stats_record: lives in device memory."""
    _fields_ = [("kept_pairs", c_int64), ("all_pairs", c_int64), ("owed_to_both", c_int64), ("owed_to_top_k", c_int64),
                ("owed_to_top_p", c_int64), ("owed_to_force", c_int64), ("pooled_mass", c_double)]


class Kernel(Struct):
    _fields_ = [("struct_size", c_size_t), ("name", c_char_p), ("dtype", c_int32), ("head_dim", c_int32),
                ("q_tile", c_int32), ("kv_tile", c_int32)]


class Plan(Struct):
    _fields_ = [("struct_size", c_size_t), ("workspace_bytes", c_size_t), ("operation", c_int32), ("dtype", c_int32),
                ("kernel", c_int32), ("dq_kernel", c_int32), ("opaque", c_uint64 * 60)]


class PoolArgs(Struct):
    _fields_ = [("struct_size", c_size_t), ("q", Tensor), ("k", Tensor), ("pooled_q", c_void_p), ("pooled_k", c_void_p)]


class SelectBlocksArgs(Struct):
    _fields_ = [("struct_size", c_size_t), ("pooled_q", c_void_p), ("pooled_k", c_void_p), ("rule", POINTER(MaskRule)),
                ("mask", Mask)]


class BuildMaskArgs(Struct):
    _fields_ = [("struct_size", c_size_t), ("q", Tensor), ("k", Tensor), ("rule", POINTER(MaskRule)), ("mask", Mask)]


class MaskStatsArgs(Struct):
    _fields_ = [("struct_size", c_size_t), ("pooled_q", c_void_p), ("pooled_k", c_void_p), ("rule", POINTER(MaskRule)),
                ("mask", Mask), ("stats", c_void_p)]


class Calibration(Struct):
    """sparge_calibration_record: lives in device memory."""
    _fields_ = [("kept_pairs", c_int64), ("all_pairs", c_int64), ("top_k_pairs", c_int64), ("top_p_pairs", c_int64),
                ("kept_mass", c_double), ("top_k_mass", c_double), ("top_p_mass", c_double), ("top_p", c_float),
                ("met", c_int32)]


class CalibrateArgs(Struct):
    _fields_ = [("struct_size", c_size_t), ("pooled_q", c_void_p), ("pooled_k", c_void_p), ("rule", POINTER(MaskRule)),
                ("target", c_double), ("goal", c_int32), ("scope", c_int32), ("top_p_of_head", c_void_p),
                ("report", c_void_p)]


class ForwardArgs(Struct):
    _fields_ = [("struct_size", c_size_t), ("q", Tensor), ("k", Tensor), ("v", Tensor), ("mask", Mask), ("out", Tensor),
                ("lse", c_void_p)]


class BackwardArgs(Struct):
    _fields_ = [("struct_size", c_size_t), ("q", Tensor), ("k", Tensor), ("v", Tensor), ("out", Tensor),
                ("grad_out", Tensor), ("lse", c_void_p), ("grad_lse", c_void_p), ("mask", Mask), ("grad_q", Tensor),
                ("grad_k", Tensor), ("grad_v", Tensor)]


class Partial(Struct):
    """sparge_partial: what forward wrote for a shard of the keys."""
    _fields_ = [("out", Tensor), ("lse", c_void_p)]


class MergePartialsArgs(Struct):
    """`partials` is a ctypes array: (Partial * 2)(first, second)."""
    _fields_ = [("struct_size", c_size_t), ("partials", POINTER(Partial)), ("count", c_int32), ("reserved", c_int32),
                ("running", Partial), ("out", Tensor), ("running_out", Tensor), ("lse", c_void_p)]


class DistillationProblem(Struct):
    _fields_ = [("struct_size", c_size_t), ("samples", c_int64), ("sample_elements", c_int64)]


class DistillationLossArgs(Struct):
    _fields_ = [("struct_size", c_size_t), ("dtype", c_int32), ("reserved", c_int32), ("student", c_void_p),
                ("teacher", c_void_p), ("weights", c_void_p), ("grad_loss", c_void_p), ("loss", c_void_p),
                ("grad_student", c_void_p)]


class InterpolateArgs(Struct):
    _fields_ = [("struct_size", c_size_t), ("dtype", c_int32), ("reserved", c_int32), ("x0", c_void_p), ("x1", c_void_p),
                ("t", c_void_p), ("x_t", c_void_p)]


class TransposeMaskArgs(Struct):
    _fields_ = [("struct_size", c_size_t), ("mask", Mask), ("transposed", Mask)]


class SliceMaskArgs(Struct):
    _fields_ = [("struct_size", c_size_t), ("mask", Mask), ("q_first_block", c_int64), ("q_block_count", c_int64),
                ("kv_first_block", c_int64), ("kv_block_count", c_int64), ("shard", Mask)]


class ByteMaskArgs(Struct):
    _fields_ = [("struct_size", c_size_t), ("mask", Mask), ("bytes", c_void_p), ("bytes_count", c_size_t)]


class BlockListsArgs(Struct):
    _fields_ = [("struct_size", c_size_t), ("mask", Mask), ("counts", c_void_p), ("indices", c_void_p),
                ("capacity", c_int64)]


class Error(RuntimeError):
    """A refused call. str() is the library's line of text."""

    def __init__(self, status):
        super().__init__(status.text.decode())
        self.code, self.field, self.axis = status.code, status.field.decode(), status.axis
        self.given, self.expected, self.cuda_error = status.given, status.expected, status.cuda_error


# Calls of one form: the arguments between the first and the last ones.
TYPED_PLANS = ("pool", "build_mask", "forward", "backward", "merge_partials")
PLANS = ("select_blocks", "mask_stats", "calibrate", "mask_form")
DISTILLATION_PLANS = ("distillation_loss", "interpolate")
CALLS = {"pool": PoolArgs, "select_blocks": SelectBlocksArgs, "build_mask": BuildMaskArgs, "mask_stats": MaskStatsArgs,
         "calibrate": CalibrateArgs, "forward": ForwardArgs, "backward": BackwardArgs, "distillation_loss": DistillationLossArgs}
CALLS_WITHOUT_WORKSPACE = {"transpose_mask": TransposeMaskArgs, "slice_mask": SliceMaskArgs,
                           "merge_partials": MergePartialsArgs, "mask_to_bytes": ByteMaskArgs,
                           "mask_from_bytes": ByteMaskArgs, "mask_to_lists": BlockListsArgs,
                           "mask_from_lists": BlockListsArgs, "interpolate": InterpolateArgs}


class Library:
    """A loaded libsparge.so, of `path`. Its methods are the calls of sparge.h without their prefix."""

    def __init__(self, path="libsparge.so"):
        self.path = str(path)
        self._library = library = ctypes.CDLL(self.path)
        self._declare("query_device", c_int32, POINTER(Device))
        self._declare("mask_words", POINTER(Problem), POINTER(c_size_t))
        self._declare("transposed_mask_words", POINTER(Problem), POINTER(c_size_t))
        self._declare("supported_kernel", c_int32, POINTER(Kernel))
        self._declare("supported_backward_kernel", c_int32, POINTER(Kernel))
        planned = (POINTER(Device), POINTER(Options), POINTER(Plan))
        for name in TYPED_PLANS:
            self._declare("plan_" + name, POINTER(Problem), c_int32, *planned)
        for name in PLANS:
            self._declare("plan_" + name, POINTER(Problem), *planned)
        for name in DISTILLATION_PLANS:
            self._declare("plan_" + name, POINTER(DistillationProblem), c_int32, *planned)
        for name, args in CALLS.items():
            self._declare(name, POINTER(Plan), POINTER(args), c_void_p, c_size_t, c_void_p)
        for name, args in CALLS_WITHOUT_WORKSPACE.items():
            self._declare(name, POINTER(Plan), POINTER(args), c_void_p)
        library.sparge_version.restype = c_char_p
        library.sparge_supported_kernels.restype = c_int32
        library.sparge_supported_backward_kernels.restype = c_int32

    def _declare(self, name, *arguments):
        function = getattr(self._library, "sparge_" + name)
        function.argtypes = [*arguments, POINTER(Status)]
        function.restype = c_int32

    def _call(self, name, *arguments):
        status = Status.from_buffer_copy(EMPTY_STATUS)  # a third of the time of making one
        if getattr(self._library, "sparge_" + name)(*arguments, byref(status)) != OK:
            raise Error(status)

    # ---- Version, device, sizes, kernels ----

    @property
    def version(self):
        return self._library.sparge_version().decode()

    def query_device(self, ordinal):
        device = Device()
        self._call("query_device", ordinal, byref(device))
        return device

    def mask_words(self, problem):
        words = c_size_t()
        self._call("mask_words", byref(problem), byref(words))
        return words.value

    def transposed_mask_words(self, problem):
        words = c_size_t()
        self._call("transposed_mask_words", byref(problem), byref(words))
        return words.value

    def supported_kernels(self):
        return self._library.sparge_supported_kernels()

    def supported_kernel(self, index):
        kernel = Kernel()
        self._call("supported_kernel", index, byref(kernel))
        return kernel

    def supported_backward_kernels(self):
        return self._library.sparge_supported_backward_kernels()

    def supported_backward_kernel(self, index):
        kernel = Kernel()
        self._call("supported_backward_kernel", index, byref(kernel))
        return kernel

    # ---- Plans ----

    def _plan(self, name, *arguments, options):
        plan = Plan()
        self._call("plan_" + name, *arguments, None if options is None else byref(options), byref(plan))
        return plan

    def plan_pool(self, problem, dtype, device, options=None):
        return self._plan("pool", byref(problem), dtype, byref(device), options=options)

    def plan_select_blocks(self, problem, device, options=None):
        return self._plan("select_blocks", byref(problem), byref(device), options=options)

    def plan_build_mask(self, problem, dtype, device, options=None):
        return self._plan("build_mask", byref(problem), dtype, byref(device), options=options)

    def plan_mask_stats(self, problem, device, options=None):
        return self._plan("mask_stats", byref(problem), byref(device), options=options)

    def plan_calibrate(self, problem, device, options=None):
        return self._plan("calibrate", byref(problem), byref(device), options=options)

    def plan_mask_form(self, problem, device, options=None):
        return self._plan("mask_form", byref(problem), byref(device), options=options)

    def plan_forward(self, problem, dtype, device, options=None):
        return self._plan("forward", byref(problem), dtype, byref(device), options=options)

    def plan_backward(self, problem, dtype, device, options=None):
        return self._plan("backward", byref(problem), dtype, byref(device), options=options)

    def plan_merge_partials(self, problem, dtype, device, options=None):
        return self._plan("merge_partials", byref(problem), dtype, byref(device), options=options)

    def plan_distillation_loss(self, problem, dtype, device, options=None):
        return self._plan("distillation_loss", byref(problem), dtype, byref(device), options=options)

    def plan_interpolate(self, problem, dtype, device, options=None):
        return self._plan("interpolate", byref(problem), dtype, byref(device), options=options)

    # ---- Calls: `workspace` is a pointer to `workspace_bytes`, `stream` a cudaStream_t, both as integers ----

    def _run(self, name, plan, args, workspace, workspace_bytes, stream):
        self._call(name, byref(plan), byref(args), workspace, workspace_bytes, stream)

    def pool(self, plan, args, workspace, workspace_bytes, stream):
        self._run("pool", plan, args, workspace, workspace_bytes, stream)

    def select_blocks(self, plan, args, workspace, workspace_bytes, stream):
        self._run("select_blocks", plan, args, workspace, workspace_bytes, stream)

    def build_mask(self, plan, args, workspace, workspace_bytes, stream):
        self._run("build_mask", plan, args, workspace, workspace_bytes, stream)

    def mask_stats(self, plan, args, workspace, workspace_bytes, stream):
        self._run("mask_stats", plan, args, workspace, workspace_bytes, stream)

    def calibrate(self, plan, args, workspace, workspace_bytes, stream):
        self._run("calibrate", plan, args, workspace, workspace_bytes, stream)

    def forward(self, plan, args, workspace, workspace_bytes, stream):
        self._run("forward", plan, args, workspace, workspace_bytes, stream)

    def backward(self, plan, args, workspace, workspace_bytes, stream):
        self._run("backward", plan, args, workspace, workspace_bytes, stream)

    def ready(self, name, plan):
        """The call `name` with a workspace, ready for one plan: a function of what follows the plan. For calls that are made often."""
        function, plan = getattr(self._library, "sparge_" + name), byref(plan)

        def call(args, workspace, workspace_bytes, stream):
            status = Status.from_buffer_copy(EMPTY_STATUS)
            if function(plan, byref(args), workspace, workspace_bytes, stream, byref(status)) != OK:
                raise Error(status)
        return call

    def merge_partials(self, plan, args, stream):
        self._call("merge_partials", byref(plan), byref(args), stream)

    def distillation_loss(self, plan, args, workspace, workspace_bytes, stream):
        self._run("distillation_loss", plan, args, workspace, workspace_bytes, stream)

    def interpolate(self, plan, args, stream):
        self._call("interpolate", byref(plan), byref(args), stream)

    def transpose_mask(self, plan, args, stream):
        self._call("transpose_mask", byref(plan), byref(args), stream)

    def slice_mask(self, plan, args, stream):
        self._call("slice_mask", byref(plan), byref(args), stream)

    def mask_to_bytes(self, plan, args, stream):
        self._call("mask_to_bytes", byref(plan), byref(args), stream)

    def mask_from_bytes(self, plan, args, stream):
        self._call("mask_from_bytes", byref(plan), byref(args), stream)

    def mask_to_lists(self, plan, args, stream):
        self._call("mask_to_lists", byref(plan), byref(args), stream)

    def mask_from_lists(self, plan, args, stream):
        self._call("mask_from_lists", byref(plan), byref(args), stream)


# ---- torch tensors -------------------------------------------------------------------------------------------------


def dtype_of(x):
    """BF16, F16 or, which merging and distillation alone take, F32 of a torch tensor."""
    import torch
    dtypes = {torch.bfloat16: BF16, torch.float16: F16, torch.float32: F32}
    if x.dtype not in dtypes:
        raise TypeError(f"{x.dtype} is not a type of sparge; use torch.bfloat16, torch.float16 or torch.float32")
    return dtypes[x.dtype]


def tensor(x):
    """A view of a torch tensor [batch, heads, tokens, head_dim], of any strides."""
    return Tensor(x.data_ptr(), (c_int64 * 4)(*x.shape), (c_int64 * 4)(*x.stride()), dtype_of(x))


def mask(words):
    """A view of a contiguous torch tensor of 32-bit words."""
    assert words.is_contiguous() and words.element_size() == 4, "mask words are contiguous and of 32 bits"
    return Mask(words.data_ptr(), words.numel())


def current_stream():
    """torch's current stream, as the calls take it."""
    import torch
    return torch.cuda.current_stream().cuda_stream


def scratch(plan):
    """A torch tensor of the plan's workspace. torch aligns its allocations to 512 bytes, more than the 256 needed."""
    import torch
    return torch.empty(plan.workspace_bytes, dtype=torch.uint8, device="cuda")


def mask_pairs(words, kv_blocks):
    """Mask words [..., ceil(kv_blocks / 32)] of int32 as bools [..., kv_blocks]."""
    import torch
    bits = torch.arange(32, dtype=torch.int32, device=words.device)
    return ((words.unsqueeze(-1) >> bits) & 1).bool().flatten(-2)[..., :kv_blocks]
