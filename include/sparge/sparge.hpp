#pragma once
/// SpargeAttention2 kernels: everything public. Compiles as C++17 with a plain host compiler.
///
/// Make a plan from shapes (no CUDA call), allocate `plan.workspace_bytes`, then call. Calls only enqueue work on the
/// stream: they never allocate, synchronise, read back, or touch another stream, and they can be captured into a CUDA
/// graph. A refused call returns a Status that names the field, has launched nothing and has written nothing.
/// Link `sparge::sparge` for these as compiled functions, or include `sparge/sparge.cuh` for header-only use with nvcc.

#include <driver_types.h>

#include <cstddef>
#include <cstdint>

#include "sparge/core/calibration.hpp"
#include "sparge/core/device.hpp"
#include "sparge/core/distillation_problem.hpp"
#include "sparge/core/element.hpp"
#include "sparge/core/mask_rule.hpp"
#include "sparge/core/mask_view.hpp"
#include "sparge/core/partial.hpp"
#include "sparge/core/plan_options.hpp"
#include "sparge/core/problem.hpp"
#include "sparge/core/status.hpp"
#include "sparge/core/tensor_view.hpp"
#include "sparge/core/workspace.hpp"

namespace sparge {

// ---- Device, status, sizes -----------------------------------------------------------------------------------------

/// Reads what plans need to know of a GPU. Leaves the current device as it was.
Status query_device(int ordinal, Device* device) noexcept;

/// Writes one line of text, always terminated where size > 0. Returns the length of the whole line, as snprintf does.
std::size_t describe(Status const& status, char* text, std::size_t size) noexcept;

/// Length of `MaskBits` for a problem: batch * heads * q_blocks * ceil(kv_blocks / 32).
Status mask_words(AttentionProblem const& problem, std::size_t* words) noexcept;

/// Length of a transposed mask: batch * heads * kv_blocks * ceil(q_blocks / 32).
Status transposed_mask_words(AttentionProblem const& problem, std::size_t* words) noexcept;

/// One kernel of this build.
struct KernelInfo {
  char const* name;  ///< e.g. "sm80 bf16 d128 tile 128x64 stages 2 warps 4"
  ElementType dtype;
  std::int32_t head_dim, q_tile, kv_tile;
};

/// Number of forward kernels in the table; `index` of supported_kernel runs over them and is what force_kernel takes.
std::int32_t supported_kernels() noexcept;
/// Describes a kernel of the table; refused where the index is out of range or this build left the kernel out.
Status supported_kernel(std::int32_t index, KernelInfo* info) noexcept;

/// The same for the backward kernels, of both passes: names begin with "dkdv" or "dq".
std::int32_t supported_backward_kernels() noexcept;
Status supported_backward_kernel(std::int32_t index, KernelInfo* info) noexcept;

// ---- Pooling: mean over the valid tokens of each block, f32 --------------------------------------------------------

template <class T>
struct PoolPlan {
  AttentionProblem problem;
  Device device;
  PlanOptions options;
  std::size_t workspace_bytes = 0;
};

template <class T>
struct PoolArgs {
  TensorView<T const> q;      ///< [batch, heads, q_tokens, head_dim]
  TensorView<T const> k;      ///< [batch, kv_heads, kv_tokens, head_dim]
  float* pooled_q = nullptr;  ///< out, contiguous [batch, heads, q_blocks, head_dim]
  float* pooled_k = nullptr;  ///< out, contiguous [batch, kv_heads, kv_blocks, head_dim]
};

template <class T>
Status plan_pool(AttentionProblem const&, Device const&, PlanOptions const&, PoolPlan<T>*) noexcept;
template <class T>
Status pool(PoolPlan<T> const&, PoolArgs<T> const&, Workspace, cudaStream_t) noexcept;

// ---- Selection: pooled vectors to mask bits ------------------------------------------------------------------------

struct SelectPlan {
  AttentionProblem problem;
  Device device;
  PlanOptions options;
  std::size_t workspace_bytes = 0;
};

struct SelectArgs {
  float const* pooled_q = nullptr;  ///< contiguous [batch, heads, q_blocks, head_dim], 16-byte aligned
  float const* pooled_k = nullptr;  ///< contiguous [batch, kv_heads, kv_blocks, head_dim], 16-byte aligned
  MaskRule rule;
  MaskOut mask;  ///< out
};

Status plan_select_blocks(AttentionProblem const&, Device const&, PlanOptions const&, SelectPlan*) noexcept;
Status select_blocks(SelectPlan const&, SelectArgs const&, Workspace, cudaStream_t) noexcept;

// ---- Mask building: pooling and selection in one call --------------------------------------------------------------

template <class T>
struct BuildMaskPlan {
  AttentionProblem problem;
  Device device;
  PlanOptions options;
  std::size_t workspace_bytes = 0;
};

template <class T>
struct BuildMaskArgs {
  TensorView<T const> q;  ///< [batch, heads, q_tokens, head_dim]
  TensorView<T const> k;  ///< [batch, kv_heads, kv_tokens, head_dim]
  MaskRule rule;
  MaskOut mask;  ///< out
};

template <class T>
Status plan_build_mask(AttentionProblem const&, Device const&, PlanOptions const&,
                       BuildMaskPlan<T>*) noexcept;
template <class T>
Status build_mask(BuildMaskPlan<T> const&, BuildMaskArgs<T> const&, Workspace, cudaStream_t) noexcept;

// ---- What a mask keeps ---------------------------------------------------------------------------------------------

struct MaskStatsPlan {
  AttentionProblem problem;
  Device device;
  PlanOptions options;
  std::size_t workspace_bytes = 0;
};

struct MaskStatsArgs {
  float const* pooled_q = nullptr;  ///< as in SelectArgs
  float const* pooled_k = nullptr;
  MaskRule rule;               ///< to tell which rule owes a block
  MaskView mask;               ///< any mask, the caller's own included
  MaskStats* stats = nullptr;  ///< out, [batch, heads]
};

Status plan_mask_stats(AttentionProblem const&, Device const&, PlanOptions const&, MaskStatsPlan*) noexcept;
Status mask_stats(MaskStatsPlan const&, MaskStatsArgs const&, Workspace, cudaStream_t) noexcept;

// ---- Calibration: top_p for a wanted sparsity or kept mass ---------------------------------------------------------

struct CalibratePlan {
  AttentionProblem problem;
  Device device;
  PlanOptions options;
  std::size_t workspace_bytes = 0;  ///< bounded in the number of query blocks, as that of selection
};

struct CalibrateArgs {
  float const* pooled_q = nullptr;  ///< as in SelectArgs
  float const* pooled_k = nullptr;
  MaskRule
      rule;  ///< top_k, min_blocks and the keep rule count; top_p and top_p_of_head are sought and not read
  CalibrationTarget target;
  float* top_p_of_head = nullptr;  ///< out, [heads], 16-byte aligned: what MaskRule::top_p_of_head takes
  Calibration* report = nullptr;   ///< optional out, [heads], 16-byte aligned; it costs one pass more
};

Status plan_calibrate(AttentionProblem const&, Device const&, PlanOptions const&, CalibratePlan*) noexcept;

/// Finds top_p among the multiples of 2^-24 in [0, 1] (docs/calibration.md): for a sparsity the largest whose masks are at
/// least that sparse, for a mass the smallest whose masks keep at least that much. Masks are those that select_blocks and build_mask
/// make of these vectors with the found top_p_of_head, the keep rule included, and the batch items of a head count together. Where no
/// top_p meets the target the nearest is written, 0 or 1, and `met` is 0. A problem without pairs meets every target. The
/// same result in every run. It scores all pairs once for each of three digits of top_p, and once for the report.
Status calibrate(CalibratePlan const&, CalibrateArgs const&, Workspace, cudaStream_t) noexcept;

// ---- Forms of a mask: each a small kernel, no workspace ------------------------------------------------------------

struct MaskFormPlan {
  AttentionProblem problem;
  Device device;
  PlanOptions options;
};

Status plan_mask_form(AttentionProblem const&, Device const&, PlanOptions const&, MaskFormPlan*) noexcept;

/// Bits [batch, heads, q_blocks, kv_blocks] to bits [batch, heads, kv_blocks, q_blocks]; see transposed_mask_words().
Status transpose_mask(MaskFormPlan const&, MaskView mask, MaskOut transposed, cudaStream_t) noexcept;
Status mask_to_bytes(MaskFormPlan const&, MaskView mask, ByteMaskOut bytes, cudaStream_t) noexcept;
Status mask_from_bytes(MaskFormPlan const&, ByteMaskView bytes, MaskOut mask, cudaStream_t) noexcept;
/// Lists need a capacity of at least kv_blocks, so that no mask can overflow them.
Status mask_to_lists(MaskFormPlan const&, MaskView mask, BlockListsOut lists, cudaStream_t) noexcept;
Status mask_from_lists(MaskFormPlan const&, BlockListsView lists, MaskOut mask, cudaStream_t) noexcept;

/// Cuts the mask of a shard out of `mask`, of the plan's problem: rows of the query blocks `q`, columns of the key blocks `kv`.
///
/// `shard` is [batch, heads, q.count, kv.count] in bits, padded with zeros: the mask of a problem with the tokens of these blocks,
/// whose mask_words() is its length. A range that leaves the mask is refused; a count of 0 is legal. The rule chooses among all keys
/// of a row, so a shard of keys gets the whole mask's columns and not a choice of its own.
Status slice_mask(MaskFormPlan const&, MaskView mask, BlockRange q, BlockRange kv, MaskOut shard,
                  cudaStream_t) noexcept;

// ---- Block-sparse attention, forward -------------------------------------------------------------------------------

template <class T>
struct ForwardPlan {
  AttentionProblem problem;
  Device device;
  PlanOptions options;
  std::int32_t kernel = -1;  ///< the chosen one, see supported_kernel()
  /// 0, or, for kernels that hand out tiles at run time (sm90a), what docs/layout.md says: at most 63 MB on 132 SMs and 5 bytes
  /// a tile.
  std::size_t workspace_bytes = 0;
};

template <class T>
struct ForwardArgs {
  TensorView<T const> q;  ///< [batch, heads, q_tokens, head_dim]
  TensorView<T const> k;  ///< [batch, kv_heads, kv_tokens, head_dim]
  TensorView<T const> v;  ///< [batch, kv_heads, kv_tokens, head_dim]
  MaskView mask;
  TensorView<T> out;  ///< [batch, heads, q_tokens, head_dim]; rows that keep no key are 0
  float* lse =
      nullptr;  ///< optional out, contiguous [batch, heads, q_tokens]: ln of the sum of exp of scaled logits, -inf if none
};

/// Kernels for sm90a need mask blocks of 128 queries by 64 keys and compute capability 9.0, and take strides below 2^40 bytes.
template <class T>
Status plan_forward(AttentionProblem const&, Device const&, PlanOptions const&, ForwardPlan<T>*) noexcept;
template <class T>
Status forward(ForwardPlan<T> const&, ForwardArgs<T> const&, Workspace, cudaStream_t) noexcept;

// ---- Block-sparse attention, backward ------------------------------------------------------------------------------

template <class T>
struct BackwardPlan {
  AttentionProblem problem;
  Device device;
  PlanOptions
      options;  ///< force_kernel is an index of supported_backward_kernel(); the other pass is chosen as ever
  std::int32_t dkdv_kernel = -1, dq_kernel = -1;  ///< the chosen ones, see supported_backward_kernel()
  /// batch * heads * 8 bytes a query token, rounded up: tokens to 128, each of two pieces to 256 bytes. And for kernels that hand out
  /// tiles at run time (sm90a) what docs/layout.md says: at most 63 MB on 132 SMs and 5 bytes a tile.
  std::size_t workspace_bytes = 0;
};

/// Gradients of a loss through `out` and, where grad_lse is given, through `lse`. The mask is a constant. Every element of
/// the outputs is written once, zeros included, and two runs give the same bits.
template <class T>
struct BackwardArgs {
  TensorView<T const> q;         ///< [batch, heads, q_tokens, head_dim]
  TensorView<T const> k, v;      ///< [batch, kv_heads, kv_tokens, head_dim]
  TensorView<T const> out;       ///< of forward, or merged over shards; like q
  TensorView<T const> grad_out;  ///< like q, laid out on its own
  float const* lse = nullptr;    ///< of forward, or merged over shards; contiguous [batch, heads, q_tokens]
  float const* grad_lse = nullptr;  ///< optional, like lse; null for zeros
  MaskView mask;                    ///< that of forward
  TensorView<T> grad_q;             ///< out, like q; rows that keep no key are 0
  TensorView<T> grad_k,
      grad_v;  ///< out, like k: sums over the heads of a group; 0 where no query keeps the key
};

/// Workspace depends on the shapes alone and has no term in q_tokens * head_dim.
template <class T>
Status plan_backward(AttentionProblem const&, Device const&, PlanOptions const&, BackwardPlan<T>*) noexcept;
template <class T>
Status backward(BackwardPlan<T> const&, BackwardArgs<T> const&, Workspace, cudaStream_t) noexcept;

// ---- Partial results: one of several, by their lse -----------------------------------------------------------------
//
// Results of forward over disjoint sets of keys (shards of a sequence, disjoint masks) become the result over their union:
//   lse = ln(sum over i of exp(lse_i)), out = sum over i of exp(lse_i - lse) * out_i.
// backward of a shard takes the merged out and lse, and a problem and a mask of its own; gradients of q add up over shards of
// keys, those of k and v over shards of queries (docs/math.md).

template <class T>
struct MergePlan {
  AttentionProblem
      problem;  ///< batch, heads, q_tokens and head_dim count; the rest must be valid and is not used
  Device device;
  PlanOptions options;
};

/// Views in an array, since the results of a ring lie where they arrived: nothing is stacked or copied first. A longer ring, or one that
/// keeps no results, carries `running_out` and `lse` of a call into the next one's `running`, in f32 and in two buffers by turns.
template <class T>
struct MergeArgs {
  Partial<T> partials[most_partials];  ///< the first `count` of them
  std::int32_t count = 0;              ///< at most most_partials; at least 1 unless there is a running result
  Partial<float> running;  ///< optional, nulls for none: what an earlier call wrote to running_out and lse
  TensorView<T>
      out;  ///< optional out, null for none: like the partials' out, computed in f32 and rounded once
  TensorView<float>
      running_out;       ///< optional out, null for none: the same, not rounded. One of the two must be given
  float* lse = nullptr;  ///< optional out, contiguous [batch, heads, q_tokens], 16-byte aligned
};

/// T is bfloat16, float16 or float. No workspace.
template <class T>
Status plan_merge_partials(AttentionProblem const&, Device const&, PlanOptions const&,
                           MergePlan<T>*) noexcept;

/// A row that no partial result has keys for is 0 with lse -inf; one that a single partial result has keys for is that result, bit
/// by bit. `running` is added first, then the others by index, so two runs give the same bits. NaN and infinity of a partial result with
/// keys propagate, also where its weight underflows; an lse of NaN or +inf makes its row NaN, lse included.
template <class T>
Status merge_partials(MergePlan<T> const&, MergeArgs<T> const&, cudaStream_t) noexcept;

// ---- Velocity distillation -----------------------------------------------------------------------------------------
//
// A student with sparse attention learns to predict the velocity that a frozen teacher with full attention predicts for the
// same x_t, time and condition (docs/math.md). Tensors are contiguous [samples, sample_elements], T is bfloat16, float16 or
// float. Calls refuse, by name: negative counts, sizes that do not fit 64 bits in bytes, null or misaligned pointers, outputs
// that overlap another argument (in place too), a current device that is not the plan's.

template <class T>
struct DistillationLossPlan {
  DistillationProblem problem;
  Device device;
  PlanOptions options;
  /// 8 bytes for each run of 1024 loads of 16 bytes, rounded up to 256, at most 32 KiB. Depends on the problem alone.
  std::size_t workspace_bytes = 0;
};

template <class T>
struct DistillationLossArgs {
  T const* student = nullptr;      ///< [samples, sample_elements], 16-byte aligned
  T const* teacher = nullptr;      ///< like student
  float const* weights = nullptr;  ///< optional, device memory, [samples], 4-byte aligned; null for ones
  /// optional, device memory, one value, 4-byte aligned: the gradient from behind the loss, or a loss scale, without which f16
  /// gradients of a large tensor underflow; null for 1.
  float const* grad_loss = nullptr;
  /// out, device memory, one value, 4-byte aligned: the sum over all elements of
  /// weights[sample] * (student - teacher)^2, divided by samples * sample_elements; 0 where there are no elements.
  float* loss = nullptr;
  /// optional out, like student: 2 * weights[sample] * grad_loss * (student - teacher) / (samples * sample_elements), computed
  /// in f32 and rounded once to T; null for the loss alone.
  T* grad_student = nullptr;
};

template <class T>
Status plan_distillation_loss(DistillationProblem const&, Device const&, PlanOptions const&,
                              DistillationLossPlan<T>*) noexcept;

/// Loss and gradient in one pass over the data. The loss does not depend on grad_loss or on whether the gradient is asked for.
/// Sums run in an order that the problem alone decides: two runs give the same bits, on any GPU. The relative error of
/// the loss is at most 2^-21 for weights of one sign, however many elements there are (docs/numerics.md); squares must
/// stay in the range of f32, so |student - teacher| below 2^62. NaN and infinity propagate.
template <class T>
Status distillation_loss(DistillationLossPlan<T> const&, DistillationLossArgs<T> const&, Workspace,
                         cudaStream_t) noexcept;

template <class T>
struct InterpolatePlan {
  DistillationProblem problem;
  Device device;
  PlanOptions options;
};

template <class T>
struct InterpolateArgs {
  T const* x0 = nullptr;  ///< noise, [samples, sample_elements], 16-byte aligned
  T const* x1 = nullptr;  ///< data, like x0
  float const* t =
      nullptr;  ///< device memory, [samples], 4-byte aligned; any finite value, 0 gives x0 and 1 gives x1
  T* x_t = nullptr;  ///< out, like x0: t * x1 + (1 - t) * x0, computed in f32 and rounded once to T
};

/// No workspace.
template <class T>
Status plan_interpolate(DistillationProblem const&, Device const&, PlanOptions const&,
                        InterpolatePlan<T>*) noexcept;
template <class T>
Status interpolate(InterpolatePlan<T> const&, InterpolateArgs<T> const&, cudaStream_t) noexcept;

}  // namespace sparge
