#pragma once
/// plan_merge_partials and merge_partials: validate, launch.

#include <type_traits>

#include "sparge/kernel/merge_params.hpp"
#include "sparge/op/guard.hpp"
#include "sparge/plan/partial_names.hpp"
#include "sparge/plan/validate.hpp"
#include "sparge/sparge.hpp"

namespace sparge {

namespace detail {

template <class T>
bool is_given(Partial<T> const& partial) {
  return partial.out.data != nullptr || partial.lse != nullptr;
}

template <class T>
Status validate_merged_view(AttentionProblem const& p, ViewName const& name, TensorView<T> const& view,
                            Access access) {
  return validate_view(name, view, p.batch, p.heads, p.q_tokens, p.head_dim, access);
}

template <class T>
Status validate_partial(AttentionProblem const& p, ViewName const& out, char const* lse,
                        Partial<T> const& partial) {
  SPARGE_TRY(validate_merged_view(p, out, partial.out, Access::read));
  return validate_pointer(lse, partial.lse, p.batch * p.q_tokens);
}

template <class T>
Status validate_merge_inputs(AttentionProblem const& p, MergeArgs<T> const& args) {
  bool const has_running = is_given(args.running);
  if (args.count > most_partials)
    return refuse("count", "must be at most most_partials; carry running_out of these into another call",
                  args.count, most_partials);
  if (std::int32_t const least = has_running ? 0 : 1; args.count < least)
    return refuse("count", "must be at least the expected value: 1, or 0 where there is a running result",
                  args.count, least);
  for (std::int32_t i = 0; i < args.count; ++i) {
    PartialName const& name = partial_names[i];
    SPARGE_TRY(validate_partial(p, {name.data, name.shape, name.stride}, name.lse, args.partials[i]));
  }
  if (!has_running) return {};
  return validate_partial(p, {"running.out.data", "running.out.shape", "running.out.stride"}, "running.lse",
                          args.running);
}

template <class T>
Status validate_merge_outputs(AttentionProblem const& p, MergeArgs<T> const& args) {
  if (p.batch * p.q_tokens > 0 && args.out.data == nullptr && args.running_out.data == nullptr)
    return refuse("out.data", "must not be null where running_out is null too");
  if (args.out.data != nullptr) {
    SPARGE_TRY(validate_merged_view(p, {"out.data", "out.shape", "out.stride"}, args.out, Access::write));
  }
  if (args.running_out.data != nullptr) {
    SPARGE_TRY(validate_merged_view(p, {"running_out.data", "running_out.shape", "running_out.stride"},
                                    args.running_out, Access::write));
  }
  if (args.lse == nullptr) return {};
  return validate_pointer("lse", args.lse, p.batch * p.q_tokens);
}

/// The checks of check_arguments(), with the inputs in an array.
template <class T>
Status check_merge_memory(MergePlan<T> const& plan, MergeArgs<T> const& args) {
  std::int64_t const rows = plan.problem.batch * plan.problem.q_tokens;
  Arguments const written = {{"out.data", place_of(args.out)},
                             {"running_out.data", place_of(args.running_out)},
                             {"lse", place_of(args.lse, rows)}};
  NamedPointer read[2 * most_partials + 2] = {{"running.out.data", place_of(args.running.out)},
                                              {"running.lse", place_of(args.running.lse, rows)}};
  std::int32_t inputs = 2;
  for (std::int32_t i = 0; i < args.count; ++i) {
    read[inputs++] = {partial_names[i].data, place_of(args.partials[i].out)};
    read[inputs++] = {partial_names[i].lse, place_of(args.partials[i].lse, rows)};
  }
  for (std::int32_t i = 0; i < inputs; ++i) SPARGE_TRY(validate_apart(written, {read[i]}));
  SPARGE_TRY(check_current_device(plan.device));
  SPARGE_TRY(check_locations(plan.options, plan.device, written));
  for (std::int32_t i = 0; i < inputs; ++i) SPARGE_TRY(check_locations(plan.options, plan.device, {read[i]}));
  return {};
}

template <class T>
MergeParams<T> merge_params(AttentionProblem const& p, MergeArgs<T> const& args) {
  MergeParams<T> params;
  for (std::int32_t i = 0; i < args.count; ++i) params.partials[i] = args.partials[i];
  params.running = args.running;
  params.out = args.out;
  params.running_out = args.running_out;
  params.lse = args.lse;
  params.heads = p.heads;
  params.q_tokens = static_cast<std::int32_t>(p.q_tokens);
  params.count = args.count;
  params.head_dim = p.head_dim;
  params.head_blocks = static_cast<std::uint32_t>(merging::head_blocks(p.q_tokens, p.head_dim));
  return params;
}

}  // namespace detail

template <class T>
Status plan_merge_partials(AttentionProblem const& problem, Device const& device, PlanOptions const& options,
                           MergePlan<T>* plan) noexcept {
  static_assert(std::is_same_v<T, bfloat16> || std::is_same_v<T, float16> || std::is_same_v<T, float>,
                "partial results are bfloat16, float16 or float");
  if (plan == nullptr) return refuse("plan", "must not be null");
  SPARGE_TRY(validate_plan_inputs(problem, device, options));
  SPARGE_TRY(validate_no_choice(options));
  SPARGE_TRY(
      validate_grid(problem, checked_product({problem.batch, problem.heads,
                                              merging::head_blocks(problem.q_tokens, problem.head_dim)})));
  *plan = {problem, device, options};
  return {};
}

template <class T>
Status merge_partials(MergePlan<T> const& plan, MergeArgs<T> const& args, cudaStream_t stream) noexcept {
  AttentionProblem const& p = plan.problem;
  SPARGE_TRY(validate_problem(p));
  SPARGE_TRY(detail::validate_merge_inputs(p, args));
  SPARGE_TRY(detail::validate_merge_outputs(p, args));
  SPARGE_TRY(detail::check_merge_memory(plan, args));
  return launch_result("merging kernel",
                       launch_merge_partials(detail::merge_params(p, args), p.batch * p.heads, stream));
}

}  // namespace sparge
