#pragma once
/// Problem, views and pointers to Status. Every message of a refusal lives here or in the plan_* function that makes it.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>

#include "sparge/core/checked.hpp"
#include "sparge/core/device.hpp"
#include "sparge/core/mask_rule.hpp"
#include "sparge/core/mask_view.hpp"
#include "sparge/core/plan_options.hpp"
#include "sparge/core/problem.hpp"
#include "sparge/core/tensor_view.hpp"
#include "sparge/core/workspace.hpp"
#include "sparge/plan/forward_config.hpp"
#include "sparge/plan/mask_config.hpp"
#include "sparge/plan/refuse.hpp"

namespace sparge {

/// Returns from the caller with the first refusal.
#define SPARGE_TRY(expression) \
  if (::sparge::Status const sparge_status = (expression); !sparge_status.ok()) return sparge_status

inline constexpr std::int64_t data_alignment = 16;
/// The scale times log2(e) is an f32.
inline constexpr float largest_scale = 2e38f;
/// Token and block indices inside a head are 32-bit; offsets in memory are 64-bit.
inline constexpr std::int64_t max_tokens = std::numeric_limits<std::int32_t>::max() - 128;

// ---- Problem and device --------------------------------------------------------------------------------------------

inline Status validate_counts(AttentionProblem const& p) {
  if (p.batch < 0) return refuse("problem.batch", "must be at least 0", p.batch);
  if (p.heads < 1) return refuse("problem.heads", "must be at least 1", p.heads);
  if (p.kv_heads < 1) return refuse("problem.kv_heads", "must be at least 1", p.kv_heads);
  if (p.heads % p.kv_heads != 0)
    return refuse("problem.kv_heads", "must divide problem.heads (expected shows heads)", p.kv_heads,
                  p.heads);
  if (p.q_tokens < 0) return refuse("problem.q_tokens", "must be at least 0", p.q_tokens);
  if (p.kv_tokens < 0) return refuse("problem.kv_tokens", "must be at least 0", p.kv_tokens);
  if (p.q_tokens > max_tokens)
    return unsupported("problem.q_tokens", "token indices are 32-bit; split the sequence", p.q_tokens);
  if (p.kv_tokens > max_tokens)
    return unsupported("problem.kv_tokens", "token indices are 32-bit; split the sequence", p.kv_tokens);
  return {};
}

inline Status validate_blocks(AttentionProblem const& p) {
  if (!is_mask_block_size(p.q_block))
    return unsupported("problem.q_block", "built mask blocks are 64 and 128 tokens", p.q_block);
  if (!is_mask_block_size(p.kv_block))
    return unsupported("problem.kv_block", "built mask blocks are 64 and 128 tokens", p.kv_block);
  return {};
}

/// A shard of queries holds whole blocks of the whole problem, so that its rows of the mask are rows of the whole mask.
inline Status validate_shard(AttentionProblem const& p) {
  if (p.q_offset < 0) return refuse("problem.q_offset", "must be at least 0", p.q_offset);
  if (p.q_offset % p.q_block != 0)
    return refuse("problem.q_offset", "must be a multiple of q_block, which expected shows", p.q_offset,
                  p.q_block);
  if (p.q_offset > max_tokens - p.q_tokens)
    return unsupported("problem.q_offset", "token indices of the whole problem are 32-bit", p.q_offset);
  if (p.all_q_tokens > max_tokens)
    return unsupported("problem.all_q_tokens", "token indices are 32-bit; split the sequence",
                       p.all_q_tokens);
  if (p.all_q_tokens == 0) return {};
  std::int64_t const end = p.q_tokens == 0 ? 0 : p.q_offset + p.q_tokens;  // an empty shard may lie anywhere
  if (p.all_q_tokens < end)
    return refuse("problem.all_q_tokens", "must be 0 or at least q_offset + q_tokens, which expected shows",
                  p.all_q_tokens, end);
  if (end < p.all_q_tokens && p.q_tokens % p.q_block != 0)
    return refuse("problem.q_tokens", "of a shard before the last must be a multiple of q_block (expected)",
                  p.q_tokens, p.q_block);
  return {};
}

/// Every array that a call may index must have a size that fits 64 bits in bytes.
inline Status validate_sizes(AttentionProblem const& p) {
  std::int64_t const batch =
      std::max<std::int64_t>(p.batch, 1);  // a product with 0 would hide that the others overflow
  std::int64_t const element_bytes = 4;  // f32, the widest; lists and bytes are checked by their own lengths
  if (!checked_product({batch, p.heads, 2 * p.head_dim, element_bytes}))
    return refuse("problem.batch", "batch * heads does not fit 64 bits in bytes", p.batch);
  if (!checked_product({batch, p.heads, p.q_tokens, p.head_dim, element_bytes}))
    return refuse("problem.batch", "batch * heads * q_tokens * head_dim does not fit 64 bits", p.batch);
  if (!checked_product({batch, p.kv_heads, p.kv_tokens, p.head_dim, element_bytes}))
    return refuse("problem.batch", "batch * kv_heads * kv_tokens * head_dim does not fit 64 bits", p.batch);
  if (!checked_product({batch, p.heads, p.q_blocks(), p.kv_blocks() + 32, element_bytes}) ||
      !checked_product({batch, p.heads, p.q_blocks() + 32, p.kv_blocks(), element_bytes}))
    return refuse("problem.batch", "batch * heads * q_blocks * kv_blocks does not fit 64 bits", p.batch);
  return {};
}

inline Status validate_problem(AttentionProblem const& p) {
  SPARGE_TRY(validate_counts(p));
  SPARGE_TRY(validate_blocks(p));
  if (p.head_dim < 1) return refuse("problem.head_dim", "must be at least 1", p.head_dim);
  if (!is_pool_head_dim(p.head_dim))
    return unsupported("problem.head_dim", "built head_dims are 64 and 128", p.head_dim);
  if (!(p.scale >= 0) || std::isinf(p.scale))
    return refuse_real("problem.scale", "must be finite and > 0, or 0 for 1 / sqrt(head_dim)", p.scale);
  if (p.scale > largest_scale) return refuse_real("problem.scale", "must be at most 2e38", p.scale);
  if (p.order != TokenOrder::none)
    return unsupported("problem.order", "only TokenOrder::none is built", static_cast<std::int64_t>(p.order));
  SPARGE_TRY(validate_shard(p));
  return validate_sizes(p);
}

inline Status validate_device(Device const& device) {
  if (device.ordinal < 0)
    return refuse("device.ordinal", "must be at least 0; fill Device by query_device()", device.ordinal);
  if (device.capability() < 80)
    return unsupported("device.capability", "kernels need compute capability 8.0 or later",
                       device.capability());
  if (!has_code_for(device))
    return unsupported("device.capability", "this build has no code for that GPU; add it to SPARGE_ARCHS",
                       device.capability());
  return {};
}

inline Status validate_options(PlanOptions const& options) {
  if (options.force_kernel < -1)
    return refuse("options.force_kernel", "must be -1 (choose) or a kernel's index", options.force_kernel);
  if (options.pointer_check != PointerCheck::alignment && options.pointer_check != PointerCheck::location)
    return refuse("options.pointer_check", "must be alignment or location",
                  static_cast<std::int64_t>(options.pointer_check));
  return {};
}

inline Status validate_plan_inputs(AttentionProblem const& problem, Device const& device,
                                   PlanOptions const& options) {
  SPARGE_TRY(validate_problem(problem));
  SPARGE_TRY(validate_device(device));
  return validate_options(options);
}

/// For operations that have one kernel.
inline Status validate_no_choice(PlanOptions const& options) {
  if (options.force_kernel >= 0)
    return unsupported("options.force_kernel", "this call has no kernels to choose from; use -1",
                       options.force_kernel);
  return {};
}

// ---- Pointers and views --------------------------------------------------------------------------------------------

/// `elements` of 0 may be null: nothing will be read or written.
inline Status validate_pointer(char const* field, void const* data, std::int64_t elements,
                               std::int64_t alignment = data_alignment) {
  if (elements == 0) return {};
  if (data == nullptr) return refuse(field, "must not be null");
  auto const address = reinterpret_cast<std::uintptr_t>(data);
  if (address % static_cast<std::uintptr_t>(alignment) != 0)
    return refuse(field, "must be aligned to the expected bytes; given is the address modulo 256",
                  static_cast<std::int64_t>(address % 256), alignment);
  return {};
}

/// The names of a view's members in messages.
struct ViewName {
  char const *data, *shape, *stride;
};

enum class Access { read, write };

/// Whether two index tuples of a view may share an element: strides must nest, each at least the extent of the smaller ones.
inline bool overlaps_itself(std::int64_t const (&shape)[4], std::int64_t const (&stride)[4]) {
  bool used[4] = {};
  std::int64_t extent = 1;  // elements spanned by the axes taken so far
  for (int taken = 0; taken < 4; ++taken) {
    int next = -1;
    for (int axis = 0; axis < 4; ++axis)
      if (!used[axis] && (next < 0 || stride[axis] < stride[next])) next = axis;
    used[next] = true;
    if (shape[next] <= 1) continue;
    if (stride[next] < extent) return true;
    extent += (shape[next] - 1) * stride[next];
  }
  return false;
}

/// Strides: non-negative multiples of 16 bytes, channels dense, the last element reachable with 64-bit byte offsets.
template <class T>
Status validate_strides(ViewName const& name, TensorView<T> const& view) {
  constexpr std::int64_t unit = data_alignment / static_cast<std::int64_t>(sizeof(T));
  if (view.stride[3] != 1)
    return at_axis(refuse(name.stride, "channels must be dense", view.stride[3], 1), 3);
  std::optional<std::int64_t> last = view.shape[3];
  for (int axis = 0; axis < 3; ++axis) {
    if (view.stride[axis] < 0)
      return at_axis(refuse(name.stride, "must not be negative", view.stride[axis]), axis);
    if (view.stride[axis] % unit != 0)
      return at_axis(refuse(name.stride, "must be a multiple of 16 bytes (expected shows elements)",
                            view.stride[axis], unit),
                     axis);
    last = checked_sum(last, checked_product({view.shape[axis], view.stride[axis], sizeof(T)}));
    if (!last)
      return at_axis(refuse(name.stride, "shape times stride does not fit 64 bits", view.stride[axis]), axis);
  }
  return {};
}

/// What a descriptor of the copy engine holds (CUDA driver API, cuTensorMapEncodeTiled: strides below 2^40 bytes).
inline constexpr std::int64_t box_stride_limit_bytes = std::int64_t{1} << 40;

/// For kernels that load by the copy engine, after validate_view(). `reason` says what would work instead.
template <class T>
Status validate_box_strides(
    char const* field, TensorView<T> const& view,
    char const* reason = "sm90a kernels take less than 2^40 bytes; force a kernel for sm80") {
  constexpr std::int64_t limit = box_stride_limit_bytes / static_cast<std::int64_t>(sizeof(T));
  if (view.shape[0] == 0 || view.shape[2] == 0) return {};
  for (int axis = 0; axis < 3; ++axis)
    if (view.shape[axis] > 1 && view.stride[axis] >= limit)
      return at_axis(unsupported(field, reason, view.stride[axis]), axis);
  return {};
}

template <class T>
Status validate_view(ViewName const& name, TensorView<T> const& view, std::int64_t batch, std::int64_t heads,
                     std::int64_t tokens, std::int64_t channels, Access access) {
  std::int64_t const expected[4] = {batch, heads, tokens, channels};
  for (int axis = 0; axis < 4; ++axis)
    if (view.shape[axis] != expected[axis])
      return at_axis(mismatch(name.shape, "must be the shape that the plan was made for", view.shape[axis],
                              expected[axis]),
                     axis);
  if (batch == 0 || tokens == 0) return {};
  SPARGE_TRY(validate_pointer(name.data, view.data, 1));
  SPARGE_TRY(validate_strides(name, view));
  if (access == Access::write && overlaps_itself(view.shape, view.stride))
    return refuse(name.stride, "an output must not overlap itself; strides must nest");
  return {};
}

/// The inputs that pooling, mask building and attention share.
template <class T>
Status validate_queries_and_keys(AttentionProblem const& p, TensorView<T const> const& q,
                                 TensorView<T const> const& k) {
  SPARGE_TRY(validate_view({"q.data", "q.shape", "q.stride"}, q, p.batch, p.heads, p.q_tokens, p.head_dim,
                           Access::read));
  return validate_view({"k.data", "k.shape", "k.stride"}, k, p.batch, p.kv_heads, p.kv_tokens, p.head_dim,
                       Access::read);
}

struct NamedPointer {
  char const* field;
  void const* data;
};

/// Where an argument lies, or null where it has no elements: then it is neither read nor written and may be anywhere.
inline void const* place_of(void const* data, std::int64_t elements) {
  return elements == 0 ? nullptr : data;
}

template <class T>
void const* place_of(TensorView<T> const& view) {
  bool const is_empty = view.shape[0] == 0 || view.shape[1] == 0 || view.shape[2] == 0 || view.shape[3] == 0;
  return is_empty ? nullptr : view.data;
}

template <class Word>
void const* place_of(MaskBits<Word> const& mask) {
  return mask.words == 0 ? nullptr : mask.data;
}

template <class Byte>
void const* place_of(ByteMask<Byte> const& mask) {
  return mask.bytes == 0 ? nullptr : mask.data;
}

using Arguments = std::initializer_list<NamedPointer>;

/// What a call writes may not start where another of its arguments does.
inline Status validate_apart(Arguments written, Arguments read) {
  for (NamedPointer const& output : written) {
    if (output.data == nullptr) continue;
    for (NamedPointer const& other : written)
      if (&other != &output && other.data == output.data)
        return refuse(output.field, "must not have the address of another argument");
    for (NamedPointer const& input : read)
      if (input.data == output.data)
        return refuse(output.field, "must not have the address of another argument");
  }
  return {};
}

// ---- Masks, rule, workspace ----------------------------------------------------------------------------------------

inline std::int64_t count_mask_words(AttentionProblem const& p) {
  return p.batch * p.heads * p.q_blocks() * p.row_words();
}

inline std::int64_t count_transposed_words(AttentionProblem const& p) {
  return p.batch * p.heads * p.kv_blocks() * ceil_div(p.q_blocks(), 32);
}

template <class Word>
Status validate_mask(ViewName const& name, MaskBits<Word> const& mask, std::int64_t words) {
  if (static_cast<std::int64_t>(mask.words) != words)
    return mismatch(name.shape, "must be the count that mask_words() gives for the problem",
                    static_cast<std::int64_t>(mask.words), words);
  return validate_pointer(name.data, mask.data, words);
}

inline Status validate_bytes(char const* data, char const* length, ByteMaskView bytes, std::int64_t pairs) {
  if (static_cast<std::int64_t>(bytes.bytes) != pairs)
    return mismatch(length, "must be batch * heads * q_blocks * kv_blocks of the problem",
                    static_cast<std::int64_t>(bytes.bytes), pairs);
  return validate_pointer(data, bytes.data, pairs, 1);
}

/// Lists of a mask of `rows` rows.
inline Status validate_lists(std::int32_t const* counts, std::int32_t const* indices, std::int64_t capacity,
                             std::int64_t least_capacity, std::int64_t rows) {
  if (capacity < least_capacity)
    return refuse("lists.capacity", "must be at least the expected value", capacity, least_capacity);
  auto const entries = checked_product({rows, capacity, sizeof(std::int32_t)});
  if (!entries)
    return refuse("lists.capacity", "batch * heads * q_blocks * capacity does not fit 64 bits", capacity);
  SPARGE_TRY(validate_pointer("lists.counts", counts, rows, sizeof(std::int32_t)));
  return validate_pointer("lists.indices", indices, *entries, sizeof(std::int32_t));
}

inline Status validate_share(char const* field, double share) {
  if (!(share >= 0 && share <= 1)) return refuse_real(field, "must be a share in [0, 1]", share);
  return {};
}

inline Status validate_rule(MaskRule const& rule) {
  SPARGE_TRY(validate_share("rule.top_k", rule.top_k));
  SPARGE_TRY(validate_share("rule.top_p", rule.top_p));
  if (rule.min_blocks < 0) return refuse("rule.min_blocks", "must be at least 0", rule.min_blocks);
  if (rule.top_k_of_head) {
    SPARGE_TRY(validate_pointer("rule.top_k_of_head", rule.top_k_of_head, 1));
  }
  if (rule.top_p_of_head) {
    SPARGE_TRY(validate_pointer("rule.top_p_of_head", rule.top_p_of_head, 1));
  }
  KeepRule const& keep = rule.keep;
  if (keep.kv_front_tokens < 0)
    return refuse("rule.keep.kv_front_tokens", "must be at least 0", keep.kv_front_tokens);
  if (keep.kv_back_tokens < 0)
    return refuse("rule.keep.kv_back_tokens", "must be at least 0", keep.kv_back_tokens);
  if (keep.band_tokens < -1)
    return refuse("rule.keep.band_tokens", "must be -1 (none) or at least 0", keep.band_tokens);
  if (keep.dense_q_front_tokens < 0)
    return refuse("rule.keep.dense_q_front_tokens", "must be at least 0", keep.dense_q_front_tokens);
  if (keep.dense_q_back_tokens < 0)
    return refuse("rule.keep.dense_q_back_tokens", "must be at least 0", keep.dense_q_back_tokens);
  return {};
}

inline Status validate_workspace(Workspace workspace, std::size_t needed) {
  if (workspace.bytes < needed) {
    Status status = refuse("workspace.bytes", "must be at least the plan's workspace_bytes",
                           static_cast<std::int64_t>(workspace.bytes), static_cast<std::int64_t>(needed));
    status.code = StatusCode::workspace_too_small;
    return status;
  }
  return validate_pointer("workspace.data", workspace.data, static_cast<std::int64_t>(needed),
                          static_cast<std::int64_t>(workspace_alignment));
}

}  // namespace sparge
