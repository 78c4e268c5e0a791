#pragma once
/// plan_build_mask and build_mask: pooling into the workspace, then selection.

#include "sparge/op/pool.hpp"
#include "sparge/op/select_blocks.hpp"

namespace sparge {

namespace detail {

inline std::size_t build_mask_workspace_bytes(AttentionProblem const& p, Device const& device) {
  Carver carver;
  BuildMaskScratch::lay_out(carver, p, RowLayout::of(p, device));
  return carver.bytes();
}

template <class T>
Status check_build_mask(BuildMaskPlan<T> const& plan, BuildMaskArgs<T> const& args, Workspace workspace) {
  AttentionProblem const& p = plan.problem;
  SPARGE_TRY(validate_problem(p));
  SPARGE_TRY(validate_queries_and_keys(p, args.q, args.k));
  SPARGE_TRY(validate_rule(args.rule));
  SPARGE_TRY(validate_mask({"mask.data", "mask.words", ""}, args.mask, count_mask_words(p)));
  std::size_t const needed = build_mask_workspace_bytes(p, plan.device);
  SPARGE_TRY(validate_workspace(workspace, needed));
  return check_arguments(
      plan, {{"mask.data", place_of(args.mask)}, {"workspace.data", place_of(workspace.data, needed)}},
      {{"q.data", place_of(args.q)},
       {"k.data", place_of(args.k)},
       {"rule.top_k_of_head", args.rule.top_k_of_head},
       {"rule.top_p_of_head", args.rule.top_p_of_head}});
}

}  // namespace detail

template <class T>
Status plan_build_mask(AttentionProblem const& problem, Device const& device, PlanOptions const& options,
                       BuildMaskPlan<T>* plan) noexcept {
  if (plan == nullptr) return refuse("plan", "must not be null");
  SPARGE_TRY(validate_plan_inputs(problem, device, options));
  SPARGE_TRY(validate_no_choice(options));
  SPARGE_TRY(detail::validate_pool_grid(problem));
  SPARGE_TRY(detail::validate_score_grid(problem, RowLayout::of(problem, device)));
  *plan = {problem, device, options, detail::build_mask_workspace_bytes(problem, device)};
  return {};
}

template <class T>
Status build_mask(BuildMaskPlan<T> const& plan, BuildMaskArgs<T> const& args, Workspace workspace,
                  cudaStream_t stream) noexcept {
  AttentionProblem const& p = plan.problem;
  SPARGE_TRY(detail::check_build_mask(plan, args, workspace));
  RowLayout const layout = RowLayout::of(p, plan.device);
  Carver carver(workspace.data);
  BuildMaskScratch const scratch = BuildMaskScratch::lay_out(carver, p, layout);
  SPARGE_TRY(
      detail::enqueue_pool(p, plan.device, args.q, args.k, scratch.pooled_q, scratch.pooled_k, stream));
  return detail::enqueue_select(p, layout, scratch.select, {scratch.pooled_q, scratch.pooled_k}, args.rule,
                                args.mask, stream);
}

}  // namespace sparge
