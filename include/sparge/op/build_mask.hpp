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
Status validate_build_mask(BuildMaskPlan<T> const& plan, BuildMaskArgs<T> const& args, Workspace workspace) {
  AttentionProblem const& p = plan.problem;
  SPARGE_TRY(validate_problem(p));
  SPARGE_TRY(validate_queries_and_keys(p, args.q, args.k));
  SPARGE_TRY(validate_rule(args.rule));
  SPARGE_TRY(validate_mask({"mask.data", "mask.words", ""}, args.mask, count_mask_words(p)));
  SPARGE_TRY(validate_distinct(
      "mask.data", args.mask.data,
      {args.q.data, args.k.data, args.rule.top_k_of_head, args.rule.top_p_of_head, workspace.data}));
  return validate_workspace(workspace, build_mask_workspace_bytes(p, plan.device));
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
  SPARGE_TRY(detail::validate_build_mask(plan, args, workspace));
  SPARGE_TRY(check_current_device(plan.device));
  SPARGE_TRY(check_locations(plan.options, plan.device,
                             {{"q.data", args.q.data},
                              {"k.data", args.k.data},
                              {"rule.top_k_of_head", args.rule.top_k_of_head},
                              {"rule.top_p_of_head", args.rule.top_p_of_head},
                              {"mask.data", args.mask.data},
                              {"workspace.data", workspace.data}}));
  RowLayout const layout = RowLayout::of(p, plan.device);
  Carver carver(workspace.data);
  BuildMaskScratch const scratch = BuildMaskScratch::lay_out(carver, p, layout);
  SPARGE_TRY(detail::enqueue_pool(p, args.q, args.k, scratch.pooled_q, scratch.pooled_k, stream));
  return detail::enqueue_select(p, layout, scratch.select, {scratch.pooled_q, scratch.pooled_k}, args.rule,
                                args.mask, stream);
}

}  // namespace sparge
