#pragma once
/// plan_select_blocks and select_blocks: validate, carve, launch.

#include "sparge/op/score_rows.hpp"
#include "sparge/sparge.hpp"

namespace sparge {

namespace detail {

inline Status enqueue_select(AttentionProblem const& p, RowLayout const& layout, SelectScratch const& scratch,
                             PooledVectors const& pooled, MaskRule const& rule, MaskOut mask,
                             cudaStream_t stream) {
  MaskSelectParams params{rows_params(p, rule, layout, scratch),
                          p.whole_q_tokens(),
                          p.kv_tokens,
                          p.q_offset / p.q_block,
                          p.q_block,
                          p.kv_block,
                          mask.data,
                          runs_code_for_90a(layout)};
  return enqueue_scored_rows(p, layout, scratch, pooled, stream, [&](RowChunk const& chunk) {
    params.rows.chunk = chunk;
    return launch_result("selecting kernel", launch_mask_select(params, layout, stream));
  });
}

inline std::size_t select_workspace_bytes(AttentionProblem const& p, Device const& device) {
  Carver carver;
  SelectScratch::lay_out(carver, p, RowLayout::of(p, device), true);
  return carver.bytes();
}

}  // namespace detail

SPARGE_INLINE Status plan_select_blocks(AttentionProblem const& problem, Device const& device,
                                        PlanOptions const& options, SelectPlan* plan) noexcept {
  if (plan == nullptr) return refuse("plan", "must not be null");
  SPARGE_TRY(validate_plan_inputs(problem, device, options));
  SPARGE_TRY(validate_no_choice(options));
  SPARGE_TRY(detail::validate_score_grid(problem, RowLayout::of(problem, device)));
  *plan = {problem, device, options, detail::select_workspace_bytes(problem, device)};
  return {};
}

SPARGE_INLINE Status select_blocks(SelectPlan const& plan, SelectArgs const& args, Workspace workspace,
                                   cudaStream_t stream) noexcept {
  AttentionProblem const& p = plan.problem;
  detail::PooledVectors const pooled{args.pooled_q, args.pooled_k};
  SPARGE_TRY(validate_problem(p));
  SPARGE_TRY(detail::validate_pooled(p, pooled));
  SPARGE_TRY(validate_rule(args.rule));
  SPARGE_TRY(validate_mask({"mask.data", "mask.words", ""}, args.mask, count_mask_words(p)));
  std::size_t const needed = detail::select_workspace_bytes(p, plan.device);
  SPARGE_TRY(validate_workspace(workspace, needed));
  SPARGE_TRY(check_arguments(
      plan, {{"mask.data", place_of(args.mask)}, {"workspace.data", place_of(workspace.data, needed)}},
      {{"pooled_q", place_of(pooled.q, p.batch * p.q_tokens)},
       {"pooled_k", place_of(pooled.k, p.batch * p.kv_tokens)},
       {"rule.top_k_of_head", args.rule.top_k_of_head},
       {"rule.top_p_of_head", args.rule.top_p_of_head}}));
  RowLayout const layout = RowLayout::of(p, plan.device);
  Carver carver(workspace.data);
  SelectScratch const scratch = SelectScratch::lay_out(carver, p, layout, true);
  return detail::enqueue_select(p, layout, scratch, pooled, args.rule, args.mask, stream);
}

}  // namespace sparge
