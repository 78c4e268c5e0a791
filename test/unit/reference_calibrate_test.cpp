/// The search for top_p in f64, against the reference's own masks.

#include <cmath>
#include <limits>
#include <vector>

#include "sparge/reference/calibrate.hpp"
#include "support/catch.hpp"
#include "support/random.hpp"

using namespace sparge;
using namespace sparge::test;

namespace {

constexpr double step = 1.0 / static_cast<double>(reference::top_p_steps);

struct Inputs {
  AttentionProblem p;
  HostTensor<float> q, k;

  explicit Inputs(AttentionProblem const& problem)
      : p(problem),
        q({p.batch, p.heads, p.q_blocks(), p.head_dim}),
        k({p.batch, p.kv_heads, p.kv_blocks(), p.head_dim}) {}

  std::vector<Calibration> calibrate(MaskRule const& rule, CalibrationTarget const& target) const {
    return reference::calibrate(p, rule, q.storage().data(), k.storage().data(), target);
  }
  /// What a mask by the rule with these top_p keeps, summed over batch items.
  std::vector<MaskStats> kept(MaskRule rule, std::vector<float> const& top_p) const {
    rule.top_p_of_head = top_p.data();
    MaskWords const words = reference::select_blocks(p, rule, q.storage().data(), k.storage().data());
    std::vector<MaskStats> const stats =
        reference::mask_stats(p, rule, q.storage().data(), k.storage().data(), view_of(words));
    std::vector<MaskStats> heads(static_cast<std::size_t>(p.heads));
    for (std::size_t i = 0; i < stats.size(); ++i) {
      heads[i % heads.size()].kept_pairs += stats[i].kept_pairs;
      heads[i % heads.size()].pooled_mass += stats[i].pooled_mass / static_cast<double>(p.batch);
    }
    return heads;
  }
};

Inputs clustered_inputs() {
  Inputs x({2, 4, 2, 700, 64 * 60 - 5, 64});
  Random random(3);
  fill_clustered(x.q, x.k, random, 4);
  return x;
}

MaskRule rule_of(double top_k, std::int32_t min_blocks = 1) {
  MaskRule rule;
  rule.top_k = top_k, rule.top_p = 0, rule.min_blocks = min_blocks;
  return rule;
}

/// Rows whose scores are the logarithms of these masses.
Inputs with_masses(std::vector<double> const& masses) {
  AttentionProblem p{1, 1, 1, 1, 64 * static_cast<std::int64_t>(masses.size()), 64};
  p.scale = 1;
  Inputs x(p);
  fill(x.q, [](auto, auto, auto, auto c) { return c == 0 ? 1.0 : 0.0; });
  fill(x.k, [&](auto, auto, auto j, auto c) {
    return c == 0 ? std::log(masses[static_cast<std::size_t>(j)]) : 0.0;
  });
  return x;
}

std::vector<float> top_p_of(std::vector<Calibration> const& reports, double moved = 0) {
  std::vector<float> top_p;
  for (Calibration const& r : reports)
    top_p.push_back(static_cast<float>(static_cast<double>(r.top_p) + moved));
  return top_p;
}

}  // namespace

TEST_CASE("the top_p found for a sparsity is the largest that meets it") {
  Inputs const x = clustered_inputs();
  MaskRule rule = rule_of(0.02);
  for (std::int64_t front : {0, 100}) {
    rule.keep.kv_front_tokens = front;
    for (double value : {0.5, 0.9}) {
      std::vector<Calibration> const reports = x.calibrate(rule, {CalibrationGoal::sparsity, value});
      auto const kept = x.kept(rule, top_p_of(reports)), beyond = x.kept(rule, top_p_of(reports, step));
      for (std::size_t h = 0; h < reports.size(); ++h) {
        Calibration const& r = reports[h];
        CAPTURE(h, value, r.top_p);
        double const most = (1 - value) * static_cast<double>(r.all_pairs);
        CHECK(r.met == 1);
        CHECK(r.kept_pairs == kept[h].kept_pairs);
        CHECK(r.kept_mass == Approx(kept[h].pooled_mass).epsilon(1e-12));
        CHECK(static_cast<double>(kept[h].kept_pairs) <= most + 1e-3);
        CHECK(static_cast<double>(beyond[h].kept_pairs) > most);
      }
    }
  }
}

TEST_CASE("the top_p found for a mass is the smallest that meets it") {
  Inputs const x = clustered_inputs();
  for (double value : {0.3, 0.8}) {
    std::vector<Calibration> const reports = x.calibrate(rule_of(0.02), {CalibrationGoal::kept_mass, value});
    auto const kept = x.kept(rule_of(0.02), top_p_of(reports)),
               before = x.kept(rule_of(0.02), top_p_of(reports, -step));
    for (std::size_t h = 0; h < reports.size(); ++h) {
      CAPTURE(h, value, reports[h].top_p);
      CHECK(reports[h].met == 1);
      CHECK(kept[h].pooled_mass >= value - 1e-9);
      CHECK((reports[h].top_p == 0 || before[h].pooled_mass < value));
    }
  }
}

TEST_CASE("a top_p of all heads meets the target over all of them") {
  Inputs const x = clustered_inputs();
  std::vector<Calibration> const reports =
      x.calibrate(rule_of(0.02), {CalibrationGoal::sparsity, 0.7, CalibrationScope::all_heads});
  std::int64_t kept = 0, all = 0, beyond = 0;
  for (Calibration const& r : reports) {
    CHECK(r.top_p == reports[0].top_p);
    kept += r.kept_pairs, all += r.all_pairs;
  }
  for (MaskStats const& s : x.kept(rule_of(0.02), top_p_of(reports, step))) beyond += s.kept_pairs;
  CHECK(static_cast<double>(kept) <= 0.3 * static_cast<double>(all) + 1e-3);
  CHECK(static_cast<double>(beyond) > 0.3 * static_cast<double>(all));
}

TEST_CASE("a report says what either rule keeps alone") {
  Inputs const x = with_masses({0.05, 0.5, 0.3, 0.15});
  Calibration const r = x.calibrate(rule_of(0.25), {CalibrationGoal::sparsity, 0.25})[0];
  CHECK(r.top_p == Approx(0.95).epsilon(1e-6));  // three blocks are kept up to 0.95
  CHECK((r.kept_pairs == 3 && r.all_pairs == 4 && r.top_k_pairs == 1 && r.top_p_pairs == 3));
  CHECK(r.kept_mass == Approx(0.95).epsilon(1e-6));
  CHECK(r.top_k_mass == Approx(0.5).epsilon(1e-6));
  CHECK(r.top_p_mass == Approx(0.95).epsilon(1e-6));
  Calibration const k_decides = x.calibrate(rule_of(0.75), {CalibrationGoal::kept_mass, 0.4})[0];
  CHECK((k_decides.top_p == 0 && k_decides.met == 1));
  CHECK((k_decides.kept_pairs == 3 && k_decides.top_k_pairs == 3 && k_decides.top_p_pairs == 0));
}

TEST_CASE("the block that crosses a share counts toward calibration") {
  Inputs const x = with_masses({1, 1, 1, 1});
  CHECK(x.calibrate(rule_of(0, 0), {CalibrationGoal::sparsity, 0.5})[0].top_p == 0.5f);
  CHECK(static_cast<double>(x.calibrate(rule_of(0, 0), {CalibrationGoal::kept_mass, 0.5})[0].top_p) ==
        0.25 + step);
}

TEST_CASE("targets that no top_p meets give the nearest") {
  Inputs const x = clustered_inputs();
  for (Calibration const& r : x.calibrate(rule_of(0.5), {CalibrationGoal::sparsity, 0.9}))
    CHECK((r.met == 0 && r.top_p == 0 && r.kept_pairs == r.top_k_pairs));
  Inputs nan = with_masses({1, 1});
  fill_constant(nan.q, std::numeric_limits<double>::quiet_NaN());
  Calibration const r = nan.calibrate(rule_of(0.5), {CalibrationGoal::kept_mass, 0.5})[0];
  CHECK((r.met == 0 && r.top_p == 1 && r.kept_mass == 0 && r.kept_pairs == 1));
}

TEST_CASE("the ends of the targets are reached") {
  Inputs const x = clustered_inputs();
  for (Calibration const& r : x.calibrate(rule_of(0, 0), {CalibrationGoal::sparsity, 0}))
    CHECK((r.top_p == 1 && r.met == 1 && r.kept_pairs == r.all_pairs));
  for (Calibration const& r : x.calibrate(rule_of(0, 0), {CalibrationGoal::sparsity, 1}))
    CHECK((r.top_p == 0 && r.met == 1 && r.kept_pairs == 0));
  for (Calibration const& r : x.calibrate(rule_of(0, 0), {CalibrationGoal::kept_mass, 0}))
    CHECK((r.top_p == 0 && r.met == 1));
  for (Calibration const& r : x.calibrate(rule_of(0, 0), {CalibrationGoal::kept_mass, 1}))
    CHECK((r.met == 1 && r.kept_mass == Approx(1).epsilon(1e-9)));
}

TEST_CASE("a reference problem without pairs meets every target") {
  for (AttentionProblem const& p :
       {AttentionProblem{0, 2, 1, 100, 100, 64}, AttentionProblem{1, 2, 1, 100, 0, 64}})
    for (CalibrationGoal goal : {CalibrationGoal::sparsity, CalibrationGoal::kept_mass})
      for (Calibration const& r : Inputs(p).calibrate(rule_of(0.1), {goal, 0.5}))
        CHECK((r.met == 1 && r.kept_pairs == 0 && r.all_pairs == 0));
}
