/// The f64 forward reference against a dense softmax written out, and the laws of masks.

#include <cmath>
#include <limits>

#include "sparge/reference/attention.hpp"
#include "sparge/reference/naive.hpp"
#include "support/catch.hpp"
#include "support/compare.hpp"
#include "support/random.hpp"

using namespace sparge;
using namespace sparge::test;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

struct Inputs {
  HostTensor<bfloat16> q, k, v;
};

Inputs gaussian_inputs(AttentionProblem const& p, std::uint64_t seed, double sigma = 1) {
  Random random(seed);
  Inputs x{HostTensor<bfloat16>(q_shape(p)), HostTensor<bfloat16>(kv_shape(p)),
           HostTensor<bfloat16>(kv_shape(p))};
  for (auto* tensor : {&x.q, &x.k, &x.v}) fill_gaussian(*tensor, random, sigma);
  return x;
}

reference::Attention attend(AttentionProblem const& p, Inputs const& x, MaskWords const& mask) {
  return reference::attention(p, x.q.view(), x.k.view(), x.v.view(), view_of(mask));
}

/// One row by the formula: every logit, its softmax over kept keys, the weighted sum.
std::vector<double> dense_row(AttentionProblem const& p, Inputs const& x, MaskWords const& mask,
                              reference::QueryRow row, double* lse) {
  std::int64_t const kv_head = row.head / (p.heads / p.kv_heads);
  auto const* bits = reference::mask_row(p, view_of(mask), row.batch, row.head, row.token / p.q_block);
  std::vector<double> out(p.head_dim, 0.0);
  double sum = 0;
  for (std::int64_t j = 0; j < p.kv_tokens; ++j) {
    if (!reference::keeps(bits, j / p.kv_block)) continue;
    double dot = 0;
    for (int c = 0; c < p.head_dim; ++c)
      dot += reference::to_double(x.q.at(row.batch, row.head, row.token, c)) *
             reference::to_double(x.k.at(row.batch, kv_head, j, c));
    double const weight = std::exp(dot * p.logit_scale());
    sum += weight;
    for (int c = 0; c < p.head_dim; ++c)
      out[c] += weight * reference::to_double(x.v.at(row.batch, kv_head, j, c));
  }
  for (double& o : out) o = sum == 0 ? 0 : o / sum;
  *lse = std::log(sum);
  return out;
}

/// 0 where they are equal, infinities included; NaN where either holds one.
double max_difference(std::vector<double> const& a, std::vector<double> const& b) {
  double largest = a.size() == b.size() ? 0 : infinity;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!(a[i] == b[i])) largest = max_or_nan(largest, std::abs(a[i] - b[i]));
  return largest;
}

}  // namespace

TEST_CASE("the forward reference equals a dense softmax over the kept keys") {
  auto const p = GENERATE(AttentionProblem{2, 4, 2, 200, 330, 64}, AttentionProblem{1, 3, 1, 65, 129, 128},
                          AttentionProblem{1, 2, 2, 1, 1, 64}, AttentionProblem{1, 1, 1, 130, 70, 8},
                          AttentionProblem{1, 2, 1, 100, 257, 24, 64, 128, 0.3f});
  Inputs const x = gaussian_inputs(p, 1);
  Random random(2);
  MaskWords mask = uneven_mask(p, random);
  dirty_padding(p, mask);
  auto const result = attend(p, x, mask);
  std::size_t slot = 0;
  for (reference::QueryRow const& row : reference::all_rows(p)) {
    double lse = 0;
    std::vector<double> const expected = dense_row(p, x, mask, row, &lse);
    std::vector<double> const actual(result.out.begin() + slot * p.head_dim,
                                     result.out.begin() + (slot + 1) * p.head_dim);
    CAPTURE(row.batch, row.head, row.token);
    REQUIRE(max_difference(actual, expected) < 1e-12);
    REQUIRE((lse == result.lse[slot] || std::abs(lse - result.lse[slot]) < 1e-12));
    ++slot;
  }
}

TEST_CASE("chosen rows are the rows of the whole result") {
  AttentionProblem const p{2, 4, 2, 200, 330, 64};
  Inputs const x = gaussian_inputs(p, 3);
  Random random(4);
  MaskWords const mask = random_mask(p, random, 0.5);
  auto const all = attend(p, x, mask);
  auto const rows = sample_rows(p, random, 50);
  auto const some =
      reference::attention_rows(p, x.q.view(), x.k.view(), x.v.view(), view_of(mask), rows, {1, {}});
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::int64_t const slot = (rows[i].batch * p.heads + rows[i].head) * p.q_tokens + rows[i].token;
    REQUIRE(some.lse[i] == all.lse[slot]);
    for (int c = 0; c < p.head_dim; ++c)
      REQUIRE(some.out[i * p.head_dim + c] == all.out[slot * p.head_dim + c]);
  }
}

TEST_CASE("two disjoint masks merged by lse equal their union") {
  AttentionProblem const p{1, 2, 2, 300, 700, 64};
  Inputs const x = gaussian_inputs(p, 5);
  Random random(6);
  MaskWords const both = random_mask(p, random, 0.6), half = random_mask(p, random, 0.5);
  MaskWords first = both, second = both;
  for (std::size_t w = 0; w < both.size(); ++w) first[w] &= half[w], second[w] &= ~half[w];
  auto const a = attend(p, x, first), b = attend(p, x, second), whole = attend(p, x, both);
  for (std::size_t row = 0; row < whole.lse.size(); ++row) {
    double const top = std::max(a.lse[row], b.lse[row]);
    if (top == -infinity) {
      REQUIRE(whole.lse[row] == -infinity);
      continue;
    }
    double const sum = std::exp(a.lse[row] - top) + std::exp(b.lse[row] - top);
    double const weight = std::exp(a.lse[row] - top) / sum;
    REQUIRE(std::abs(top + std::log(sum) - whole.lse[row]) < 1e-12);
    for (int c = 0; c < p.head_dim; ++c) {
      std::size_t const i = row * p.head_dim + c;
      REQUIRE(std::abs(weight * a.out[i] + (1 - weight) * b.out[i] - whole.out[i]) < 1e-12);
    }
  }
}

TEST_CASE("U92 a query that keeps no key has out 0 and lse -inf") {
  AttentionProblem const p{1, 2, 1, 200, 100, 64};
  Inputs const x = gaussian_inputs(p, 7);
  MaskWords const mask = make_mask(p, [](auto, auto h, auto i, auto) { return h == 1 && i == 0; });
  auto const result = attend(p, x, mask);
  for (std::int64_t row = 0; row < 2 * 200; ++row) {
    bool const empty = row < 200 + 0 || row >= 200 + 128;
    REQUIRE((result.lse[row] == -infinity) == empty);
    for (int c = 0; c < p.head_dim; ++c) REQUIRE((result.out[row * p.head_dim + c] == 0) == empty);
  }
}

TEST_CASE("a query whose kept logits are all -inf counts as keeping no key") {
  AttentionProblem const p{1, 1, 1, 1, 3, 8};
  Inputs x = gaussian_inputs(p, 8);
  fill_constant(x.q, 1);
  for (int j = 0; j < 3; ++j) set(x.k, 0, 0, j, 0, -infinity);
  auto const result = attend(p, x, full_mask(p));
  CHECK(result.lse[0] == -infinity);
  for (double o : result.out) CHECK(o == 0);
}

TEST_CASE("a kept logit of +inf or NaN gives NaN") {
  AttentionProblem const p{1, 1, 1, 1, 130, 8};
  Inputs x = gaussian_inputs(p, 9);
  fill_constant(x.q, 1);
  std::int64_t const at = GENERATE(0, 70, 129);
  double const value = GENERATE(as<double>{}, infinity, std::numeric_limits<double>::quiet_NaN());
  set(x.k, 0, 0, at, 0, value);
  auto const result = attend(p, x, full_mask(p));
  CHECK(std::isnan(result.lse[0]));
  for (double o : result.out) CHECK(std::isnan(o));
}

TEST_CASE("U32 NaN and Inf in a dropped block change nothing") {
  AttentionProblem const p{1, 1, 1, 200, 256, 64};
  Inputs x = gaussian_inputs(p, 10);
  MaskWords const mask = make_mask(p, [](auto, auto, auto, auto j) { return j != 2; });
  auto const clean = attend(p, x, mask);
  double const poison = GENERATE(as<double>{}, infinity, std::numeric_limits<double>::quiet_NaN());
  for (int j = 128; j < 192; ++j)
    for (int c = 0; c < 64; ++c) set(x.k, 0, 0, j, c, poison), set(x.v, 0, 0, j, c, poison);
  auto const poisoned = attend(p, x, mask);
  CHECK(max_difference(clean.out, poisoned.out) == 0);
  CHECK(max_difference(clean.lse, poisoned.lse) == 0);
}

TEST_CASE("U24 U26 logits of a million in either direction have weights that sum to 1") {
  AttentionProblem const p{1, 1, 1, 128, 320, 128};
  Inputs x = gaussian_inputs(p, 11);
  Random random(12);
  double const sign = GENERATE(1.0, -1.0);
  fill_huge_logits(x.q, x.k, random, sign);
  fill_constant(x.v, 1);
  auto const result = attend(p, x, full_mask(p));
  for (double o : result.out) REQUIRE(o == Approx(1).epsilon(1e-12));
  for (double lse : result.lse) REQUIRE(sign * lse > 9e5);
}

TEST_CASE("U65 U71 any strides give the contiguous result bit for bit") {
  AttentionProblem const p{2, 3, 3, 140, 150, 64};
  Inputs x = gaussian_inputs(p, 13);
  Random random(14);
  MaskWords const mask = random_mask(p, random, 0.7);
  auto const expected = attend(p, x, mask);
  auto const layout = GENERATE(Layout::bnhd, Layout::padded_rows, Layout::fused_qkv);
  Inputs const moved{relaid(x.q, layout), relaid(x.k, layout), relaid(x.v, layout)};
  auto const actual = attend(p, moved, mask);
  CHECK(max_difference(actual.out, expected.out) == 0);
  CHECK(max_difference(actual.lse, expected.lse) == 0);
}

TEST_CASE("U71 a head stride of 0 reads the same keys for every head") {
  AttentionProblem const broadcast{1, 3, 3, 70, 90, 64}, grouped{1, 3, 1, 70, 90, 64};
  Inputs const x = gaussian_inputs(grouped, 15);
  TensorView<bfloat16 const> k = x.k.view(), v = x.v.view();
  for (auto* view : {&k, &v}) view->shape[1] = 3, view->stride[1] = 0;
  MaskWords const mask = full_mask(grouped);
  auto const expected = attend(grouped, x, mask);
  auto const actual = reference::attention(broadcast, x.q.view(), k, v, view_of(mask));
  CHECK(max_difference(actual.out, expected.out) == 0);
}

TEST_CASE("U05 empty problems have empty results, and no keys make empty rows") {
  AttentionProblem const p{1, 2, 1, 5, 0, 64};
  auto const result = attend(p, gaussian_inputs(p, 16), full_mask(p));
  for (double lse : result.lse) CHECK(lse == -infinity);
  for (double o : result.out) CHECK(o == 0);
  for (AttentionProblem const& none :
       {AttentionProblem{0, 2, 1, 5, 6, 64}, AttentionProblem{1, 2, 1, 0, 6, 64}})
    CHECK(attend(none, gaussian_inputs(none, 17), full_mask(none)).out.empty());
}

TEST_CASE("the naive forward is near the reference and not equal to it") {
  AttentionProblem const p{1, 2, 1, 150, 400, 64};
  Inputs const x = gaussian_inputs(p, 18);
  Random random(19);
  MaskWords const mask = uneven_mask(p, random);
  auto const truth = attend(p, x, mask);
  auto const naive = reference::naive_attention(p, x.q.view(), x.k.view(), x.v.view(), view_of(mask));
  double const error = max_difference(naive.out, truth.out);
  CHECK(error > 1e-4);
  CHECK(error < 0.03);
  CHECK(max_difference(naive.lse, truth.lse) < 1e-5);
  for (double o : naive.out)
    REQUIRE(o == reference::to_double(reference::round_to<bfloat16>(static_cast<float>(o))));
}

TEST_CASE("progress reaches the end and failures come back to the caller") {
  std::int64_t last = 0;
  reference::RunOptions options{2, [&](std::int64_t done, std::int64_t total) {
                                  CHECK(total == 40);
                                  last = std::max(last, done);
                                }};
  reference::for_each_piece(40, options, [] { return [](std::int64_t) {}; });
  CHECK(last == 40);
  CHECK_THROWS_AS(reference::for_each_piece(40, {2, {}},
                                            [] {
                                              return [](std::int64_t piece) {
                                                if (piece == 7) throw std::runtime_error("seven");
                                              };
                                            }),
                  std::runtime_error);
}
