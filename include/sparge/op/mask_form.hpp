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

inline Status check_form(MaskFormPlan const& plan, std::initializer_list<NamedPointer> pointers) {
  SPARGE_TRY(check_current_device(plan.device));
  return check_locations(plan.options, plan.device, pointers);
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
  SPARGE_TRY(validate_distinct("transposed.data", transposed.data, {mask.data}));
  SPARGE_TRY(detail::check_form(plan, {{"mask.data", mask.data}, {"transposed.data", transposed.data}}));
  MaskTransposeParams const params{mask.data,     transposed.data, p.batch * p.heads,         p.q_blocks(),
                                   p.kv_blocks(), p.row_words(),   ceil_div(p.q_blocks(), 32)};
  return launch_result("transposing kernel", launch_mask_transpose(params, stream));
}

SPARGE_INLINE Status mask_to_bytes(MaskFormPlan const& plan, MaskView mask, ByteMaskOut bytes,
                                   cudaStream_t stream) noexcept {
  AttentionProblem const& p = plan.problem;
  SPARGE_TRY(detail::validate_form(plan, mask));
  SPARGE_TRY(validate_bytes("bytes.data", "bytes.bytes", {bytes.data, bytes.bytes},
                            detail::count_rows(p) * p.kv_blocks()));
  SPARGE_TRY(validate_distinct("bytes.data", bytes.data, {mask.data}));
  SPARGE_TRY(detail::check_form(plan, {{"mask.data", mask.data}, {"bytes.data", bytes.data}}));
  return launch_result("mask to bytes kernel",
                       launch_mask_to_bytes(detail::form_params(p), mask.data, bytes.data, stream));
}

SPARGE_INLINE Status mask_from_bytes(MaskFormPlan const& plan, ByteMaskView bytes, MaskOut mask,
                                     cudaStream_t stream) noexcept {
  AttentionProblem const& p = plan.problem;
  SPARGE_TRY(detail::validate_form(plan, mask));
  SPARGE_TRY(validate_bytes("bytes.data", "bytes.bytes", bytes, detail::count_rows(p) * p.kv_blocks()));
  SPARGE_TRY(validate_distinct("mask.data", mask.data, {bytes.data}));
  SPARGE_TRY(detail::check_form(plan, {{"bytes.data", bytes.data}, {"mask.data", mask.data}}));
  return launch_result("mask from bytes kernel",
                       launch_mask_from_bytes(detail::form_params(p), bytes.data, mask.data, stream));
}

SPARGE_INLINE Status mask_to_lists(MaskFormPlan const& plan, MaskView mask, BlockListsOut lists,
                                   cudaStream_t stream) noexcept {
  AttentionProblem const& p = plan.problem;
  SPARGE_TRY(detail::validate_form(plan, mask));
  SPARGE_TRY(
      validate_lists(lists.counts, lists.indices, lists.capacity, p.kv_blocks(), detail::count_rows(p)));
  SPARGE_TRY(validate_distinct("lists.counts", lists.counts, {mask.data, lists.indices}));
  SPARGE_TRY(validate_distinct("lists.indices", lists.indices, {mask.data}));
  SPARGE_TRY(detail::check_form(
      plan, {{"mask.data", mask.data}, {"lists.counts", lists.counts}, {"lists.indices", lists.indices}}));
  return launch_result("mask to lists kernel",
                       launch_mask_to_lists(detail::form_params(p), mask.data, lists, stream));
}

SPARGE_INLINE Status mask_from_lists(MaskFormPlan const& plan, BlockListsView lists, MaskOut mask,
                                     cudaStream_t stream) noexcept {
  AttentionProblem const& p = plan.problem;
  SPARGE_TRY(detail::validate_form(plan, mask));
  SPARGE_TRY(validate_lists(lists.counts, lists.indices, lists.capacity, 0, detail::count_rows(p)));
  SPARGE_TRY(validate_distinct("mask.data", mask.data, {lists.counts, lists.indices}));
  SPARGE_TRY(detail::check_form(
      plan, {{"lists.counts", lists.counts}, {"lists.indices", lists.indices}, {"mask.data", mask.data}}));
  return launch_result("mask from lists kernel",
                       launch_mask_from_lists(detail::form_params(p), lists, mask.data, stream));
}

}  // namespace sparge
