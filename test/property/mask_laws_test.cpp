/// Laws that any selection and any conversion must obey, whatever the reference says.

#include <algorithm>
#include <numeric>

#include "op/mask_band.hpp"
#include "op/mask_runs.hpp"
#include "sparge/sparge.hpp"
#include "support/catch.hpp"
#include "support/gpu.hpp"

using namespace sparge;
using namespace sparge::test;

namespace {

std::vector<AttentionProblem> problems() {
  return {{2, 4, 2, 300, 2100, 64}, {1, 3, 1, 1000, 8191, 128, 64, 64}, {1, 2, 2, 517, 4100, 64, 128, 128}};
}

/// Words of a that have a bit that b has not.
std::int64_t count_outside(MaskWords const& a, MaskWords const& b) {
  std::int64_t outside = 0;
  for (std::size_t w = 0; w < a.size(); ++w) outside += (a[w] & ~b[w]) != 0;
  return outside;
}

template <class T>
struct QueriesAndKeys {
  HostTensor<T> q, k;
  explicit QueriesAndKeys(AttentionProblem const& p, std::uint64_t seed = 1) : q(q_shape(p)), k(kv_shape(p)) {
    Random random(seed);
    fill_clustered(q, k, random);
  }
};

template <class T>
void check_build_is_pool_and_select() {
  for (AttentionProblem const& p : problems()) {
    QueriesAndKeys<T> const x(p);
    PooledInputs const pooled = run_pool(p, x.q, x.k);
    MaskRule rule = rule_of(0.05, 0.3);
    CHECK(run_build_mask(p, x.q, x.k, rule) == run_select(pooled, rule));
    std::vector<float> const top_k{0.5f, 0, 0.1f, 1},
        top_p{0, 0.8f, 0.5f, 0.1f};  // heads enough for each problem
    rule.top_k_of_head = top_k.data(), rule.top_p_of_head = top_p.data();
    rule.min_blocks = 3, rule.keep = {70, 10, 100, 130, 1};
    CHECK(run_build_mask(p, x.q, x.k, rule) == run_select(pooled, rule));
  }
}

}  // namespace

TEST_CASE("a larger top_k keeps every block of a smaller one", "[gpu]") {
  SKIP_WITHOUT_GPU();
  for (AttentionProblem const& p : problems())
    for (PooledKind kind : {PooledKind::clustered, PooledKind::ties, PooledKind::heavy_tailed}) {
      PooledInputs const x = make_pooled(p, kind, 3);
      MaskWords smaller(words_of(p), 0);
      for (std::int64_t count = 0; count <= p.kv_blocks();
           count += std::max<std::int64_t>(1, p.kv_blocks() / 16)) {
        MaskWords const larger = run_select(x, rule_of(0, 0, static_cast<std::int32_t>(count)));
        CHECK(every_row_keeps(p, larger, count));
        CHECK(count_outside(smaller, larger) == 0);
        smaller = larger;
      }
    }
}

TEST_CASE("a larger top_p keeps every block of a smaller one", "[gpu]") {
  SKIP_WITHOUT_GPU();
  for (AttentionProblem const& p : problems())
    for (PooledKind kind : {PooledKind::clustered, PooledKind::ties, PooledKind::heavy_tailed}) {
      PooledInputs const x = make_pooled(p, kind, 5);
      MaskWords smaller(words_of(p), 0);
      for (double top_p : {0.0, 1e-9, 0.1, 0.16, 0.2, 0.5, 0.9, 0.999, 1 - 1e-9, 1.0}) {
        MaskWords const larger = run_select(x, rule_of(0, top_p, 0));
        CHECK(count_outside(smaller, larger) == 0);
        smaller = larger;
      }
      CHECK(smaller == full_mask(p));
    }
}

TEST_CASE("the hybrid mask is the union of its two parts and of the forced blocks", "[gpu]") {
  SKIP_WITHOUT_GPU();
  for (AttentionProblem const& p : problems()) {
    PooledInputs const x = make_pooled(p, PooledKind::clustered, 7);
    MaskRule forced = rule_of(0, 0, 0), all = rule_of(0.07, 0.4);
    forced.keep = all.keep = {1, 70, 150, 1, 0};
    MaskWords const by_k = run_select(x, rule_of(0.07, 0)), by_p = run_select(x, rule_of(0, 0.4, 0));
    MaskWords joined = run_select(x, forced);
    for (std::size_t w = 0; w < joined.size(); ++w) joined[w] |= by_k[w] | by_p[w];
    CHECK(run_select(x, all) == joined);
  }
}

TEST_CASE("permuted key blocks give the permuted mask", "[gpu]") {
  SKIP_WITHOUT_GPU();
  for (AttentionProblem const& p : problems()) {
    PooledInputs const x = make_pooled(p, PooledKind::gaussian, 9);
    std::vector<std::int64_t> from(static_cast<std::size_t>(p.kv_blocks()));
    std::iota(from.begin(), from.end(), std::int64_t{0});
    Random random(11);
    for (std::int64_t i = p.kv_blocks() - 1; i > 0; --i) std::swap(from[i], from[random.below(i + 1)]);
    PooledInputs permuted(p);
    permuted.q = x.q;
    permuted.k.for_each_index(
        [&](auto b, auto h, auto j, auto c) { permuted.k.at(b, h, j, c) = x.k.at(b, h, from[j], c); });
    MaskRule const rule = rule_of(0.1, 0.4);
    MaskWords const mask = run_select(x, rule), permuted_mask = run_select(permuted, rule);
    RowVerdict verdict;  // the mean of the keys may round differently: a near tie may fall otherwise
    for (std::int64_t row = 0; row < mask_rows(p); ++row) {
      std::vector<bool> const bits = row_bits(p, mask, row), other = row_bits(p, permuted_mask, row);
      bool same = true;
      for (std::int64_t j = 0; j < p.kv_blocks(); ++j) same = same && other[j] == bits[from[j]];
      ++verdict.rows, verdict.excused += !same;
    }
    check_few_excused(verdict);
  }
}

TEST_CASE("a common offset of all keys changes no mask", "[gpu]") {
  SKIP_WITHOUT_GPU();
  for (AttentionProblem const& p : problems()) {
    PooledInputs x = make_pooled(p, PooledKind::gaussian, 13);
    for (float& k : x.k.storage()) k = std::nearbyint(k * 256) / 256;  // so that adding the offset is exact
    MaskRule const rule = rule_of(0.1, 0.4);
    MaskWords const mask = run_select(x, rule);
    for (float& k : x.k.storage()) k += 32768;
    RowVerdict verdict;
    MaskWords const shifted = run_select(x, rule);
    for (std::int64_t row = 0; row < mask_rows(p); ++row)
      ++verdict.rows, verdict.excused += row_bits(p, mask, row) != row_bits(p, shifted, row);
    check_few_excused(verdict);
  }
}

TEST_CASE("U08 a batch item and a head alone are selected as inside the batch", "[gpu]") {
  SKIP_WITHOUT_GPU();
  AttentionProblem const p{3, 4, 2, 700, 2100, 64};
  PooledInputs const x = make_pooled(p, PooledKind::clustered, 15);
  MaskRule const rule = rule_of(0.05, 0.3);
  MaskWords const all = run_select(x, rule);
  AttentionProblem alone = p;
  alone.batch = alone.heads = alone.kv_heads = 1;
  std::int64_t const words = alone.q_blocks() * alone.row_words();
  for (std::int64_t b = 0; b < p.batch; ++b)
    for (std::int64_t h = 0; h < p.heads; ++h) {
      PooledInputs one(alone);
      one.q.for_each_index([&](auto, auto, auto i, auto c) { one.q.at(0, 0, i, c) = x.q.at(b, h, i, c); });
      one.k.for_each_index(
          [&](auto, auto, auto j, auto c) { one.k.at(0, 0, j, c) = x.k.at(b, h / 2, j, c); });
      auto const first = all.begin() + (b * p.heads + h) * words;
      CHECK(run_select(one, rule) == MaskWords(first, first + words));
    }
}

TEST_CASE("build_mask is pool followed by select_blocks", "[gpu]") {
  SKIP_WITHOUT_GPU();
  check_build_is_pool_and_select<bfloat16>();
  check_build_is_pool_and_select<float16>();
}

TEST_CASE("U65 every layout builds the mask of the contiguous one", "[gpu]") {
  SKIP_WITHOUT_GPU();
  for (AttentionProblem const& p : problems()) {
    QueriesAndKeys<bfloat16> const x(p, 17);
    MaskRule const rule = rule_of(0.05, 0.3);
    MaskWords const wanted = run_build_mask(p, x.q, x.k, rule);
    for (Layout layout : {Layout::bnhd, Layout::padded_rows, Layout::fused_qkv})
      CHECK(run_build_mask(p, relaid(x.q, layout), relaid(x.k, layout), rule) == wanted);
  }
}

TEST_CASE("U53 a mask is the same bits in every run", "[gpu]") {
  SKIP_WITHOUT_GPU();
  for (AttentionProblem const& p : problems()) {
    QueriesAndKeys<float16> const x(p, 19);
    MaskWords const first = run_build_mask(p, x.q, x.k, rule_of(0.05, 0.3));
    for (int run = 0; run < 10; ++run) CHECK(run_build_mask(p, x.q, x.k, rule_of(0.05, 0.3)) == first);
  }
}

TEST_CASE("the transpose of the transpose is the mask", "[gpu]") {
  SKIP_WITHOUT_GPU();
  for (AttentionProblem const& p : problems()) {
    Random random(21);
    MaskWords const words = uneven_mask(p, random);
    AttentionProblem swapped = p;  // its q_blocks are our kv_blocks and the reverse
    std::swap(swapped.q_tokens, swapped.kv_tokens);
    std::swap(swapped.q_block, swapped.kv_block);
    CHECK(run_transpose(swapped, run_transpose(p, words)) == words);
  }
}

TEST_CASE("a mask survives the way through bytes and lists", "[gpu]") {
  SKIP_WITHOUT_GPU();
  for (AttentionProblem const& p : problems()) {
    Random random(23);
    for (MaskWords const& words : {uneven_mask(p, random), random_mask(p, random, 0.5), full_mask(p)}) {
      CHECK(run_from_bytes(p, run_to_bytes(p, words)) == words);
      CHECK(run_from_lists(p, run_to_lists(p, words, p.kv_blocks())) == words);
    }
  }
}
