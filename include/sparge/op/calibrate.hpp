#pragma once
/// plan_calibrate and calibrate: validate, carve, launch.

#include "sparge/kernel/calibrate_params.hpp"
#include "sparge/op/score_rows.hpp"
#include "sparge/plan/calibrate_config.hpp"
#include "sparge/sparge.hpp"

namespace sparge {

namespace detail {

/// The scratch does not depend on the scope, so that a plan serves both.
inline std::size_t calibrate_workspace_bytes(AttentionProblem const& p, Device const& device) {
  Carver carver;
  CalibrateScratch::lay_out(carver, p, CalibrateLayout::of(p, device, CalibrationScope::each_head));
  return carver.bytes();
}

inline Status validate_target(CalibrationTarget const& target) {
  if (target.goal != CalibrationGoal::sparsity && target.goal != CalibrationGoal::kept_mass)
    return refuse("target.goal", "must be sparsity or kept_mass", static_cast<std::int64_t>(target.goal));
  if (target.scope != CalibrationScope::each_head && target.scope != CalibrationScope::all_heads)
    return refuse("target.scope", "must be each_head or all_heads", static_cast<std::int64_t>(target.scope));
  return validate_share("target.value", target.value);
}

/// What is sought is not read.
inline MaskRule without_top_p(MaskRule rule) {
  rule.top_p = 0, rule.top_p_of_head = nullptr;
  return rule;
}

inline Status check_calibrate(CalibratePlan const& plan, CalibrateArgs const& args, Workspace workspace) {
  AttentionProblem const& p = plan.problem;
  SPARGE_TRY(validate_problem(p));
  SPARGE_TRY(validate_grid(p, p.heads));
  SPARGE_TRY(validate_pooled(p, {args.pooled_q, args.pooled_k}));
  SPARGE_TRY(validate_rule(without_top_p(args.rule)));
  SPARGE_TRY(validate_target(args.target));
  SPARGE_TRY(validate_pointer("top_p_of_head", args.top_p_of_head, p.heads));
  if (args.report) {
    SPARGE_TRY(validate_pointer("report", args.report, p.heads));
  }
  std::size_t const needed = calibrate_workspace_bytes(p, plan.device);
  SPARGE_TRY(validate_workspace(workspace, needed));
  return check_arguments(plan,
                         {{"top_p_of_head", args.top_p_of_head},
                          {"report", args.report},
                          {"workspace.data", place_of(workspace.data, needed)}},
                         {{"pooled_q", place_of(args.pooled_q, p.batch * p.q_tokens)},
                          {"pooled_k", place_of(args.pooled_k, p.batch * p.kv_tokens)},
                          {"rule.top_k_of_head", args.rule.top_k_of_head}});
}

/// A sparsity is met by the pairs that leave it, up to 1e-3 of a pair for the rounding of the share; a mass up to a unit a row.
inline double calibrate_limit(AttentionProblem const& p, CalibrateLayout const& layout,
                              CalibrationTarget const& target) {
  double const rows = has_pairs(p) ? static_cast<double>(layout.group_rows) : 0;
  if (target.goal == CalibrationGoal::sparsity)
    return (1 - target.value) * rows * static_cast<double>(p.kv_blocks()) + 1e-3;
  return (std::ldexp(target.value, layout.mass_bits) - 1) * rows;
}

inline CalibrateRowsParams calibrate_rows_params(AttentionProblem const& p, CalibrateLayout const& layout,
                                                 CalibrateScratch const& scratch, MaskRule const& rule) {
  return {rows_params(p, rule, layout.rows, scratch.select),
          layout.shared_bytes > 0 ? nullptr : scratch.order,
          p.whole_q_tokens(),
          p.kv_tokens,
          p.q_offset / p.q_block,
          p.q_block,
          p.kv_block,
          std::ldexp(1.0, layout.mass_bits)};
}

inline Status enqueue_search(AttentionProblem const& p, CalibrateLayout const& layout,
                             CalibrateScratch const& scratch, CalibrateArgs const& args,
                             cudaStream_t stream) {
  CalibrationTarget const& target = args.target;
  CalibrateCountParams count{calibrate_rows_params(p, layout, scratch, without_top_p(args.rule)),
                             scratch.groups, target.goal, target.scope};
  CalibrateStepParams step{scratch.groups, args.top_p_of_head, target.goal, target.scope};
  step.heads = static_cast<std::int32_t>(p.heads);
  step.limit = calibrate_limit(p, layout, target);
  for (std::int32_t shift = top_p_bits - top_p_digit_bits; shift >= 0; shift -= top_p_digit_bits) {
    count.digit_shift = step.digit_shift = shift;
    SPARGE_TRY(enqueue_scored_rows(
        p, layout.rows, scratch.select, {args.pooled_q, args.pooled_k}, stream, [&](RowChunk const& chunk) {
          count.row.rows.chunk = chunk;
          return launch_result("calibrating kernel", launch_calibrate_count(count, layout, stream));
        }));
    SPARGE_TRY(launch_result("calibration step", launch_calibrate_step(step, layout.groups, stream)));
  }
  return {};
}

inline Status enqueue_report(AttentionProblem const& p, CalibrateLayout const& layout,
                             CalibrateScratch const& scratch, CalibrateArgs const& args,
                             cudaStream_t stream) {
  MaskRule rule = without_top_p(args.rule);
  rule.top_p_of_head = args.top_p_of_head;
  CalibrateReportRowsParams rows{calibrate_rows_params(p, layout, scratch, rule), scratch.tallies};
  SPARGE_TRY(enqueue_scored_rows(p, layout.rows, scratch.select, {args.pooled_q, args.pooled_k}, stream,
                                 [&](RowChunk const& chunk) {
                                   rows.row.rows.chunk = chunk;
                                   return launch_result("calibration report of rows",
                                                        launch_calibrate_report_rows(rows, layout, stream));
                                 }));
  CalibrateReportParams const report{scratch.tallies,        scratch.groups,
                                     args.top_p_of_head,     args.report,
                                     args.target.scope,      static_cast<std::int32_t>(p.heads),
                                     p.batch * p.q_blocks(), p.kv_blocks(),
                                     rows.row.row_mass};
  return launch_result("calibration report", launch_calibrate_report(report, stream));
}

}  // namespace detail

SPARGE_INLINE Status plan_calibrate(AttentionProblem const& problem, Device const& device,
                                    PlanOptions const& options, CalibratePlan* plan) noexcept {
  if (plan == nullptr) return refuse("plan", "must not be null");
  SPARGE_TRY(validate_plan_inputs(problem, device, options));
  SPARGE_TRY(validate_no_choice(options));
  RowLayout const layout = RowLayout::of(problem, device);
  SPARGE_TRY(detail::validate_score_grid(problem, layout));
  SPARGE_TRY(validate_grid(problem, checked_product({layout.chunk_tiles, RowLayout::tile_rows})));
  SPARGE_TRY(validate_grid(problem, problem.heads));
  *plan = {problem, device, options, detail::calibrate_workspace_bytes(problem, device)};
  return {};
}

SPARGE_INLINE Status calibrate(CalibratePlan const& plan, CalibrateArgs const& args, Workspace workspace,
                               cudaStream_t stream) noexcept {
  AttentionProblem const& p = plan.problem;
  SPARGE_TRY(detail::check_calibrate(plan, args, workspace));
  CalibrateLayout const layout = CalibrateLayout::of(p, plan.device, args.target.scope);
  Carver carver(workspace.data);
  CalibrateScratch const scratch = CalibrateScratch::lay_out(carver, p, layout);
  SPARGE_TRY(launch_result("clearing of counters",
                           launch_calibrate_clear(scratch.groups, scratch.tallies, p.heads, stream)));
  SPARGE_TRY(detail::enqueue_search(p, layout, scratch, args, stream));
  return args.report ? detail::enqueue_report(p, layout, scratch, args, stream) : Status{};
}

}  // namespace sparge
