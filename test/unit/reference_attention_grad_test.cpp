/// The gradient reference against finite differences of the forward reference.

#include <cmath>
#include <limits>

#include "sparge/reference/attention.hpp"
#include "sparge/reference/attention_grad.hpp"
#include "sparge/reference/naive.hpp"
#include "sparge/reference/pool.hpp"
#include "support/catch.hpp"
#include "support/compare.hpp"
#include "support/random.hpp"

using namespace sparge;
using namespace sparge::test;

namespace {

/// f64 inputs, so that finite differences have digits to spare.
struct Case {
  AttentionProblem p;
  MaskWords mask;
  HostTensor<double> q, k, v, grad_out;
  std::vector<double> grad_lse;

  reference::Attention forward() const {
    return reference::attention(p, q.view(), k.view(), v.view(), view_of(mask));
  }

  /// sum(grad_out * out) + sum(grad_lse * lse), whose gradient backward computes.
  double loss() const {
    auto const result = forward();
    std::vector<double> const weights = grad_out.values();
    double sum = 0;
    for (std::size_t i = 0; i < weights.size(); ++i) sum += weights[i] * result.out[i];
    for (std::size_t i = 0; i < grad_lse.size(); ++i)
      if (std::isfinite(result.lse[i])) sum += grad_lse[i] * result.lse[i];
    return sum;
  }

  reference::AttentionGrad backward() const {
    auto const result = forward();
    reference::AttentionGradArgs<double, double> args{q.view(), k.view(), v.view(), view_of(mask)};
    args.out = contiguous_bhnd<double const>(result.out.data(), p.batch, p.heads, p.q_tokens, p.head_dim);
    args.grad_out = grad_out.view();
    args.lse = result.lse.data();
    args.grad_lse = grad_lse.empty() ? nullptr : grad_lse.data();
    return reference::attention_grad(p, args);
  }
};

HostTensor<double> gaussian(Shape const& shape, Random& random) {
  HostTensor<double> x(shape);
  x.for_each_index([&](auto... index) { x.at(index...) = random.gaussian(); });
  return x;
}

Case make_case(AttentionProblem const& p, bool with_grad_lse, std::uint64_t seed) {
  Random random(seed);
  Case c{p,
         uneven_mask(p, random),
         gaussian(q_shape(p), random),
         gaussian(kv_shape(p), random),
         gaussian(kv_shape(p), random),
         gaussian(q_shape(p), random),
         {}};
  for (std::int64_t i = 0; with_grad_lse && i < p.batch * p.heads * p.q_tokens; ++i)
    c.grad_lse.push_back(random.gaussian());
  return c;
}

/// Central differences at some elements of one input.
void check_by_differences(Case& c, HostTensor<double>& input, std::vector<double> const& grad,
                          Random& random) {
  double const step = 1e-5;
  for (int sample = 0; sample < 24; ++sample) {
    std::int64_t const i = sample == 0 ? input.elements() - 1 : random.below(input.elements());
    double& x = input.storage()[i];
    double const middle = x;
    x = middle + step;
    double const above = c.loss();
    x = middle - step;
    double const below = c.loss();
    x = middle;
    CAPTURE(sample, i, grad[i]);
    REQUIRE(std::abs((above - below) / (2 * step) - grad[i]) < 1e-7 * (1 + std::abs(grad[i])));
  }
}

}  // namespace

TEST_CASE("U07 gradients equal finite differences with GQA and tails and empty rows and dLSE") {
  auto const p =
      GENERATE(AttentionProblem{1, 2, 1, 130, 70, 8}, AttentionProblem{2, 4, 2, 65, 129, 16},
               AttentionProblem{1, 1, 1, 3, 5, 24}, AttentionProblem{1, 3, 1, 200, 150, 8, 64, 64});
  bool const with_grad_lse = GENERATE(false, true);
  Case c = make_case(p, with_grad_lse, 20);
  reference::AttentionGrad const grad = c.backward();
  Random random(21);
  check_by_differences(c, c.q, grad.grad_q, random);
  check_by_differences(c, c.k, grad.grad_k, random);
  check_by_differences(c, c.v, grad.grad_v, random);
}

TEST_CASE("U21 the gradient of a loss of lse alone is scale times the mean key") {
  AttentionProblem const p{1, 1, 1, 4, 6, 8};
  Case c = make_case(p, false, 22);
  c.mask = full_mask(p);
  c.grad_out.for_each_index([&](auto... index) { c.grad_out.at(index...) = 0; });
  c.grad_lse.assign(4, 1.0);
  auto const grad = c.backward();
  auto const lse = c.forward().lse;
  for (int i = 0; i < 4; ++i) {
    std::vector<double> expected(8, 0.0);
    for (int j = 0; j < 6; ++j) {
      double dot = 0;
      for (int d = 0; d < 8; ++d) dot += c.q.at(0, 0, i, d) * c.k.at(0, 0, j, d);
      for (int d = 0; d < 8; ++d)
        expected[d] += p.logit_scale() * std::exp(p.logit_scale() * dot - lse[i]) * c.k.at(0, 0, j, d);
    }
    for (int d = 0; d < 8; ++d) CHECK(grad.grad_q[i * 8 + d] == Approx(expected[d]).epsilon(1e-10));
  }
  for (double g : grad.grad_v) CHECK(g == 0);
}

TEST_CASE("U02 a key block that no query keeps has gradients of exactly 0") {
  AttentionProblem const p{1, 1, 1, 256, 320, 8};
  Case c = make_case(p, false, 23);
  c.mask = make_mask(p, [](auto, auto, auto i, auto j) { return j == i; });
  auto const grad = c.backward();
  for (std::int64_t i = 0; i < 320 * 8; ++i) {
    bool const unseen = i >= 2 * 64 * 8;
    CHECK((grad.grad_k[i] == 0) == unseen);
    CHECK((grad.grad_v[i] == 0) == unseen);
  }
}

TEST_CASE("U04 one query and one key give dV = dO and no gradient of Q and K") {
  AttentionProblem const p{1, 1, 1, 1, 1, 64};
  Case c = make_case(p, false, 24);
  c.mask = full_mask(p);
  auto const grad = c.backward();
  for (int d = 0; d < 64; ++d) {
    CHECK(std::abs(grad.grad_q[d]) < 1e-13);
    CHECK(std::abs(grad.grad_k[d]) < 1e-13);
    CHECK(grad.grad_v[d] == Approx(c.grad_out.at(0, 0, 0, d)));
  }
}

TEST_CASE("U05 gradients of K and V are zeros where there are no queries") {
  AttentionProblem const p{1, 2, 1, 0, 70, 8};
  auto const grad = make_case(p, false, 25).backward();
  CHECK(grad.grad_q.empty());
  CHECK(grad.grad_k == std::vector<double>(70 * 8, 0.0));
  CHECK(grad.grad_v == std::vector<double>(70 * 8, 0.0));
}

TEST_CASE("U92 a row whose lse is -inf has P = 0 and no gradient") {
  AttentionProblem const p{1, 1, 1, 5, 7, 8};
  Case c = make_case(p, false, 28);
  MaskWords const full = full_mask(p);
  std::vector<double> const lse(5, -std::numeric_limits<double>::infinity()), out(5 * 8, 0.0);
  reference::AttentionGradArgs<double, double> const args{
      c.q.view(),
      c.k.view(),
      c.v.view(),
      view_of(full),
      contiguous_bhnd<double const>(out.data(), 1, 1, 5, 8),
      c.grad_out.view(),
      lse.data()};
  auto const grad = reference::attention_grad(p, args);
  CHECK(grad.grad_q == std::vector<double>(5 * 8, 0.0));
  CHECK(grad.grad_k == std::vector<double>(7 * 8, 0.0));
  CHECK(grad.grad_v == std::vector<double>(7 * 8, 0.0));
}

TEST_CASE("U32 NaN in a block that nobody keeps reaches no gradient") {
  AttentionProblem const p{1, 1, 1, 130, 192, 8};
  Case c = make_case(p, false, 26);
  c.mask = make_mask(p, [](auto, auto, auto, auto j) { return j != 1; });
  auto const clean = c.backward();
  for (int j = 64; j < 128; ++j)
    for (int d = 0; d < 8; ++d)
      c.k.at(0, 0, j, d) = c.v.at(0, 0, j, d) = std::numeric_limits<double>::quiet_NaN();
  auto const poisoned = c.backward();
  CHECK(clean.grad_q == poisoned.grad_q);
  CHECK(clean.grad_k == poisoned.grad_k);
  CHECK(clean.grad_v == poisoned.grad_v);
}

TEST_CASE("the naive gradients are near the reference") {
  AttentionProblem const p{1, 4, 2, 200, 300, 64};
  Random random(27);
  HostTensor<bfloat16> q(q_shape(p)), k(kv_shape(p)), v(kv_shape(p)), grad_out(q_shape(p));
  for (auto* x : {&q, &k, &v, &grad_out}) fill_gaussian(*x, random);
  MaskWords const mask = random_mask(p, random, 0.5);
  auto const forward = reference::attention(p, q.view(), k.view(), v.view(), view_of(mask));
  HostTensor<bfloat16> out(q_shape(p));
  for (std::size_t i = 0; i < forward.out.size(); ++i)
    out.storage()[i] = reference::round_to<bfloat16>(static_cast<float>(forward.out[i]));
  std::vector<float> const lse = reference::to_f32(forward.lse);
  reference::AttentionGradArgs<bfloat16, float> const args{
      q.const_view(),   k.const_view(),        v.const_view(), view_of(mask),
      out.const_view(), grad_out.const_view(), lse.data()};
  auto const truth = reference::attention_grad(p, args);
  auto const naive = reference::naive_attention_grad(p, args);
  auto const distance = [](std::vector<double> const& a, std::vector<double> const& b) {
    double squares = 0, norm = 0;
    for (std::size_t i = 0; i < a.size(); ++i) squares += (a[i] - b[i]) * (a[i] - b[i]), norm += b[i] * b[i];
    return std::sqrt(squares / norm);
  };
  for (double d : {distance(naive.grad_q, truth.grad_q), distance(naive.grad_k, truth.grad_k),
                   distance(naive.grad_v, truth.grad_v)}) {
    CHECK(d > 1e-4);
    CHECK(d < 0.01);
  }
}
