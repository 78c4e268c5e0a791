/// The selection rule of the reference, case by case.

#include <cmath>
#include <limits>
#include <set>

#include "sparge/reference/mask.hpp"
#include "support/catch.hpp"
#include "support/random.hpp"

using namespace sparge;
using namespace sparge::test;
using reference::count_top_k;
using reference::count_top_p;

namespace {

constexpr double nan_value = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();

std::vector<double> cumulative_of(std::vector<double> const& mass) {
  std::vector<double> sums;
  double sum = 0;
  for (double m : mass) sums.push_back(sum += m);
  return sums;
}

/// Pooled vectors with one channel that carries the score: pooled_q = 1, pooled_k = score, scale 1.
struct Row {
  AttentionProblem p;
  std::vector<double> q, k;

  explicit Row(std::vector<double> scores) : k(std::move(scores)) {
    p = {1, 1, 1, 1, 64 * static_cast<std::int64_t>(k.size()), 1, 128, 64, 1.0f};
    q = {1};
  }
  reference::RowSelection select(MaskRule const& rule) const {
    return reference::BlockSelector(p, rule, q.data(), k.data()).row(0, 0, 0);
  }
};

MaskRule rule_of(double top_k, double top_p, std::int32_t min_blocks = 1) {
  MaskRule rule;
  rule.top_k = top_k, rule.top_p = top_p, rule.min_blocks = min_blocks;
  return rule;
}

std::set<std::int64_t> kept_set(reference::RowSelection const& row) {
  std::set<std::int64_t> kept;
  std::vector<bool> const bits = row.kept();
  for (std::size_t j = 0; j < bits.size(); ++j)
    if (bits[j]) kept.insert(static_cast<std::int64_t>(j));
  return kept;
}

std::vector<std::uint32_t> gaussian_mask(AttentionProblem const& p, MaskRule const& rule,
                                         std::uint64_t seed = 1) {
  Random random(seed);
  HostTensor<bfloat16> q(q_shape(p)), k(kv_shape(p));
  fill_clustered(q, k, random, 64);
  return reference::build_mask(p, rule, q.view(), k.view());
}

bool contains(MaskWords const& outer, MaskWords const& inner) {
  for (std::size_t w = 0; w < outer.size(); ++w)
    if (inner[w] & ~outer[w]) return false;
  return true;
}

}  // namespace

TEST_CASE("U50 a share is of the padded block count and rounds up") {
  CHECK(count_top_k(0.2, 1, 512) == 103);
  CHECK(count_top_k(0.03, 1, 512) == 16);
  CHECK(count_top_k(0.03, 1, 1182) == 36);
  AttentionProblem const p{1, 1, 1, 200, 32760, 64};
  CHECK(count_kept(gaussian_mask(p, rule_of(0.2, 0))) == 2 * 103);
}

TEST_CASE("U51 a share below one block keeps one block") {
  CHECK(count_top_k(0.4, 1, 2) == 1);
  CHECK(count_top_k(0.0, 1, 2) == 1);
  CHECK(count_top_k(0.0, 0, 2) == 0);
}

TEST_CASE("U52 a demand beyond the blocks there are keeps them all") {
  CHECK(count_top_k(0.0, 16, 2) == 2);
  CHECK(count_top_k(1.0, 16, 2) == 2);
  CHECK(count_top_k(1.0, 1, 0) == 0);
  AttentionProblem const p{1, 1, 1, 100, 100, 64};
  CHECK(gaussian_mask(p, rule_of(0, 0, 16)) == reference::full_mask(p));
}

TEST_CASE("the rounding of a float share does not add a block") {
  for (std::int64_t blocks = 1; blocks < 3000; ++blocks)
    for (std::int64_t wanted : {std::int64_t{1}, blocks / 3, blocks - 1, blocks}) {
      float const share = static_cast<float>(wanted) / static_cast<float>(blocks);
      REQUIRE(count_top_k(share, 0, blocks) == wanted);
    }
}

TEST_CASE("U53 ties go to the lower index") {
  Row const all_equal(std::vector<double>(512, 0.25));
  auto const row = all_equal.select(rule_of(0.2, 0));
  std::set<std::int64_t> expected;
  for (std::int64_t j = 0; j < 103; ++j) expected.insert(j);
  CHECK(kept_set(row) == expected);

  Row const pairs({3, 1, 2, 2, 1, 3, -0.0, 0.0});
  CHECK(pairs.select(rule_of(0.5, 0)).order == std::vector<std::int64_t>{0, 5, 2, 3, 1, 4, 6, 7});
}

TEST_CASE("U54 a mass of 1 keeps everything") {
  std::size_t const blocks = GENERATE(1, 2, 3, 1182);
  Random random(2);
  std::vector<double> scores(blocks);
  for (double& s : scores) s = 30 * random.gaussian();
  auto const row = Row(scores).select(rule_of(0, 1));
  CHECK(row.n_p == static_cast<std::int64_t>(blocks));
  CHECK(kept_set(row).size() == blocks);
}

TEST_CASE("U55 the block that crosses is kept, and an exact prefix needs no more") {
  auto const cumulative = cumulative_of({0.60, 0.25, 0.15});
  CHECK(count_top_p(0.80, cumulative) == 2);
  CHECK(count_top_p(0.60, cumulative) == 1);
  CHECK(count_top_p(std::nextafter(0.60, 1), cumulative) == 2);
  CHECK(count_top_p(1e-9, cumulative) == 1);
  CHECK(count_top_p(0, cumulative) == 0);
  CHECK(count_top_p(-1, cumulative) == 0);
  CHECK(count_top_p(2, cumulative) == 3);
}

TEST_CASE("U56 many small masses add up") {
  auto const uniform = Row(std::vector<double>(8192, 0.0)).select(rule_of(0, 0.5));
  CHECK(std::abs(uniform.n_p - 4096) <= 1);
  std::vector<double> mass(700001, 1e-6);
  mass[0] = 0.3;
  CHECK(std::abs(count_top_p(0.5, cumulative_of(mass)) - 200001) <= 1);
}

TEST_CASE("U38 tiny problems keep one block") {
  AttentionProblem const p{1, 1, 1, 5, 3, 64};
  CHECK(gaussian_mask(p, rule_of(0.01, 0)) == MaskWords{1});
}

TEST_CASE("U58 what is kept follows what is asked") {
  AttentionProblem const p{1, 1, 1, 1024, 1024, 64};
  std::int64_t last = 0;
  for (double top_k : {0.1, 0.3, 0.6, 1.0}) {
    std::int64_t const kept = count_kept(gaussian_mask(p, rule_of(top_k, 0)));
    CHECK(kept == 8 * count_top_k(top_k, 1, 16));
    CHECK(kept > last);
    last = kept;
  }
}

TEST_CASE("masks grow with top_k and with top_p") {
  AttentionProblem const p{1, 2, 1, 700, 900, 64};
  for (double smaller : {0.0, 0.1, 0.35, 0.8}) {
    CHECK(contains(gaussian_mask(p, rule_of(smaller + 0.2, 0.3)), gaussian_mask(p, rule_of(smaller, 0.3))));
    CHECK(contains(gaussian_mask(p, rule_of(0.1, smaller + 0.2)), gaussian_mask(p, rule_of(0.1, smaller))));
  }
}

TEST_CASE("the choice is the longer of the two prefixes") {
  Row const row({5, 4, 3, 2, 1, 0});
  for (double top_k : {0.1, 0.5, 0.9})
    for (double top_p : {0.1, 0.7, 0.95}) {
      auto const selection = row.select(rule_of(top_k, top_p));
      CHECK(selection.cut() == std::max(selection.n_k, selection.n_p));
      CHECK(static_cast<std::int64_t>(kept_set(selection).size()) == selection.cut());
    }
}

TEST_CASE("centring moves every score of a row by the same amount") {
  Row const plain({5, 4, 3, 2}), offset({1005, 1004, 1003, 1002});
  auto const a = plain.select(rule_of(0.5, 0.2)), b = offset.select(rule_of(0.5, 0.2));
  for (int j = 0; j < 4; ++j) {
    CHECK(a.scores[j] == 1.5 - j);
    CHECK(b.scores[j] == a.scores[j]);
    CHECK(a.probabilities[j] == b.probabilities[j]);
  }
}

TEST_CASE("U33 a NaN score comes last, has no mass, and selection still counts right") {
  CHECK(reference::order_of({nan_value, 1, nan_value, -infinity, 2}) ==
        std::vector<std::int64_t>{4, 1, 3, 0, 2});
  auto const mass = reference::softmax_of({nan_value, 1, 1, nan_value});
  CHECK(mass == std::vector<double>{0, 0.5, 0.5, 0});
  // One NaN key makes the mean, and with it every score of the head, NaN: the first blocks are kept.
  auto const row = Row({1, nan_value, 3, 4, 5}).select(rule_of(0.5, 0.9));
  CHECK(row.n_k == 3);
  CHECK(row.n_p == 0);
  CHECK(kept_set(row) == std::set<std::int64_t>{0, 1, 2});
  CHECK(Row({nan_value, 1}).select(rule_of(0, 1, 0)).n_p == 0);
}

TEST_CASE("scores of +inf share the mass equally") {
  CHECK(reference::softmax_of({1, infinity, 2, infinity}) == std::vector<double>{0, 0.5, 0, 0.5});
  CHECK(reference::softmax_of({-infinity, -infinity}) == std::vector<double>{0.5, 0.5});
  CHECK(reference::softmax_of({}).empty());
}

TEST_CASE("shares per head replace the scalar, are clamped, and NaN means the scalar") {
  AttentionProblem const p{1, 4, 2, 128, 640, 64};
  float const top_k[] = {0.5f, -3.0f, 7.0f, std::numeric_limits<float>::quiet_NaN()};
  MaskRule rule = rule_of(0.2, 0);
  rule.top_k_of_head = top_k;
  MaskWords const words = gaussian_mask(p, rule);
  std::int64_t const expected[] = {5, 1, 10, 2};
  for (int h = 0; h < 4; ++h) CHECK(count_kept({words[h]}) == expected[h]);

  float const top_p[] = {1.0f, 0.0f, 2.0f, std::numeric_limits<float>::quiet_NaN()};
  rule = rule_of(0, 0);
  rule.top_p_of_head = top_p;
  MaskWords const by_p = gaussian_mask(p, rule);
  std::int64_t const expected_p[] = {10, 1, 10, 1};
  for (int h = 0; h < 4; ++h) CHECK(count_kept({by_p[h]}) == expected_p[h]);
}

TEST_CASE("U60 text before and after the video is kept, wherever it lies in a block") {
  AttentionProblem const p{1, 1, 1, 128 * 4 + 16, 64 * 8 + 16, 64};
  KeepRule keep;
  keep.kv_front_tokens = 65;
  keep.kv_back_tokens = 17;
  for (int i = 0; i < 5; ++i)
    for (int j = 0; j < 9; ++j)
      CHECK(reference::is_forced(p, keep, i, j) == (j == 0 || j == 1 || j == 7 || j == 8));
  keep = {};
  keep.kv_back_tokens = 16;
  CHECK_FALSE(reference::is_forced(p, keep, 0, 7));
  CHECK(reference::is_forced(p, keep, 0, 8));
  keep = {};
  keep.dense_q_front_tokens = 1;
  keep.dense_q_back_tokens = 17;
  for (int i = 0; i < 5; ++i) CHECK(reference::is_forced(p, keep, i, 4) == (i == 0 || i == 3 || i == 4));
}

TEST_CASE("a band keeps the block pairs that hold a token pair within it") {
  auto const p = GENERATE(AttentionProblem{1, 1, 1, 300, 300, 64}, AttentionProblem{1, 1, 1, 130, 400, 64},
                          AttentionProblem{1, 1, 1, 400, 70, 64});
  KeepRule keep;
  keep.band_tokens = GENERATE(-1, 0, 1, 63, 64, 200);
  for (std::int64_t i = 0; i < p.q_blocks(); ++i)
    for (std::int64_t j = 0; j < p.kv_blocks(); ++j) {
      auto const rows = reference::block_tokens(i, p.q_block, p.q_tokens);
      auto const keys = reference::block_tokens(j, p.kv_block, p.kv_tokens);
      bool expected = false;
      for (std::int64_t q = rows.begin; q < rows.end; ++q)
        for (std::int64_t k = keys.begin; k < keys.end; ++k)
          expected = expected || std::abs(k - q - (p.kv_tokens - p.q_tokens)) <= keep.band_tokens;
      CHECK(reference::is_forced(p, keep, i, j) == expected);
    }
}

TEST_CASE("U61 forced blocks are added to the choice and an overlap counts once") {
  AttentionProblem const p{1, 1, 1, 256, 64 * 20, 64};
  MaskRule rule = rule_of(0.25, 0);
  MaskWords const chosen = gaussian_mask(p, rule);
  rule.keep.kv_front_tokens = 4 * 64;
  MaskWords const with_text = gaussian_mask(p, rule);
  for (std::size_t w = 0; w < chosen.size(); ++w) CHECK(with_text[w] == (chosen[w] | 0xFu));
}

TEST_CASE("U58 statistics say which rule owes each pair") {
  AttentionProblem const p{1, 2, 1, 300, 700, 64};
  Random random(3);
  HostTensor<bfloat16> q(q_shape(p)), k(kv_shape(p));
  fill_clustered(q, k, random, 64);
  auto const pooled_q = reference::pool(q.view(), p.q_block),
             pooled_k = reference::pool(k.view(), p.kv_block);
  MaskRule rule = rule_of(0.3, 0.5);
  rule.keep.kv_back_tokens = 1;
  MaskWords words = reference::select_blocks(p, rule, pooled_q.data(), pooled_k.data());
  dirty_padding(p, words);
  auto const stats = reference::mask_stats(p, rule, pooled_q.data(), pooled_k.data(), view_of(words));
  reference::BlockSelector const selector(p, rule, pooled_q.data(), pooled_k.data());
  for (std::int64_t h = 0; h < 2; ++h) {
    MaskStats const& s = stats[h];
    std::int64_t both = 0, alone_k = 0, alone_p = 0, kept = 0;
    double mass = 0;
    for (std::int64_t i = 0; i < p.q_blocks(); ++i) {
      auto const row = selector.row(0, h, i);
      both += std::min(row.n_k, row.n_p);
      alone_k += std::max<std::int64_t>(row.n_k - row.n_p, 0);
      alone_p += std::max<std::int64_t>(row.n_p - row.n_k, 0);
      for (std::int64_t j : kept_set(row)) mass += row.probabilities[j] / p.q_blocks(), ++kept;
    }
    CHECK(s.owed_to_both == both);
    CHECK(s.owed_to_top_k == alone_k);
    CHECK(s.owed_to_top_p == alone_p);
    CHECK(s.owed_to_both + s.owed_to_top_k + s.owed_to_top_p + s.owed_to_force == s.kept_pairs);
    CHECK(s.kept_pairs == kept);
    CHECK(s.all_pairs == 3 * 11);
    CHECK(s.pooled_mass == Approx(mass));
  }
}

TEST_CASE("full_mask sets the blocks there are and no padding") {
  std::int64_t const blocks = GENERATE(0, 1, 31, 32, 33, 64, 65);
  AttentionProblem const p{2, 3, 1, 300, 64 * blocks, 64};
  CHECK(count_kept(reference::full_mask(p)) == 2 * 3 * 3 * blocks);
  CHECK(reference::full_mask(p) == full_mask(p));
}

TEST_CASE("mask words are bits in the documented order") {
  AttentionProblem const p{1, 2, 1, 256, 64 * 40, 64};
  MaskWords const words =
      make_mask(p, [](auto, auto h, auto i, auto j) { return h == 1 && i == 0 && j == 33; });
  CHECK(words == MaskWords{0, 0, 0, 0, 0, 2, 0, 0});
}
