/// What mask_stats reports of any mask, against the f64 reference.

#include <cmath>
#include <limits>

#include "op/mask_band.hpp"
#include "op/mask_rows.hpp"
#include "op/mask_runs.hpp"
#include "sparge/plan/mask_config.hpp"
#include "sparge/sparge.hpp"
#include "support/catch.hpp"
#include "support/gpu.hpp"

using namespace sparge;
using namespace sparge::test;

namespace {

std::vector<AttentionProblem> problems() {
  return {{1, 1, 1, 1, 1, 64},
          {2, 4, 2, 300, 2100, 64},
          {1, 6, 1, 4097, 500, 128},
          {1, 2, 2, 129, 8191, 128, 64, 64},
          {2, 3, 3, 40000, 3001, 64, 64, 128}};  // more rows a head than threads a thread block
}

/// How far f32 scores may move the numbers of one head: pairs that may go from one owner to another, and mass.
struct Slack {
  std::int64_t pairs = 0;
  double mass = 1e-9;
};

Slack slack_of(PooledInputs const& x, MaskRule const& rule, std::int64_t head_index) {
  AttentionProblem const& p = x.problem;
  reference::BlockSelector const selector(p, rule, x.q.storage().data(), x.k.storage().data());
  Slack slack;
  for (std::int64_t i = 0; i < p.q_blocks(); ++i) {
    reference::RowSelection const row = selector.row(head_index / p.heads, head_index % p.heads, i);
    double const top_p = selector.top_p(head_index % p.heads);
    double const mass = 2 * row.score_error + static_cast<double>(p.kv_blocks()) * 0x1p-32 + 1e-6;
    for (std::int64_t rank = 0; rank + 1 < p.kv_blocks(); ++rank) {
      double const gap = row.scores[row.order[rank]] - row.scores[row.order[rank + 1]];
      bool const is_cut = rank + 1 == row.n_k || rank + 1 == row.n_p;
      slack.pairs += is_cut && gap <= 2 * row.score_error;
      slack.pairs += std::abs(row.cumulative[rank] - top_p) <= mass;
    }
    slack.mass += mass / static_cast<double>(p.q_blocks());
  }
  return slack;
}

void check_stats(PooledInputs const& x, MaskRule const& rule, MaskWords const& words) {
  AttentionProblem const& p = x.problem;
  std::vector<MaskStats> const stats = run_stats(x, rule, words);
  std::vector<MaskStats> const wanted =
      reference::mask_stats(p, rule, x.q.storage().data(), x.k.storage().data(), view_of(words));
  REQUIRE(stats.size() == wanted.size());
  std::int64_t slack_pairs = 0;
  for (std::size_t h = 0; h < stats.size(); ++h) {
    CAPTURE(h, p.heads, p.q_tokens, p.kv_tokens, rule.top_k, rule.top_p);
    Slack const slack = slack_of(x, rule, static_cast<std::int64_t>(h));
    slack_pairs += slack.pairs;
    MaskStats const &is = stats[h], &should = wanted[h];
    CHECK(is.kept_pairs == should.kept_pairs);
    CHECK(is.all_pairs == should.all_pairs);
    CHECK(std::abs(is.owed_to_both - should.owed_to_both) <= slack.pairs);
    CHECK(std::abs(is.owed_to_top_k - should.owed_to_top_k) <= slack.pairs);
    CHECK(std::abs(is.owed_to_top_p - should.owed_to_top_p) <= slack.pairs);
    CHECK(std::abs(is.owed_to_force - should.owed_to_force) <= slack.pairs);
    CHECK(is.owed_to_both + is.owed_to_top_k + is.owed_to_top_p + is.owed_to_force == is.kept_pairs);
    CHECK(std::abs(is.pooled_mass - should.pooled_mass) <= slack.mass);
  }
  CHECK(20 * slack_pairs <= std::max<std::int64_t>(mask_rows(p), 20));  // else the comparison means little
}

}  // namespace

TEST_CASE("U58 stats of selected masks tell which rule each block is owed to", "[gpu]") {
  SKIP_WITHOUT_GPU();
  for (AttentionProblem const& p : problems()) {
    PooledInputs const x = make_pooled(p, PooledKind::clustered, 3);
    MaskRule rule = rule_of(0.05, 0.3);
    check_stats(x, rule, run_select(x, rule));
    rule.keep = {70, 10, 100, 130, 1};
    check_stats(x, rule, run_select(x, rule));
  }
}

TEST_CASE("stats of masks that no rule made", "[gpu]") {
  SKIP_WITHOUT_GPU();
  for (AttentionProblem const& p : problems()) {
    PooledInputs const x = make_pooled(p, PooledKind::gaussian, 5);
    Random random(7);
    MaskRule const rule = rule_of(0.1, 0.4);
    check_stats(x, rule, uneven_mask(p, random));
    check_stats(x, rule, full_mask(p));
    check_stats(x, rule, MaskWords(words_of(p), 0));
  }
}

TEST_CASE("U31 stats do not see padding bits", "[gpu]") {
  SKIP_WITHOUT_GPU();
  for (AttentionProblem const& p : problems()) {
    PooledInputs const x = make_pooled(p, PooledKind::gaussian, 9);
    Random random(11);
    MaskWords words = random_mask(p, random, 0.3);
    dirty_padding(p, words);
    check_stats(x, rule_of(0.1, 0.4), words);
  }
}

TEST_CASE("the full mask keeps all of the mass and the empty one none", "[gpu]") {
  SKIP_WITHOUT_GPU();
  for (AttentionProblem const& p : problems()) {
    PooledInputs const x = make_pooled(p, PooledKind::heavy_tailed, 13);
    for (MaskStats const& s : run_stats(x, rule_of(0.1, 0.4), full_mask(p))) {
      CHECK(s.pooled_mass == Approx(1).epsilon(1e-12));
      CHECK(s.kept_pairs == s.all_pairs);
    }
    for (MaskStats const& s : run_stats(x, rule_of(0.1, 0.4), MaskWords(words_of(p), 0))) {
      CHECK(s.pooled_mass == 0);
      CHECK(s.kept_pairs == 0);
      CHECK(s.all_pairs == p.q_blocks() * p.kv_blocks());
    }
  }
}

TEST_CASE("U53 stats count ties as selection does", "[gpu]") {
  SKIP_WITHOUT_GPU();
  PooledInputs const x = make_pooled({1, 2, 2, 600, 64 * 512, 64}, PooledKind::constant);
  MaskRule const rule = rule_of(0.2, 0.1);  // 103 by top_k, 52 by top_p
  MaskWords const words = run_select(x, rule);
  for (MaskStats const& s : run_stats(x, rule, words)) {
    std::int64_t const rows = x.problem.q_blocks();
    CHECK(s.kept_pairs == 103 * rows);
    CHECK(s.owed_to_both == 52 * rows);
    CHECK(s.owed_to_top_k == 51 * rows);
    CHECK(s.owed_to_top_p == 0);
    CHECK(s.owed_to_force == 0);
    CHECK(s.pooled_mass == Approx(103.0 / 512).epsilon(1e-9));
  }
}

TEST_CASE("U61 a block that is forced and chosen is counted once", "[gpu]") {
  SKIP_WITHOUT_GPU();
  PooledInputs const x = make_pooled({1, 1, 1, 256, 64 * 10, 64}, PooledKind::constant);
  MaskRule rule = rule_of(0.3, 0);     // blocks 0, 1, 2
  rule.keep.kv_front_tokens = 64 + 1;  // blocks 0, 1
  rule.keep.kv_back_tokens = 64;       // block 9
  for (MaskStats const& s : run_stats(x, rule, run_select(x, rule))) {
    CHECK(s.kept_pairs == 2 * 4);
    CHECK(s.owed_to_top_k == 2 * 3);
    CHECK(s.owed_to_force == 2 * 1);
  }
}

TEST_CASE("shares of a head are counted with the head", "[gpu]") {
  SKIP_WITHOUT_GPU();
  PooledInputs const x = make_pooled({2, 4, 2, 700, 64 * 100 - 5, 64}, PooledKind::gaussian, 17);
  std::vector<float> const top_k = {0, 0.5f, 1, std::numeric_limits<float>::quiet_NaN()};
  std::vector<float> const top_p = {0.5f, std::numeric_limits<float>::quiet_NaN(), 0, 2};
  MaskRule rule = rule_of(0.07, 0.35);
  rule.top_k_of_head = top_k.data(), rule.top_p_of_head = top_p.data();
  check_stats(x, rule, run_select(x, rule));
}

TEST_CASE("U64 stats count by the rule's min_blocks and weigh by the problem's scale", "[gpu]") {
  SKIP_WITHOUT_GPU();
  PooledInputs const x = with_masses({0.15, 0.60, 0.25});  // at scale 1
  MaskRule const rule = rule_of(0, 0.5, 2);                // blocks 1 and 2, and block 1
  for (MaskStats const& s : run_stats(x, rule, run_select(x, rule))) {
    CHECK(s.kept_pairs == 2);
    CHECK(s.owed_to_both == 1);
    CHECK(s.owed_to_top_k == 1);
    CHECK(s.owed_to_top_p == 0);
    CHECK(s.owed_to_force == 0);
    CHECK(s.pooled_mass == Approx(0.85).epsilon(1e-5));
  }
}

TEST_CASE("U33 stats of rows of NaN have no mass", "[gpu]") {
  SKIP_WITHOUT_GPU();
  PooledInputs x = make_pooled({1, 2, 1, 300, 64 * 40, 64}, PooledKind::gaussian, 19);
  fill_constant(x.q, std::numeric_limits<double>::quiet_NaN());
  MaskRule const rule = rule_of(0.1, 0.9);
  for (MaskStats const& s : run_stats(x, rule, run_select(x, rule))) {
    CHECK(s.kept_pairs == 4 * x.problem.q_blocks());
    CHECK(s.owed_to_top_k == s.kept_pairs);
    CHECK(s.pooled_mass == 0);
  }
}

TEST_CASE("rows of 4000 blocks are counted from scratch memory", "[gpu]") {
  SKIP_WITHOUT_GPU();
  PooledInputs const x = make_pooled({1, 2, 1, 200, 64 * 4000 - 3, 64}, PooledKind::clustered, 23);
  MaskRule const rule = rule_of(0.05, 0.6);
  check_stats(x, rule, run_select(x, rule));
}

TEST_CASE("stats of many small heads in chunks", "[gpu]") {
  SKIP_WITHOUT_GPU();
  PooledInputs const x = make_pooled({2100, 1, 1, 100, 300, 64}, PooledKind::gaussian, 29);
  CHECK(RowLayout::of(x.problem, test_device()).chunk_tiles < RowLayout::of(x.problem, test_device()).tiles);
  MaskRule const rule = rule_of(0.4, 0.2);
  MaskWords const words = run_select(x, rule);
  std::vector<MaskStats> const stats = run_stats(x, rule, words);
  for (std::size_t h = 0; h < stats.size(); ++h) {
    CHECK(stats[h].kept_pairs == count_row(x.problem, words, static_cast<std::int64_t>(h)));
    CHECK(stats[h].all_pairs == 5);
  }
}

TEST_CASE("stats are the same bits in every run", "[gpu]") {
  SKIP_WITHOUT_GPU();
  PooledInputs const x = make_pooled({2, 4, 2, 3000, 2100, 64}, PooledKind::gaussian, 31);
  MaskRule const rule = rule_of(0.05, 0.3);
  MaskWords const words = run_select(x, rule);
  std::vector<MaskStats> const first = run_stats(x, rule, words);
  for (int run = 0; run < 5; ++run) {
    std::vector<MaskStats> const again = run_stats(x, rule, words);
    for (std::size_t h = 0; h < first.size(); ++h) {
      CHECK(again[h].pooled_mass == first[h].pooled_mass);
      CHECK(again[h].owed_to_top_p == first[h].owed_to_top_p);
    }
  }
}

TEST_CASE("U05 stats of no query or no key are zeros that are written", "[gpu]") {
  SKIP_WITHOUT_GPU();
  for (AttentionProblem const& p :
       {AttentionProblem{2, 2, 1, 0, 100, 64}, AttentionProblem{2, 2, 1, 100, 0, 64}}) {
    std::vector<MaskStats> const stats = run_stats(PooledInputs(p), rule_of(0.5, 0.5), {});
    REQUIRE(stats.size() == 4);
    for (MaskStats const& s : stats) {
      CHECK((s.kept_pairs == 0 && s.all_pairs == 0 && s.owed_to_both == 0 && s.owed_to_top_k == 0));
      CHECK((s.owed_to_top_p == 0 && s.owed_to_force == 0 && s.pooled_mass == 0));
    }
  }
  CHECK(run_stats(PooledInputs({0, 2, 1, 100, 100, 64}), rule_of(0.5, 0.5), {}).empty());
}
