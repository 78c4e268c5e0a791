/// Selection against the f64 reference on the same pooled vectors, ties and special values included.

#include <cmath>
#include <limits>

#include "op/mask_band.hpp"
#include "op/mask_rows.hpp"
#include "sparge/plan/mask_config.hpp"
#include "sparge/sparge.hpp"
#include "support/catch.hpp"
#include "support/gpu.hpp"

using namespace sparge;
using namespace sparge::test;

namespace {

constexpr float infinity_f = std::numeric_limits<float>::infinity();
constexpr float nan_f = std::numeric_limits<float>::quiet_NaN();

/// Tails on both axes, grouped heads, more keys than queries and the reverse, every mask block.
std::vector<AttentionProblem> problems() {
  return {{1, 1, 1, 1, 1, 64},
          {2, 4, 2, 300, 2100, 64},
          {1, 6, 1, 4097, 500, 128},
          {2, 2, 2, 129, 8191, 128, 64, 64},
          {1, 8, 2, 1000, 4160, 64, 128, 128},
          {3, 3, 3, 513, 3001, 128, 64, 128},
          {1, 12, 4, 8200, 8200, 64, 128, 64}};
}

std::vector<MaskRule> rules() {
  std::vector<MaskRule> all = {rule_of(0.03, 0.2), rule_of(0.1, 0), rule_of(0, 0.9, 0),
                               rule_of(0.5, 0.05, 3)};
  all.push_back(rule_of(0.05, 0.3));
  all.back().keep = {70, 10, 100, 130, 1};
  return all;
}

}  // namespace

// ---- Against the reference -----------------------------------------------------------------------------------------

TEST_CASE("random and clustered rows are those of the reference", "[gpu]") {
  SKIP_WITHOUT_GPU();
  for (PooledKind kind : {PooledKind::gaussian, PooledKind::clustered}) {
    RowVerdict all;
    for (AttentionProblem const& p : problems()) {
      PooledInputs const x = make_pooled(p, kind, 3);
      for (MaskRule const& rule : rules()) all.add(check_rows(x, rule, run_select(x, rule)));
    }
    check_few_excused(all);
  }
}

TEST_CASE("U08 rows with common offsets and heavy tails are those of the reference", "[gpu]") {
  SKIP_WITHOUT_GPU();
  for (PooledKind kind : {PooledKind::common_offset, PooledKind::heavy_tailed}) {
    RowVerdict all;
    for (AttentionProblem const& p : problems()) {
      PooledInputs const x = make_pooled(p, kind, 5);
      for (MaskRule const& rule : rules()) all.add(check_rows(x, rule, run_select(x, rule)));
    }
    check_few_excused(all);
  }
}

TEST_CASE("rows made of exact ties are those of the reference block by block", "[gpu]") {
  SKIP_WITHOUT_GPU();
  for (AttentionProblem p : problems()) {
    p.kv_tokens = 64 * p.kv_block;  // 64 blocks: their mean is exact, and so is every score
    p.scale = 0.125f;
    PooledInputs const x = make_pooled(p, PooledKind::ties, 7);
    for (MaskRule const& rule : {rule_of(0.3, 0), rule_of(0.01, 0), rule_of(0.75, 0, 9)})
      CHECK(run_select(x, rule) ==
            reference::select_blocks(p, rule, x.q.storage().data(), x.k.storage().data()));
  }
}

TEST_CASE("rows of 1 and 31 and 32 and 33 and 1182 blocks are those of the reference", "[gpu]") {
  SKIP_WITHOUT_GPU();
  RowVerdict all;
  for (std::int64_t blocks : {1, 2, 31, 32, 33, 63, 64, 65, 127, 128, 129, 1182})
    for (std::int64_t tail : {0, 7}) {
      AttentionProblem const p{1, 4, 2, 1290, 64 * blocks - tail, 128};
      PooledInputs const x = make_pooled(p, PooledKind::clustered, 11);
      for (MaskRule const& rule : rules()) all.add(check_rows(x, rule, run_select(x, rule)));
    }
  check_few_excused(all);
}

TEST_CASE("U75 U77 rows of 16384 blocks are those of the reference and are scored in chunks", "[gpu]") {
  SKIP_WITHOUT_GPU();
  AttentionProblem const p{1, 17, 17, 200, 64 * 16384 - 3, 64};
  RowLayout const layout = RowLayout::of(p, test_device());
  CHECK(layout.chunk_tiles < layout.tiles);
  CHECK_FALSE(layout.in_shared);
  PooledInputs const x = make_pooled(p, PooledKind::gaussian, 13);
  RowVerdict all;
  for (MaskRule const& rule : {rule_of(0.03, 0.2), rule_of(0, 0.7, 0)})
    all.add(check_rows(x, rule, run_select(x, rule)));
  check_few_excused(all);
}

TEST_CASE("U72 U73 more than 65535 heads or batch items are selected in chunks", "[gpu]") {
  SKIP_WITHOUT_GPU();
  for (AttentionProblem const& p :
       {AttentionProblem{65536, 1, 1, 64, 129, 64}, AttentionProblem{1, 65537, 65537, 64, 129, 64}}) {
    RowLayout const layout = RowLayout::of(p, test_device());
    CHECK(layout.chunk_tiles < layout.tiles);
    PooledInputs const x = make_pooled(p, PooledKind::gaussian, 19);
    check_few_excused(check_rows(x, rule_of(0.4, 0.2), run_select(x, rule_of(0.4, 0.2))));
  }
}

TEST_CASE("U75 48 heads of 768 key blocks are those of the reference", "[gpu]") {
  SKIP_WITHOUT_GPU();
  AttentionProblem const p{1, 48, 48, 49152, 49152, 64};
  PooledInputs const x = make_pooled(p, PooledKind::clustered, 23);
  MaskRule const rule = rule_of(0.03, 0.2);
  check_few_excused(check_rows(x, rule, run_select(x, rule), 37));
}

TEST_CASE("rows ranked in scratch are those held in registers", "[gpu]") {
  SKIP_WITHOUT_GPU();
  Device device = test_device();
  device.shared_bytes_per_block = 0;
  for (AttentionProblem const& p : problems()) {
    CHECK_FALSE(RowLayout::of(p, device).in_registers);
    CHECK_FALSE(RowLayout::of(p, device).in_shared);
    CHECK(RowLayout::of(p, test_device()).in_registers);
    for (PooledKind kind : {PooledKind::clustered, PooledKind::ties}) {
      PooledInputs const x = make_pooled(p, kind, 29);
      for (MaskRule const& rule : rules()) CHECK(run_select(x, rule, device) == run_select(x, rule));
    }
  }
}

// ---- Ties ----------------------------------------------------------------------------------------------------------

TEST_CASE("U53 equal scores go to the lowest indices in every run", "[gpu]") {
  SKIP_WITHOUT_GPU();
  PooledInputs const x = make_pooled({1, 2, 2, 300, 64 * 512, 128}, PooledKind::constant);
  std::vector<std::int64_t> first;
  for (std::int64_t j = 0; j < 103; ++j) first.push_back(j);
  MaskWords const words = run_select(x, rule_of(0.2, 0));
  for (std::int64_t row = 0; row < mask_rows(x.problem); ++row)
    CHECK(row_bits(x.problem, words, row) == only(512, first));
  for (int run = 0; run < 50; ++run) CHECK(run_select(x, rule_of(0.2, 0)) == words);
}

TEST_CASE("U53 a pair of equal scores across the cut gives its lower index", "[gpu]") {
  SKIP_WITHOUT_GPU();
  std::vector<double> scores(512);
  for (std::int64_t j = 0; j < 512; ++j)
    scores[j] = static_cast<double>((7 * (j / 2)) % 256);  // each value twice
  PooledInputs const x = with_scores(scores, 300);
  MaskWords const words = run_select(x, rule_of(103.0 / 512, 0));
  CHECK(words == reference::select_blocks(x.problem, rule_of(103.0 / 512, 0), x.q.storage().data(),
                                          x.k.storage().data()));
  CHECK(every_row_keeps(x.problem, words, 103));
  for (int run = 0; run < 50; ++run) CHECK(run_select(x, rule_of(103.0 / 512, 0)) == words);
}

TEST_CASE("zeros of either sign are equal", "[gpu]") {
  SKIP_WITHOUT_GPU();
  PooledInputs x = with_scores({0, 0, 0, 0, 0, 0});
  fill(x.q, [](auto, auto, auto, auto c) { return c == 0 ? -1.0 : 0.0; });  // scores of -0 and +0
  fill(x.k, [](auto, auto, auto, auto) { return 0.0; });
  for (std::int64_t j : {0, 3}) x.k.at(0, 0, j, 0) = -0.0f;
  CHECK(row_bits(x.problem, run_select(x, rule_of(0.5, 0)), 0) == only(6, {0, 1, 2}));
}

// ---- NaN and infinity ----------------------------------------------------------------------------------------------

TEST_CASE("U33 NaN in a pooled key or query leaves exact counts and one result", "[gpu]") {
  SKIP_WITHOUT_GPU();
  PooledInputs x = make_pooled({2, 4, 2, 700, 64 * 70 - 9, 64}, PooledKind::gaussian, 37);
  x.k.at(0, 1, 33, 5) = nan_f;  // a key of one head
  x.q.at(1, 2, 3, 63) = nan_f;  // one row
  MaskRule const rule = rule_of(0.1, 0);
  MaskWords const words = run_select(x, rule);
  CHECK(every_row_keeps(x.problem, words, 7));
  CHECK(padding_is_zero(x.problem, words));
  check_few_excused(check_rows(x, rule, words));
  for (int run = 0; run < 10; ++run) CHECK(run_select(x, rule) == words);
}

TEST_CASE("U33 a row of NaN keeps the lowest indices by top_k and none by top_p", "[gpu]") {
  SKIP_WITHOUT_GPU();
  for (std::int64_t blocks : {1, 5, 33, 2000, 4000}) {
    PooledInputs x = gaussian_row(blocks);
    fill_constant(x.q, nan_f);
    CHECK(every_row_keeps(x.problem, run_select(x, rule_of(0, 1, 0)), 0));
    CHECK(every_row_keeps(x.problem, run_select(x, rule_of(0, 0.5, 0)), 0));
    CHECK(row_bits(x.problem, run_select(x, rule_of(0, 0.5, 1)), 0) == only(blocks, {0}));
    CHECK(run_select(x, rule_of(1, 0)) == full_mask(x.problem));
  }
}

TEST_CASE("U33 infinite scores share the mass and go before finite ones", "[gpu]") {
  SKIP_WITHOUT_GPU();
  PooledInputs x = with_scores({1, -1, 2, -2, 3, -3, 0.5, -0.5});  // their mean is 0, so signs stay
  x.q.at(0, 0, 0, 0) = infinity_f;
  fill(x.k,
       [&](auto, auto, auto j, auto c) { return c == 0 ? (j % 2 == 0 ? 1.0 : -1.0) * (1 + j / 2) : 1.0; });
  // Every block scores +inf or -inf in channel 0; the other channels add 0 * 0.
  CHECK(row_bits(x.problem, run_select(x, rule_of(0, 0.5, 0)), 0) == only(8, {0, 2}));
  CHECK(row_bits(x.problem, run_select(x, rule_of(0, 0.51, 0)), 0) == only(8, {0, 2, 4}));
  CHECK(row_bits(x.problem, run_select(x, rule_of(0, 0.999, 0)), 0) == only(8, {0, 2, 4, 6}));
  CHECK(row_bits(x.problem, run_select(x, rule_of(0.625, 0)), 0) == only(8, {0, 1, 2, 4, 6}));
  CHECK(run_select(x, rule_of(0, 1, 0)) == full_mask(x.problem));
  for (MaskRule const& rule : {rule_of(0.3, 0.4), rule_of(0, 0.2, 0), rule_of(0.9, 0.9)})
    CHECK(run_select(x, rule) ==
          reference::select_blocks(x.problem, rule, x.q.storage().data(), x.k.storage().data()));
}

TEST_CASE("U33 rows that are not finite are the same held in registers and ranked in scratch", "[gpu]") {
  SKIP_WITHOUT_GPU();
  Device device = test_device();
  device.shared_bytes_per_block = 0;
  for (std::int64_t blocks : {40, 500, 1182, 2000}) {
    PooledInputs x = make_pooled({1, 3, 3, 900, 64 * blocks - 7, 128}, PooledKind::clustered, 41);
    x.q.at(0, 0, 1, 5) = nan_f, x.q.at(0, 0, 2, 7) = infinity_f, x.q.at(0, 0, 3, 0) = -infinity_f;
    x.q.at(0, 0, 4, 9) = 1e38f, x.q.at(0, 0, 5, 1) = 3e38f;
    x.k.at(0, 1, blocks / 2, 3) = infinity_f;  // every score of the head is plain
    x.k.at(0, 2, blocks - 1, 6) = nan_f;
    for (MaskRule const& rule : rules()) {
      MaskWords const words = run_select(x, rule);
      CHECK(run_select(x, rule, device) == words);
      CHECK(padding_is_zero(x.problem, words));
    }
  }
}

TEST_CASE("most of a row is kept as the reference keeps it", "[gpu]") {
  SKIP_WITHOUT_GPU();
  for (PooledKind kind : {PooledKind::gaussian, PooledKind::heavy_tailed, PooledKind::constant}) {
    RowVerdict all;
    for (std::int64_t blocks : {90, 512, 1182, 2600}) {
      PooledInputs const x = make_pooled({1, 2, 1, 600, 64 * blocks - 1, 64}, kind, 43);
      for (MaskRule const& rule : {rule_of(0.97, 0.2), rule_of(0, 0.99, 0), rule_of(1, 0), rule_of(0, 1, 0)})
        all.add(check_rows(x, rule, run_select(x, rule)));
    }
    if (kind != PooledKind::constant) check_few_excused(all);
  }
}

TEST_CASE("U24 U26 scores of a million are ordered and their softmax is one-hot", "[gpu]") {
  SKIP_WITHOUT_GPU();
  std::vector<double> scores;
  for (std::int64_t j = 0; j < 200; ++j) scores.push_back(1e4 * static_cast<double>((37 * j) % 200) - 1e6);
  PooledInputs const x = with_scores(scores, 200);
  for (double top_p : {1e-6, 0.5, 0.999999})
    CHECK(every_row_keeps(x.problem, run_select(x, rule_of(0, top_p, 0)), 1));
  check_few_excused(check_rows(x, rule_of(0.1, 0), run_select(x, rule_of(0.1, 0))));
}

// ---- Nothing to do -------------------------------------------------------------------------------------------------

TEST_CASE("U05 no batch item and no query and no key are selected without touching anything", "[gpu]") {
  SKIP_WITHOUT_GPU();
  for (AttentionProblem const& p :
       {AttentionProblem{0, 2, 1, 100, 100, 64}, AttentionProblem{2, 2, 1, 0, 100, 64},
        AttentionProblem{2, 2, 1, 100, 0, 64}}) {
    CHECK(run_select(PooledInputs(p), rule_of(0.5, 0.5)).empty());
    HostTensor<bfloat16> const q(q_shape(p)), k(kv_shape(p));
    CHECK(run_build_mask(p, q, k, rule_of(0.5, 0.5)).empty());
  }
}
