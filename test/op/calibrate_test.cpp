/// The top_p that calibrate finds, against masks of the device and the f64 reference.

#include <limits>
#include <vector>

#include "op/calibration_check.hpp"
#include "op/mask_rows.hpp"
#include "sparge/plan/calibrate_config.hpp"
#include "sparge/sparge.hpp"
#include "support/catch.hpp"
#include "support/gpu.hpp"

using namespace sparge;
using namespace sparge::test;

namespace {

/// Every goal and scope at a value.
std::vector<CalibrationTarget> targets_at(double value) {
  std::vector<CalibrationTarget> targets;
  for (CalibrationGoal goal : {CalibrationGoal::sparsity, CalibrationGoal::kept_mass})
    for (CalibrationScope scope : {CalibrationScope::each_head, CalibrationScope::all_heads})
      targets.push_back({goal, value, scope});
  return targets;
}

void check(PooledInputs const& x, MaskRule const& rule, CalibrationTarget const& target) {
  check_calibration(x, rule, target, test_device());
}

}  // namespace

TEST_CASE("found top_p meets each target within one step", "[gpu]") {
  SKIP_WITHOUT_GPU();
  for (PooledKind kind : {PooledKind::gaussian, PooledKind::clustered, PooledKind::heavy_tailed}) {
    PooledInputs const x = make_pooled({2, 4, 2, 700, 64 * 150 - 5, 64}, kind, 3);
    for (double value : {0.3, 0.6, 0.95})
      for (CalibrationTarget const& target : targets_at(value)) check(x, rule_of(0.02, 0), target);
  }
}

TEST_CASE("U50 found top_p meets targets of one row and of one block", "[gpu]") {
  SKIP_WITHOUT_GPU();
  for (AttentionProblem const& p :
       {AttentionProblem{1, 1, 1, 1, 1, 64}, AttentionProblem{1, 2, 1, 100, 64 * 33, 128},
        AttentionProblem{1, 2, 2, 129, 8191, 128, 64, 64}}) {
    PooledInputs const x = make_pooled(p, PooledKind::gaussian, 5);
    for (double value : {0.0, 0.5, 1.0})
      for (CalibrationTarget const& target : targets_at(value)) check(x, rule_of(0, 0, 0), target);
  }
}

TEST_CASE("U53 U55 found top_p of ties and equal rows is that of the rule", "[gpu]") {
  SKIP_WITHOUT_GPU();
  for (PooledKind kind : {PooledKind::constant, PooledKind::ties}) {
    PooledInputs const x = make_pooled({1, 2, 1, 300, 64 * 64, 64}, kind, 7);
    for (double value : {0.25, 0.5, 0.75})
      for (CalibrationTarget const& target : targets_at(value)) check(x, rule_of(0.1, 0), target);
  }
  // Four equal masses: two blocks are kept up to exactly a half, three from there on.
  PooledInputs const equal = with_scores({0, 0, 0, 0});
  CalibrationTarget target{CalibrationGoal::sparsity, 0.5};
  CHECK(run_calibrate(equal, rule_of(0, 0, 0), target, test_device()).top_p[0] == 0.5f);
  target.goal = CalibrationGoal::kept_mass;
  CHECK(run_calibrate(equal, rule_of(0, 0, 0), target, test_device()).top_p[0] == 0.25f + 0x1p-24f);
}

TEST_CASE("a target that top_k or forced blocks already pass is not met", "[gpu]") {
  SKIP_WITHOUT_GPU();
  PooledInputs const x = make_pooled({1, 2, 1, 400, 64 * 100, 64}, PooledKind::gaussian, 9);
  MaskRule rule = rule_of(0.2, 0);
  for (CalibrationScope scope : {CalibrationScope::each_head, CalibrationScope::all_heads}) {
    CalibrationResult result = run_calibrate(x, rule, {CalibrationGoal::sparsity, 0.9, scope}, test_device());
    for (Calibration const& r : result.reports)
      CHECK((r.met == 0 && r.top_p == 0 && r.kept_pairs == r.top_k_pairs));
    result = run_calibrate(x, rule, {CalibrationGoal::kept_mass, 0.01, scope}, test_device());
    for (Calibration const& r : result.reports) CHECK((r.met == 1 && r.top_p == 0));
  }
}

TEST_CASE("U60 U61 forced blocks count once toward a target", "[gpu]") {
  SKIP_WITHOUT_GPU();
  PooledInputs const x = make_pooled({2, 2, 2, 900, 64 * 60 - 7, 64}, PooledKind::clustered, 11);
  MaskRule rule = rule_of(0.05, 0);
  rule.keep = {70, 65, 100, 130, 1};
  for (double value : {0.4, 0.7})
    for (CalibrationTarget const& target : targets_at(value)) check(x, rule, target);
}

TEST_CASE("a shard of queries is calibrated by positions in the whole problem", "[gpu]") {
  SKIP_WITHOUT_GPU();
  AttentionProblem p{1, 2, 1, 256, 64 * 40, 64};
  p.q_offset = 512, p.all_q_tokens = 2000;
  MaskRule rule = rule_of(0.05, 0);
  rule.keep.band_tokens = 200;
  PooledInputs const x = make_pooled(p, PooledKind::gaussian, 13);
  for (CalibrationTarget const& target : targets_at(0.6)) check(x, rule, target);
}

TEST_CASE("shares of top_k of heads count in calibration", "[gpu]") {
  SKIP_WITHOUT_GPU();
  PooledInputs const x = make_pooled({2, 4, 2, 300, 64 * 100, 64}, PooledKind::gaussian, 15);
  std::vector<float> const top_k = {0, 0.3f, 0.05f, std::numeric_limits<float>::quiet_NaN()};
  MaskRule rule = rule_of(0.07, 0);
  rule.top_k_of_head = top_k.data();
  for (double value : {0.5, 0.8})
    for (CalibrationTarget const& target : targets_at(value)) check(x, rule, target);
}

TEST_CASE("top_p of the rule is not read", "[gpu]") {
  SKIP_WITHOUT_GPU();
  PooledInputs const x = make_pooled({1, 2, 1, 300, 64 * 100, 64}, PooledKind::gaussian, 17);
  CalibrationTarget const target{CalibrationGoal::sparsity, 0.7};
  std::vector<float> const other = {0.9f, 0.1f};
  MaskRule rule = rule_of(0.05, 0.99);
  rule.top_p_of_head = other.data();
  CHECK(run_calibrate(x, rule, target, test_device()).top_p ==
        run_calibrate(x, rule_of(0.05, 0), target, test_device()).top_p);
}

TEST_CASE("U33 rows of NaN keep nothing by any top_p and have no mass", "[gpu]") {
  SKIP_WITHOUT_GPU();
  PooledInputs x = make_pooled({1, 2, 2, 300, 64 * 40, 64}, PooledKind::gaussian, 19);
  for (std::int64_t i = 0; i < x.problem.q_blocks(); ++i)
    x.q.at(0, 1, i, 0) = std::numeric_limits<float>::quiet_NaN();
  CalibrationResult const by_sparsity =
      run_calibrate(x, rule_of(0.1, 0), {CalibrationGoal::sparsity, 0.5}, test_device());
  CHECK((by_sparsity.top_p[1] == 1 && by_sparsity.reports[1].met == 1 &&
         by_sparsity.reports[1].kept_mass == 0));
  CHECK(by_sparsity.reports[1].kept_pairs == 4 * x.problem.q_blocks());
  CalibrationResult const by_mass =
      run_calibrate(x, rule_of(0.1, 0), {CalibrationGoal::kept_mass, 0.5}, test_device());
  CHECK((by_mass.top_p[1] == 1 && by_mass.reports[1].met == 0));
  CHECK((by_mass.top_p[0] < 1 && by_mass.reports[0].met == 1));
}

TEST_CASE("U75 rows that are sorted in scratch give what sorted ones in shared memory give", "[gpu]") {
  SKIP_WITHOUT_GPU();
  for (std::int64_t blocks : {300, 3000, 16384}) {
    PooledInputs const x = make_pooled({1, 2, 1, 200, 64 * blocks - 3, 64}, PooledKind::clustered, 21);
    Device small = test_device();
    small.shared_bytes_per_block = 2048;
    for (CalibrationTarget const& target : targets_at(0.8)) {
      CHECK(run_calibrate(x, rule_of(0.03, 0), target, small).top_p ==
            run_calibrate(x, rule_of(0.03, 0), target, test_device()).top_p);
      check(x, rule_of(0.03, 0), target);
    }
  }
}

TEST_CASE("U77 a million tokens are calibrated in chunks", "[gpu]") {
  SKIP_WITHOUT_GPU();
  PooledInputs const x = make_pooled({1, 2, 1, 128 * 1100, 64 * 16384, 64}, PooledKind::gaussian, 23);
  CalibrateLayout const layout = CalibrateLayout::of(x.problem, test_device(), CalibrationScope::each_head);
  CHECK(layout.rows.chunk_tiles < layout.rows.tiles);
  CalibrationResult const result =
      run_calibrate(x, rule_of(0.03, 0), {CalibrationGoal::sparsity, 0.9}, test_device());
  MaskWords const words = run_select(x, with_top_p(rule_of(0.03, 0), result.top_p));
  std::vector<std::int64_t> const pairs = pairs_of_heads(x.problem, words);
  for (std::size_t h = 0; h < pairs.size(); ++h) {
    CHECK(result.reports[h].kept_pairs == pairs[h]);
    CHECK(static_cast<double>(pairs[h]) <= 0.1 * static_cast<double>(result.reports[h].all_pairs) + 1e-3);
    CHECK(static_cast<double>(pairs[h]) >= 0.0999 * static_cast<double>(result.reports[h].all_pairs));
  }
}

TEST_CASE("U53 calibration is the same bits in every run and without a report", "[gpu]") {
  SKIP_WITHOUT_GPU();
  PooledInputs const x = make_pooled({2, 4, 2, 3000, 2100, 64}, PooledKind::gaussian, 25);
  CalibrationTarget const target{CalibrationGoal::kept_mass, 0.4, CalibrationScope::all_heads};
  CalibrationResult const first = run_calibrate(x, rule_of(0.05, 0), target, test_device());
  for (int run = 0; run < 5; ++run) {
    CalibrationResult const again = run_calibrate(x, rule_of(0.05, 0), target, test_device());
    CHECK(again.top_p == first.top_p);
    for (std::size_t h = 0; h < first.reports.size(); ++h)
      CHECK(again.reports[h].kept_mass == first.reports[h].kept_mass);
  }
  CalibratePlan plan;
  must(plan_calibrate(x.problem, test_device(), {}, &plan));
  DeviceBuffer<float> const q(x.q.storage()), k(x.k.storage()), top_p(x.problem.heads);
  ScratchBuffer const scratch(plan.workspace_bytes);
  Stream const stream;
  must(calibrate(plan, {q.data(), k.data(), rule_of(0.05, 0), target, top_p.data()}, scratch.workspace(),
                 stream));
  stream.wait();
  CHECK(top_p.download() == first.top_p);
}

TEST_CASE("U05 a problem without pairs meets every target and its outputs are written", "[gpu]") {
  SKIP_WITHOUT_GPU();
  for (AttentionProblem const& p :
       {AttentionProblem{0, 2, 1, 100, 100, 64}, AttentionProblem{2, 2, 1, 0, 100, 64},
        AttentionProblem{2, 2, 1, 100, 0, 64}})
    for (CalibrationTarget const& target : targets_at(0.5)) {
      CalibrationResult const result = run_calibrate(PooledInputs(p), rule_of(0.1, 0), target, test_device());
      bool const is_sparsity = target.goal == CalibrationGoal::sparsity;
      for (Calibration const& r : result.reports) {
        CHECK((r.kept_pairs == 0 && r.all_pairs == 0 && r.kept_mass == 0 && r.top_k_pairs == 0));
        CHECK(r.met == 1);
        CHECK(r.top_p == (is_sparsity ? 1.0f : 0.0f));
      }
      CHECK(result.top_p.size() == 2);
    }
}
