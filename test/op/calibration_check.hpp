#pragma once
/// Is a found top_p the right one? By masks that the device selects with it and with the next candidate, and by the f64 reference.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "op/mask_runs.hpp"
#include "sparge/reference/calibrate.hpp"
#include "sparge/sparge.hpp"
#include "support/catch.hpp"

namespace sparge::test {

struct CalibrationResult {
  std::vector<float> top_p;
  std::vector<Calibration> reports;
};

inline CalibrationResult run_calibrate(PooledInputs const& x, MaskRule const& rule,
                                       CalibrationTarget const& target, Device const& device) {
  CalibratePlan plan;
  must(plan_calibrate(x.problem, device, {}, &plan));
  DeviceBuffer<float> const q(x.q.storage()), k(x.k.storage()), top_p(x.problem.heads);
  DeviceBuffer<Calibration> const reports(x.problem.heads);
  DeviceRule const on_device(rule, x.problem.heads);
  ScratchBuffer const scratch(plan.workspace_bytes);
  Stream const stream;
  must(calibrate(plan, {q.data(), k.data(), on_device.rule(), target, top_p.data(), reports.data()},
                 scratch.workspace(), stream));
  stream.wait();
  return {top_p.download(), reports.download()};
}

/// Pairs that a mask keeps of each head, of all batch items.
inline std::vector<std::int64_t> pairs_of_heads(AttentionProblem const& p, MaskWords const& words) {
  std::vector<std::int64_t> pairs(static_cast<std::size_t>(p.heads), 0);
  for (std::int64_t row = 0; row < mask_rows(p); ++row)
    pairs[static_cast<std::size_t>(row / p.q_blocks() % p.heads)] += count_row(p, words, row);
  return pairs;
}

/// Pooled mass that a mask keeps of each head, a mean over the query blocks of all batch items.
inline std::vector<double> mass_of_heads(PooledInputs const& x, MaskRule const& rule,
                                         MaskWords const& words) {
  std::vector<double> mass(static_cast<std::size_t>(x.problem.heads), 0);
  std::vector<MaskStats> const stats = run_stats(x, rule, words);
  for (std::size_t i = 0; i < stats.size(); ++i)
    mass[i % mass.size()] += stats[i].pooled_mass / static_cast<double>(x.problem.batch);
  return mass;
}

/// The rule with the top_p of heads that an array on the host holds.
inline MaskRule with_top_p(MaskRule rule, std::vector<float> const& top_p) {
  rule.top_p = 0, rule.top_p_of_head = top_p.data();
  return rule;
}

/// The report is what the device's own masks keep.
inline void check_report(PooledInputs const& x, MaskRule const& rule, CalibrationResult const& result) {
  AttentionProblem const& p = x.problem;
  MaskRule const whole = with_top_p(rule, result.top_p);
  MaskRule by_k = rule, by_p = whole;
  by_k.top_p = 0, by_k.top_p_of_head = nullptr;
  by_p.top_k = 0, by_p.top_k_of_head = nullptr, by_p.min_blocks = 0;
  MaskWords const words = run_select(x, whole), of_k = run_select(x, by_k), of_p = run_select(x, by_p);
  auto const pairs = pairs_of_heads(p, words), k_pairs = pairs_of_heads(p, of_k),
             p_pairs = pairs_of_heads(p, of_p);
  auto const mass = mass_of_heads(x, whole, words), k_mass = mass_of_heads(x, whole, of_k),
             p_mass = mass_of_heads(x, whole, of_p);
  for (std::size_t h = 0; h < result.reports.size(); ++h) {
    Calibration const& r = result.reports[h];
    CAPTURE(h, r.top_p);
    CHECK(r.top_p == result.top_p[h]);
    CHECK(r.all_pairs == p.batch * p.q_blocks() * p.kv_blocks());
    CHECK(r.kept_pairs == pairs[h]);
    CHECK(r.top_k_pairs == k_pairs[h]);
    CHECK(r.top_p_pairs == p_pairs[h]);
    CHECK(std::abs(r.kept_mass - mass[h]) < 1e-8);
    CHECK(std::abs(r.top_k_mass - k_mass[h]) < 1e-8);
    CHECK(std::abs(r.top_p_mass - p_mass[h]) < 1e-8);
  }
}

/// What a mask with the given top_p keeps of the heads of a group, as a share.
inline double share_kept(PooledInputs const& x, MaskRule const& rule, CalibrationGoal goal,
                         std::vector<float> const& top_p, std::int64_t first, std::int64_t count) {
  AttentionProblem const& p = x.problem;
  MaskRule const whole = with_top_p(rule, top_p);
  MaskWords const words = run_select(x, whole);
  double share = 0;
  if (goal == CalibrationGoal::kept_mass) {
    std::vector<double> const mass = mass_of_heads(x, whole, words);
    for (std::int64_t h = first; h < first + count; ++h) share += mass[static_cast<std::size_t>(h)];
    return share / static_cast<double>(count);
  }
  std::vector<std::int64_t> const pairs = pairs_of_heads(p, words);
  for (std::int64_t h = first; h < first + count; ++h)
    share += static_cast<double>(pairs[static_cast<std::size_t>(h)]);
  return share / static_cast<double>(count * p.batch * p.q_blocks() * p.kv_blocks());
}

/// On the right side of the target, and the next candidate beyond it, by masks of the device. `first` and `count` are the group's heads.
inline void check_one_step(PooledInputs const& x, MaskRule const& rule, CalibrationTarget const& target,
                           CalibrationResult const& result, std::int64_t first, std::int64_t count) {
  float const step = 1 / static_cast<float>(reference::top_p_steps);
  bool const is_sparsity = target.goal == CalibrationGoal::sparsity;
  float const top_p = result.top_p[static_cast<std::size_t>(first)];
  std::int32_t const met = result.reports[static_cast<std::size_t>(first)].met;
  double const rounding = is_sparsity ? 0 : 1e-8;
  auto const meets = [&](std::vector<float> const& shares, double slack) {
    double const kept = share_kept(x, rule, target.goal, shares, first, count);
    double const pairs =
        static_cast<double>(count * x.problem.batch * x.problem.q_blocks() * x.problem.kv_blocks());
    return is_sparsity ? kept <= 1 - target.value + 1.5e-3 / pairs + slack : kept >= target.value - slack;
  };
  CAPTURE(first, count, top_p, met, target.value, static_cast<int>(target.goal));
  float const free_end = is_sparsity ? 0.0f : 1.0f, other_end = 1 - free_end;
  if (met == 0) {
    CHECK(top_p == free_end);
    CHECK_FALSE(meets(result.top_p, -rounding));
    return;
  }
  CHECK(meets(result.top_p, rounding));
  if (top_p == other_end) return;
  std::vector<float> beyond = result.top_p;
  for (std::int64_t h = first; h < first + count; ++h)
    beyond[static_cast<std::size_t>(h)] += is_sparsity ? step : -step;
  CHECK_FALSE(meets(beyond, -rounding));
}

/// How far f32 scores may move the masses of a row (docs/math.md), the largest of all rows.
inline double mass_slack(PooledInputs const& x, MaskRule const& rule) {
  AttentionProblem const& p = x.problem;
  reference::BlockSelector const selector(p, rule, x.q.storage().data(), x.k.storage().data());
  double error = 0;
  for (std::int64_t row = 0; row < mask_rows(p); ++row)
    error = std::max(
        error, selector.row(row / p.q_blocks() / p.heads, row / p.q_blocks() % p.heads, row % p.q_blocks())
                   .score_error);
  return 2 * error + static_cast<double>(p.kv_blocks()) * 0x1p-32 + 1e-6;
}

/// The reference meets the target with a top_p that is smaller by the slack, or larger, and not with one that lies the slack beyond.
inline void check_reference(PooledInputs const& x, MaskRule const& rule, CalibrationTarget const& target,
                            CalibrationResult const& result) {
  AttentionProblem const& p = x.problem;
  auto const curves = reference::calibration_curves(p, rule, x.q.storage().data(), x.k.storage().data());
  double const slack = mass_slack(x, rule) + 2.0 / static_cast<double>(reference::top_p_steps);
  bool const is_common = target.scope == CalibrationScope::all_heads;
  for (std::size_t h = 0; h < curves.size(); ++h) {
    std::vector<reference::HeadCurve const*> group;
    for (reference::HeadCurve const& curve : curves)
      if (is_common || &curve == &curves[h]) group.push_back(&curve);
    auto const wanted = [&](double value) {
      CalibrationTarget moved = target;
      moved.value = std::min(std::max(value, 0.0), 1.0);
      return reference::find_top_p(group, p.kv_blocks(), moved).top_p;
    };
    // A mass is itself known to the slack alone.
    double const around = target.goal == CalibrationGoal::kept_mass ? slack : 0;
    CAPTURE(h, slack, target.value, result.top_p[h], wanted(target.value));
    CHECK(result.top_p[h] >= wanted(target.value - around) - slack);
    CHECK(result.top_p[h] <= wanted(target.value + around) + slack);
  }
}

inline void check_calibration(PooledInputs const& x, MaskRule const& rule, CalibrationTarget const& target,
                              Device const& device) {
  AttentionProblem const& p = x.problem;
  CAPTURE(p.batch, p.heads, p.q_tokens, p.kv_tokens, rule.top_k, rule.min_blocks, target.value);
  CAPTURE(static_cast<int>(target.goal), static_cast<int>(target.scope));
  CalibrationResult const result = run_calibrate(x, rule, target, device);
  check_report(x, rule, result);
  if (target.scope == CalibrationScope::all_heads) {
    for (std::size_t h = 1; h < result.top_p.size(); ++h) {
      CHECK(result.top_p[h] == result.top_p[0]);
      CHECK(result.reports[h].met == result.reports[0].met);
    }
    check_one_step(x, rule, target, result, 0, p.heads);
  } else {
    for (std::int64_t h = 0; h < p.heads; ++h) check_one_step(x, rule, target, result, h, 1);
  }
  check_reference(x, rule, target, result);
}

}  // namespace sparge::test
