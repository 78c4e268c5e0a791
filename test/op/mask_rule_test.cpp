/// The rule case by case: counts of top_k, the crossing block of top_p, shares of a head, forced blocks.

#include <cmath>
#include <limits>

#include "op/mask_band.hpp"
#include "op/mask_rows.hpp"
#include "sparge/sparge.hpp"
#include "support/catch.hpp"
#include "support/gpu.hpp"

using namespace sparge;
using namespace sparge::test;

namespace {

constexpr float infinity_f = std::numeric_limits<float>::infinity();
constexpr float nan_f = std::numeric_limits<float>::quiet_NaN();

}  // namespace

// ---- Counts --------------------------------------------------------------------------------------------------------

TEST_CASE("U38 a share below one block keeps one", "[gpu]") {
  SKIP_WITHOUT_GPU();
  PooledInputs const x = make_pooled({1, 1, 1, 5, 3, 64}, PooledKind::gaussian);
  CHECK(run_select(x, rule_of(0.01, 0)) == MaskWords{1});
}

TEST_CASE("U50 a share counts the blocks of the tokens that exist and is rounded up", "[gpu]") {
  SKIP_WITHOUT_GPU();
  PooledInputs const x = make_pooled({1, 2, 1, 500, 32760, 128}, PooledKind::gaussian);
  REQUIRE(x.problem.kv_blocks() == 512);
  CHECK(every_row_keeps(x.problem, run_select(x, rule_of(0.2, 0)), 103));
  CHECK(every_row_keeps(x.problem, run_select(x, rule_of(0.25, 0)), 128));
  CHECK(every_row_keeps(x.problem, run_select(x, rule_of(0.2f, 0)), 103));
  std::vector<float> const shares = {0.25f, 0.03f};  // float shares round to no block more
  MaskRule rule = rule_of(1, 0);
  rule.top_k_of_head = shares.data();
  MaskWords const words = run_select(x, rule);
  CHECK(count_row(x.problem, words, 0) == 128);
  CHECK(count_row(x.problem, words, mask_rows(x.problem) - 1) == 16);
}

TEST_CASE("U50 a share next to a whole number of blocks is counted as the reference counts it", "[gpu]") {
  SKIP_WITHOUT_GPU();
  struct Share {
    double top_k;
    std::int64_t blocks;
  };
  for (auto const& [top_k, blocks] :
       {Share{.069, 29}, Share{.137, 73}, Share{.057, 193}, Share{.001, 1001}}) {
    CAPTURE(top_k, blocks);
    PooledInputs const x = gaussian_row(blocks);
    std::int64_t const wanted = reference::count_top_k(top_k, 0, blocks);
    CHECK(every_row_keeps(x.problem, run_select(x, rule_of(top_k, 0, 0)), wanted));
  }
}

TEST_CASE("U51 a share of 0.4 of two blocks keeps one", "[gpu]") {
  SKIP_WITHOUT_GPU();
  PooledInputs const x = gaussian_row(2);
  CHECK(every_row_keeps(x.problem, run_select(x, rule_of(0.4, 0)), 1));
}

TEST_CASE("U52 more blocks than there are means all of them", "[gpu]") {
  SKIP_WITHOUT_GPU();
  PooledInputs const x = make_pooled({1, 2, 1, 300, 100, 64}, PooledKind::gaussian);
  CHECK(run_select(x, rule_of(0, 0, 16)) == full_mask(x.problem));
  CHECK(run_select(x, rule_of(0, 0, std::numeric_limits<std::int32_t>::max())) == full_mask(x.problem));
}

TEST_CASE("shares of 0 keep nothing where no block is asked for and shares of 1 keep everything", "[gpu]") {
  SKIP_WITHOUT_GPU();
  for (std::int64_t blocks : {1, 2, 31, 32, 33, 300, 4000}) {
    PooledInputs const x = gaussian_row(blocks);
    CHECK(every_row_keeps(x.problem, run_select(x, rule_of(0, 0, 0)), 0));
    CHECK(every_row_keeps(x.problem, run_select(x, rule_of(0, 0, 1)), 1));
    CHECK(run_select(x, rule_of(1, 0)) == full_mask(x.problem));
    CHECK(run_select(x, rule_of(0, 1, 0)) == full_mask(x.problem));
  }
}

TEST_CASE("U58 U64 the density follows the share", "[gpu]") {
  SKIP_WITHOUT_GPU();
  PooledInputs const x = make_pooled({1, 4, 4, 1024, 1024, 64}, PooledKind::clustered);
  REQUIRE(x.problem.kv_blocks() == 16);
  CHECK(every_row_keeps(x.problem, run_select(x, rule_of(0.1, 0)), 2));
  CHECK(every_row_keeps(x.problem, run_select(x, rule_of(0.3, 0)), 5));
  CHECK(every_row_keeps(x.problem, run_select(x, rule_of(0.6, 0)), 10));
  CHECK(every_row_keeps(x.problem, run_select(x, rule_of(1.0, 0)), 16));
}

TEST_CASE("shares of a head replace the scalar and are clamped and NaN means the scalar", "[gpu]") {
  SKIP_WITHOUT_GPU();
  PooledInputs const x = make_pooled({2, 8, 4, 700, 64 * 100 - 5, 64}, PooledKind::gaussian, 31);
  std::vector<float> const top_k = {0, 0.5f, 1, nan_f, -1, 7, infinity_f, -infinity_f};
  std::vector<float> const top_p = {0.5f, nan_f, 0.1f, -3, 0.9f, 0, nan_f, infinity_f};
  MaskRule rule = rule_of(0.07, 0.35);
  rule.top_k_of_head = top_k.data();
  check_few_excused(check_rows(x, rule, run_select(x, rule)));
  rule.top_p_of_head = top_p.data();
  check_few_excused(check_rows(x, rule, run_select(x, rule)));
  rule.top_k_of_head = nullptr;
  check_few_excused(check_rows(x, rule, run_select(x, rule)));
}

// ---- Top-p ---------------------------------------------------------------------------------------------------------

TEST_CASE("U54 a share of 1 of the mass keeps every block", "[gpu]") {
  SKIP_WITHOUT_GPU();
  for (std::int64_t blocks : {1, 2, 3, 1182})
    for (PooledKind kind : {PooledKind::gaussian, PooledKind::constant, PooledKind::heavy_tailed}) {
      PooledInputs const x = make_pooled({1, 2, 1, 300, 64 * blocks, 64}, kind);
      CHECK(run_select(x, rule_of(0, 1.0, 0)) == full_mask(x.problem));
    }
}

TEST_CASE("U55 the block that crosses the share is kept and none after it", "[gpu]") {
  SKIP_WITHOUT_GPU();
  PooledInputs const x = with_masses({0.15, 0.60, 0.25});
  CHECK(row_bits(x.problem, run_select(x, rule_of(0, 0.8, 0)), 0) == only(3, {1, 2}));
  CHECK(row_bits(x.problem, run_select(x, rule_of(0, 0.59, 0)), 0) == only(3, {1}));
  CHECK(row_bits(x.problem, run_select(x, rule_of(0, 0.61, 0)), 0) == only(3, {1, 2}));
  CHECK(row_bits(x.problem, run_select(x, rule_of(0, 1e-9, 0)), 0) == only(3, {1}));
  PooledInputs const equal = with_scores({0, 0, 0, 0});  // prefixes of exactly 1/4, 1/2, 3/4
  CHECK(row_bits(equal.problem, run_select(equal, rule_of(0, 0.25, 0)), 0) == only(4, {0}));
  CHECK(row_bits(equal.problem, run_select(equal, rule_of(0, 0.5, 0)), 0) == only(4, {0, 1}));
  CHECK(row_bits(equal.problem, run_select(equal, rule_of(0, 0.75, 0)), 0) == only(4, {0, 1, 2}));
  CHECK(row_bits(equal.problem, run_select(equal, rule_of(0, 0.750001, 0)), 0) == only(4, {0, 1, 2, 3}));
}

TEST_CASE("U56 many small masses add up to within one block of f64", "[gpu]") {
  SKIP_WITHOUT_GPU();
  std::int64_t const blocks = 8192;
  PooledInputs const uniform = with_scores(std::vector<double>(blocks, 0.25));
  CHECK(count_row(uniform.problem, run_select(uniform, rule_of(0, 0.5, 0)), 0) == blocks / 2);
  CHECK(count_row(uniform.problem, run_select(uniform, rule_of(0, 0.3, 0)), 0) == 2458);  // ceil(0.3 * 8192)
  std::vector<double> masses(blocks, 1e-6);
  masses[5000] = 0.3;
  PooledInputs const peaked = with_masses(masses);
  double const all = 0.3 + (blocks - 1) * 1e-6, top_p = 0.98;
  auto const wanted = static_cast<std::int64_t>(std::ceil((top_p * all - 0.3) / 1e-6)) + 1;
  MaskWords const words = run_select(peaked, rule_of(0, top_p, 0));
  CHECK(std::abs(count_row(peaked.problem, words, 0) - wanted) <= 1);
  CHECK(row_bits(peaked.problem, words, 0)[5000]);
}

TEST_CASE("the longer of the two prefixes is kept", "[gpu]") {
  SKIP_WITHOUT_GPU();
  PooledInputs const x = with_masses({0.05, 0.5, 0.3, 0.15});
  CHECK(row_bits(x.problem, run_select(x, rule_of(0.25, 0.7, 0)), 0) == only(4, {1, 2}));
  CHECK(row_bits(x.problem, run_select(x, rule_of(0.75, 0.4, 0)), 0) == only(4, {1, 2, 3}));
}

// ---- Forced blocks -------------------------------------------------------------------------------------------------

TEST_CASE("U60 U61 forced blocks are added to the choice and counted once", "[gpu]") {
  SKIP_WITHOUT_GPU();
  PooledInputs const x = make_pooled({1, 2, 2, 4608, 4608, 64}, PooledKind::clustered, 41);
  AttentionProblem const& p = x.problem;
  MaskRule rule = rule_of(0.1, 0);
  MaskWords const chosen = run_select(x, rule);
  for (KeepRule const& keep :
       {KeepRule{512, 0, -1, 0, 0}, KeepRule{0, 512, -1, 0, 0}, KeepRule{0, 0, -1, 512, 0},
        KeepRule{0, 0, -1, 0, 512}, KeepRule{0, 0, 0, 0, 0}, KeepRule{0, 0, 200, 0, 0},
        KeepRule{1, 1, -1, 1, 1}, KeepRule{65, 63, 64, 129, 127}}) {
    rule.keep = keep;
    MaskWords const words = run_select(x, rule);
    std::int64_t wrong = 0;
    for (std::int64_t row = 0; row < mask_rows(p); ++row) {
      std::vector<bool> const kept = row_bits(p, words, row), by_score = row_bits(p, chosen, row);
      for (std::int64_t j = 0; j < p.kv_blocks(); ++j)
        wrong += kept[j] != (by_score[j] || reference::is_forced(p, keep, row % p.q_blocks(), j));
    }
    CHECK(wrong == 0);
    CHECK(padding_is_zero(p, words));
  }
}

TEST_CASE("U60 text tokens that share a block with video are kept with it", "[gpu]") {
  SKIP_WITHOUT_GPU();
  AttentionProblem const p{1, 1, 1, 300, 118800 + 256, 128};  // text starts 16 tokens into its block
  PooledInputs const x = make_pooled(p, PooledKind::gaussian, 43);
  MaskRule rule = rule_of(0, 0, 0);
  rule.keep.kv_back_tokens = 256;
  MaskWords const words = run_select(x, rule);
  std::vector<std::int64_t> text;
  for (std::int64_t j = 118800 / 64; j < p.kv_blocks(); ++j) text.push_back(j);
  for (std::int64_t row = 0; row < mask_rows(p); ++row)
    CHECK(row_bits(p, words, row) == only(p.kv_blocks(), text));
}

TEST_CASE("keep rules larger than the sequence keep everything", "[gpu]") {
  SKIP_WITHOUT_GPU();
  PooledInputs const x = make_pooled({1, 2, 1, 400, 2500, 64}, PooledKind::gaussian);
  std::int64_t const huge = std::numeric_limits<std::int64_t>::max();
  for (KeepRule const& keep :
       {KeepRule{huge, 0, -1, 0, 0}, KeepRule{0, huge, -1, 0, 0}, KeepRule{0, 0, huge, 0, 0},
        KeepRule{0, 0, -1, huge, 0}, KeepRule{0, 0, -1, 0, huge}}) {
    MaskRule rule = rule_of(0, 0, 0);
    rule.keep = keep;
    CHECK(run_select(x, rule) == full_mask(x.problem));
  }
}
