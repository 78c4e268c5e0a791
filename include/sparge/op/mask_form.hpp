#pragma once
/// Forms of a mask: transposed bits, bytes, index lists. Validate, launch.

#include "sparge/kernel/mask_params.hpp"
#include "sparge/op/guard.hpp"
#include "sparge/plan/validate.hpp"
#include "sparge/sparge.hpp"

namespace sparge {

namespace detail {

inline std::int64_t count_rows(AttentionProblem const& p) { return p.batch * p.heads * p.q_blocks(); }

inline MaskFormParams form_params(AttentionProblem const& p) {
  return {count_rows(p), p.kv_blocks(), p.row_words()};
}

/// The problem and the mask in bits, which every conversion has on one side.
template <class Word>
Status validate_form(MaskFormPlan const& plan, MaskBits<Word> const& mask) {
  SPARGE_TRY(validate_problem(plan.problem));
  return validate_mask({"mask.data", "mask.words", ""}, mask, count_mask_words(plan.problem));
}

/// The names of a range in messages.
struct RangeName {
  char const *first, *count;
};

inline Status validate_range(RangeName const& name, BlockRange range, std::int64_t blocks) {
  if (range.first < 0 || range.first > blocks)
    return refuse(name.first, "must lie in the mask, which has as many blocks as expected shows", range.first,
                  blocks);
  if (range.count < 0 || range.count > blocks - range.first)
    return refuse(name.count, "must not leave the mask; expected shows the blocks from first on", range.count,
                  blocks - range.first);
  return {};
}

}  // namespace detail

SPARGE_INLINE Status plan_mask_form(AttentionProblem const& problem, Device const& device,
                                    PlanOptions const& options, MaskFormPlan* plan) noexcept {
  if (plan == nullptr) return refuse("plan", "must not be null");
  SPARGE_TRY(validate_plan_inputs(problem, device, options));
  SPARGE_TRY(validate_no_choice(options));
  SPARGE_TRY(validate_grid(problem, ceil_div(detail::count_rows(problem), form_warps)));
  SPARGE_TRY(validate_grid(problem, ceil_div(count_mask_words(problem), form_warps)));
  *plan = {problem, device, options};
  return {};
}

SPARGE_INLINE Status transpose_mask(MaskFormPlan const& plan, MaskView mask, MaskOut transposed,
                                    cudaStream_t stream) noexcept {
  AttentionProblem const& p = plan.problem;
  SPARGE_TRY(detail::validate_form(plan, mask));
  SPARGE_TRY(
      validate_mask({"transposed.data", "transposed.words", ""}, transposed, count_transposed_words(p)));
  SPARGE_TRY(
      check_arguments(plan, {{"transposed.data", place_of(transposed)}}, {{"mask.data", place_of(mask)}}));
  MaskTransposeParams const params{mask.data,     transposed.data, p.batch * p.heads,         p.q_blocks(),
                                   p.kv_blocks(), p.row_words(),   ceil_div(p.q_blocks(), 32)};
  return launch_result("transposing kernel", launch_mask_transpose(params, stream));
}

SPARGE_INLINE Status slice_mask(MaskFormPlan const& plan, MaskView mask, BlockRange q, BlockRange kv,
                                MaskOut shard, cudaStream_t stream) noexcept {
  AttentionProblem const& p = plan.problem;
  SPARGE_TRY(detail::validate_form(plan, mask));
  SPARGE_TRY(detail::validate_range({"q.first", "q.count"}, q, p.q_blocks()));
  SPARGE_TRY(detail::validate_range({"kv.first", "kv.count"}, kv, p.kv_blocks()));
  std::int64_t const shard_words = ceil_div(kv.count, 32);
  SPARGE_TRY(
      validate_mask({"shard.data", "shard.words", ""}, shard, p.batch * p.heads * q.count * shard_words));
  SPARGE_TRY(check_arguments(plan, {{"shard.data", place_of(shard)}}, {{"mask.data", place_of(mask)}}));
  MaskSliceParams const params{
      mask.data, shard.data, p.batch * p.heads, p.q_blocks(), p.row_words(), shard_words, q, kv};
  return launch_result("slicing kernel", launch_mask_slice(params, stream));
}

SPARGE_INLINE Status mask_to_bytes(MaskFormPlan const& plan, MaskView mask, ByteMaskOut bytes,
                                   cudaStream_t stream) noexcept {
  AttentionProblem const& p = plan.problem;
  SPARGE_TRY(detail::validate_form(plan, mask));
  SPARGE_TRY(validate_bytes("bytes.data", "bytes.bytes", {bytes.data, bytes.bytes},
                            detail::count_rows(p) * p.kv_blocks()));
  SPARGE_TRY(check_arguments(plan, {{"bytes.data", place_of(bytes)}}, {{"mask.data", place_of(mask)}}));
  return launch_result("mask to bytes kernel",
                       launch_mask_to_bytes(detail::form_params(p), mask.data, bytes.data, stream));
}

SPARGE_INLINE Status mask_from_bytes(MaskFormPlan const& plan, ByteMaskView bytes, MaskOut mask,
                                     cudaStream_t stream) noexcept {
  AttentionProblem const& p = plan.problem;
  SPARGE_TRY(detail::validate_form(plan, mask));
  SPARGE_TRY(validate_bytes("bytes.data", "bytes.bytes", bytes, detail::count_rows(p) * p.kv_blocks()));
  SPARGE_TRY(check_arguments(plan, {{"mask.data", place_of(mask)}}, {{"bytes.data", place_of(bytes)}}));
  return launch_result("mask from bytes kernel",
                       launch_mask_from_bytes(detail::form_params(p), bytes.data, mask.data, stream));
}

SPARGE_INLINE Status mask_to_lists(MaskFormPlan const& plan, MaskView mask, BlockListsOut lists,
                                   cudaStream_t stream) noexcept {
  AttentionProblem const& p = plan.problem;
  SPARGE_TRY(detail::validate_form(plan, mask));
  std::int64_t const rows = detail::count_rows(p);
  SPARGE_TRY(validate_lists(lists.counts, lists.indices, lists.capacity, p.kv_blocks(), rows));
  SPARGE_TRY(check_arguments(plan,
                             {{"lists.counts", place_of(lists.counts, rows)},
                              {"lists.indices", place_of(lists.indices, rows * lists.capacity)}},
                             {{"mask.data", place_of(mask)}}));
  return launch_result("mask to lists kernel",
                       launch_mask_to_lists(detail::form_params(p), mask.data, lists, stream));
}

SPARGE_INLINE Status mask_from_lists(MaskFormPlan const& plan, BlockListsView lists, MaskOut mask,
                                     cudaStream_t stream) noexcept {
  AttentionProblem const& p = plan.problem;
  SPARGE_TRY(detail::validate_form(plan, mask));
  std::int64_t const rows = detail::count_rows(p);
  SPARGE_TRY(validate_lists(lists.counts, lists.indices, lists.capacity, 0, rows));
  SPARGE_TRY(check_arguments(plan, {{"mask.data", place_of(mask)}},
                             {{"lists.counts", place_of(lists.counts, rows)},
                              {"lists.indices", place_of(lists.indices, rows * lists.capacity)}}));
  return launch_result("mask from lists kernel",
                       launch_mask_from_lists(detail::form_params(p), lists, mask.data, stream));
}

}  // namespace sparge
