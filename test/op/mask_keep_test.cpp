/// The keep rule where the choice has nothing to say, or there is little to choose from.

#include <limits>

#include "op/mask_band.hpp"
#include "op/mask_rows.hpp"
#include "op/mask_runs.hpp"
#include "sparge/sparge.hpp"
#include "support/catch.hpp"
#include "support/gpu.hpp"

using namespace sparge;
using namespace sparge::test;

TEST_CASE("U33 U60 rows of NaN and of equal scores keep their forced blocks beside the first ones", "[gpu]") {
  SKIP_WITHOUT_GPU();
  PooledInputs x = make_pooled({1, 2, 1, 700, 64 * 70 - 9, 64}, PooledKind::constant);
  for (std::int64_t i = 0; i < x.problem.q_blocks(); ++i)
    x.q.at(0, 1, i, 0) = std::numeric_limits<float>::quiet_NaN();
  MaskRule rule = rule_of(0.1, 0);  // blocks 0 to 6
  rule.keep.kv_front_tokens = 1,
  rule.keep.kv_back_tokens = 56;  // blocks 0, 68 and 69: the last has 55 tokens
  std::vector<bool> const wanted = only(70, {0, 1, 2, 3, 4, 5, 6, 68, 69});
  MaskWords const words = run_select(x, rule);
  for (std::int64_t row = 0; row < mask_rows(x.problem); ++row)
    CHECK(row_bits(x.problem, words, row) == wanted);
  for (MaskStats const& s : run_stats(x, rule, words)) {
    CHECK(s.owed_to_top_k == 7 * x.problem.q_blocks());
    CHECK(s.owed_to_force == 2 * x.problem.q_blocks());
  }
}

TEST_CASE("U38 a problem of one block pair follows each part of the rule", "[gpu]") {
  SKIP_WITHOUT_GPU();
  PooledInputs const x = make_pooled({1, 1, 1, 3, 5, 64}, PooledKind::gaussian);
  MaskWords const kept{1}, dropped{0};
  CHECK(run_select(x, rule_of(0, 0, 0)) == dropped);
  CHECK(run_select(x, rule_of(0, 0, 1)) == kept);
  CHECK(run_select(x, rule_of(0.01, 0, 0)) == kept);
  CHECK(run_select(x, rule_of(0, 1e-9, 0)) == kept);
  for (KeepRule const& keep : {KeepRule{1, 0, -1, 0, 0}, KeepRule{0, 1, -1, 0, 0}, KeepRule{0, 0, 0, 0, 0},
                               KeepRule{0, 0, -1, 1, 0}, KeepRule{0, 0, -1, 0, 1}}) {
    MaskRule rule = rule_of(0, 0, 0);
    rule.keep = keep;
    CHECK(run_select(x, rule) == kept);
  }
}

TEST_CASE("U60 dense queries and a band count from the ends of unequal sequences with partial blocks",
          "[gpu]") {
  SKIP_WITHOUT_GPU();
  PooledInputs const x = make_pooled({2, 4, 2, 1000, 2110, 64, 64, 128}, PooledKind::gaussian, 47);
  for (KeepRule const& keep : {KeepRule{0, 0, 100, 0, 0}, KeepRule{0, 0, -1, 65, 41},
                               KeepRule{129, 63, -1, 0, 0}, KeepRule{1, 1, 0, 1, 40}}) {
    MaskRule rule = rule_of(0.05, 0.1);
    rule.keep = keep;
    check_few_excused(check_rows(x, rule, run_select(x, rule)));
  }
}
