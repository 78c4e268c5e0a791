#pragma once
/// plan_mask_stats and mask_stats: validate, carve, launch.

#include "sparge/op/score_rows.hpp"
#include "sparge/sparge.hpp"

namespace sparge {

namespace detail {

inline std::size_t mask_stats_workspace_bytes(AttentionProblem const& p, Device const& device) {
  Carver carver;
  MaskStatsScratch::lay_out(carver, p, RowLayout::of(p, device));
  return carver.bytes();
}

inline Status check_mask_stats(MaskStatsPlan const& plan, MaskStatsArgs const& args, Workspace workspace) {
  AttentionProblem const& p = plan.problem;
  SPARGE_TRY(validate_problem(p));
  SPARGE_TRY(validate_pooled(p, {args.pooled_q, args.pooled_k}));
  SPARGE_TRY(validate_rule(args.rule));
  SPARGE_TRY(validate_mask({"mask.data", "mask.words", ""}, args.mask, count_mask_words(p)));
  SPARGE_TRY(validate_pointer("stats", args.stats, p.batch * p.heads));
  std::size_t const needed = mask_stats_workspace_bytes(p, plan.device);
  SPARGE_TRY(validate_workspace(workspace, needed));
  return check_arguments(
      plan, {{"stats", place_of(args.stats, p.batch)}, {"workspace.data", place_of(workspace.data, needed)}},
      {{"pooled_q", place_of(args.pooled_q, p.batch * p.q_tokens)},
       {"pooled_k", place_of(args.pooled_k, p.batch * p.kv_tokens)},
       {"mask.data", place_of(args.mask)},
       {"rule.top_k_of_head", args.rule.top_k_of_head},
       {"rule.top_p_of_head", args.rule.top_p_of_head}});
}

inline Status enqueue_mask_stats(AttentionProblem const& p, RowLayout const& layout,
                                 MaskStatsScratch const& scratch, MaskStatsArgs const& args,
                                 cudaStream_t stream) {
  MaskRowStatsParams rows{rows_params(p, args.rule, layout, scratch.select), args.mask.data, scratch.rows};
  SPARGE_TRY(enqueue_scored_rows(
      p, layout, scratch.select, {args.pooled_q, args.pooled_k}, stream, [&](RowChunk const& chunk) {
        rows.rows.chunk = chunk;
        return launch_result("row statistics kernel", launch_mask_row_stats(rows, layout, stream));
      }));
  MaskStatsSumParams const sum{scratch.rows, args.stats, has_pairs(p) ? p.q_blocks() : 0, p.kv_blocks()};
  return launch_result("statistics kernel", launch_mask_stats_sum(sum, p.batch * p.heads, stream));
}

}  // namespace detail

SPARGE_INLINE Status plan_mask_stats(AttentionProblem const& problem, Device const& device,
                                     PlanOptions const& options, MaskStatsPlan* plan) noexcept {
  if (plan == nullptr) return refuse("plan", "must not be null");
  SPARGE_TRY(validate_plan_inputs(problem, device, options));
  SPARGE_TRY(validate_no_choice(options));
  SPARGE_TRY(detail::validate_score_grid(problem, RowLayout::of(problem, device)));
  SPARGE_TRY(validate_grid(problem, checked_product({problem.batch, problem.heads})));
  *plan = {problem, device, options, detail::mask_stats_workspace_bytes(problem, device)};
  return {};
}

SPARGE_INLINE Status mask_stats(MaskStatsPlan const& plan, MaskStatsArgs const& args, Workspace workspace,
                                cudaStream_t stream) noexcept {
  AttentionProblem const& p = plan.problem;
  SPARGE_TRY(detail::check_mask_stats(plan, args, workspace));
  RowLayout const layout = RowLayout::of(p, plan.device);
  Carver carver(workspace.data);
  MaskStatsScratch const scratch = MaskStatsScratch::lay_out(carver, p, layout);
  return detail::enqueue_mask_stats(p, layout, scratch, args, stream);
}

}  // namespace sparge
