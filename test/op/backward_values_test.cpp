/// backward() on the shapes, masks and values that other implementations got wrong.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "sparge/sparge.hpp"
#include "support/catch.hpp"
#include "support/gpu.hpp"
#include "support/gradient_case.hpp"

namespace {

using namespace sparge;
using namespace sparge::test;

template <class T>
bool all_zero(HostTensor<T> const& x) {
  for (double value : x.values())
    if (value != 0) return false;
  return true;
}

template <class T>
bool all_finite(GradientOutput<T> const& output) {
  for (HostTensor<T> const* x : {&output.grad_q, &output.grad_k, &output.grad_v})
    for (double value : x->values())
      if (!std::isfinite(value)) return false;
  return true;
}

/// Gaussian inputs under a mask of keep(batch, head, q_block, kv_block).
template <class T, class Keep>
ForwardInputs<T> inputs_under(AttentionProblem const& p, Keep keep, std::uint64_t seed = 1) {
  ForwardInputs<T> inputs = make_inputs<T>({p, Inputs::gaussian, MaskKind::full, seed});
  inputs.mask = make_mask(p, keep);
  return inputs;
}

/// A case on every kernel of either pass.
template <class T>
void check_on_every_kernel(GradientInputs<T> const& inputs) {
  GradientTruth const truth = truth_of(inputs);
  for (std::int32_t kernel : backward_kernels_for<T>(inputs.problem(), test_device())) {
    CAPTURE(kernel);
    GradientChoices choices;
    choices.options.force_kernel = kernel;
    check_gradients(truth, run_backward(inputs, choices));
  }
}

}  // namespace

TEMPLATE_TEST_CASE(
    "U01 U07 gradients under lower triangular and full masks have the size and direction of the reference",
    "[gpu]", bfloat16, float16) {
  SKIP_WITHOUT_GPU();
  for (int head_dim : {64, 128}) {
    AttentionProblem const p{1, 2, 2, 512, 512, head_dim};
    check_on_every_kernel(make_gradient_inputs(
        inputs_under<TestType>(p, [](auto, auto, auto i, auto j) { return j * 64 < (i + 1) * 128; }), 1));
    check_on_every_kernel(make_gradient_inputs(inputs_under<TestType>(p, [](auto...) { return true; }), 2));
  }
}

TEMPLATE_TEST_CASE("U02 keys that no query block keeps have gradients of exactly zero", "[gpu]", bfloat16,
                   float16) {
  SKIP_WITHOUT_GPU();
  AttentionProblem const p{1, 2, 1, 700, 900, 64};
  std::int64_t const q_blocks = p.q_blocks();
  GradientInputs<TestType> const inputs =
      make_gradient_inputs(inputs_under<TestType>(p, [](auto, auto, auto i, auto j) { return j == i; }), 1);
  GradientOutput<TestType> const output = run_backward(inputs);
  check_gradients(truth_of(inputs), output);
  std::int64_t wrong = 0;
  output.grad_k.for_each_index([&](auto b, auto h, auto n, auto c) {
    if (n / p.kv_block < q_blocks) return;
    wrong += reference::to_double(output.grad_k.at(b, h, n, c)) != 0;
    wrong += reference::to_double(output.grad_v.at(b, h, n, c)) != 0;
  });
  CHECK(wrong == 0);
}

TEMPLATE_TEST_CASE("U04 one query and one key give no gradient but that of the value", "[gpu]", bfloat16,
                   float16) {
  SKIP_WITHOUT_GPU();
  for (int head_dim : {64, 128}) {
    ForwardInputs<TestType> inputs =
        inputs_under<TestType>({1, 1, 1, 1, 1, head_dim}, [](auto...) { return true; });
    Random random(3);
    for (HostTensor<TestType>* x : {&inputs.q, &inputs.k, &inputs.v}) fill_gaussian(*x, random, 0.5, 3);
    GradientInputs<TestType> const gradients = make_gradient_inputs(std::move(inputs), 1);
    GradientOutput<TestType> const output = run_backward(gradients);
    CHECK(
        compare<TestType>(output.grad_v.values(), gradients.grad_out.values(), gradients.grad_out.values()));
    // P is 1 to the rounding of lse, and dP - delta is rounding alone: 128 products near 3, in f32.
    for (HostTensor<TestType> const* x : {&output.grad_q, &output.grad_k})
      for (double value : x->values()) CHECK(std::abs(value) < 1e-3);
  }
}

TEMPLATE_TEST_CASE("U05 U06 gradients of empty workloads are zeros that are written", "[gpu]", bfloat16,
                   float16) {
  SKIP_WITHOUT_GPU();
  for (int head_dim : {64, 128}) {
    GradientOutput<TestType> const no_keys =
        run_backward(make_gradient_inputs<TestType>({{{2, 4, 2, 200, 0, head_dim}}}));
    CHECK(all_zero(no_keys.grad_q));
    GradientOutput<TestType> const no_queries =
        run_backward(make_gradient_inputs<TestType>({{{2, 4, 2, 0, 200, head_dim}}}));
    CHECK(all_zero(no_queries.grad_k));
    CHECK(all_zero(no_queries.grad_v));
    run_backward(make_gradient_inputs<TestType>({{{0, 4, 2, 200, 200, head_dim}}}));
    run_backward(make_gradient_inputs<TestType>({{{2, 4, 2, 0, 0, head_dim}}}));
  }
}

TEMPLATE_TEST_CASE("U14 U15 U16 gradients of the output may be laid out in any way and broadcast", "[gpu]",
                   bfloat16, float16) {
  SKIP_WITHOUT_GPU();
  GradientInputs<TestType> inputs = make_gradient_inputs<TestType>({{{2, 4, 1, 132, 132, 128}}});
  GradientOutput<TestType> const wanted = run_backward(inputs);
  inputs.out = relaid(inputs.out, Layout::bnhd);
  CHECK(run_backward(inputs) == wanted);
  inputs.grad_out = relaid(inputs.grad_out, Layout::padded_rows);
  CHECK(run_backward(inputs) == wanted);
  // The gradient of a sum: one row of ones, seen everywhere.
  HostTensor<TestType> ones(q_shape(inputs.problem()), Shape{0, 0, 0, 1});
  fill_constant(ones, 1);
  inputs.grad_out = ones;
  check_gradient_case(inputs);
}

TEMPLATE_TEST_CASE("U18 gradients are right where rows of small and of large lse share a tile", "[gpu]",
                   bfloat16, float16) {
  SKIP_WITHOUT_GPU();
  for (int head_dim : {64, 128}) {
    ForwardInputs<TestType> inputs =
        inputs_under<TestType>({1, 1, 1, 300, 200, head_dim}, [](auto...) { return true; });
    // Integers, so that logits are exact however they are added; rows grow from 1 to 2^9 and again.
    auto const integer = [](HostTensor<TestType> const& x, auto... at) {
      return std::round(reference::to_double(x.at(at...)));
    };
    fill(inputs.k, [&](auto... at) { return integer(inputs.k, at...); });
    fill(inputs.q, [&](auto b, auto h, auto n, auto c) {
      return std::ldexp(integer(inputs.q, b, h, n, c), static_cast<int>(n % 10));
    });
    GradientInputs<TestType> const gradients = make_gradient_inputs(std::move(inputs), 1);
    auto const [least, most] = std::minmax_element(gradients.lse.begin(), gradients.lse.end());
    CHECK(*least < 10);
    CHECK(*most > 300);
    check_on_every_kernel(gradients);
  }
}

TEMPLATE_TEST_CASE("U18 gradients are right where lse is far from zero and one logit leads by far", "[gpu]",
                   bfloat16, float16) {
  SKIP_WITHOUT_GPU();
  for (double sigma : {1e-6, 1.0, 1e3}) {
    ForwardInputs<TestType> inputs = inputs_under<TestType>(
        {1, 2, 2, 200, 190, 64}, [](auto...) { return true; }, 5);
    inputs.problem.scale = 1;
    // Logits of a row are near +80, -80, or 60 for one key and 0 for the rest.
    fill(inputs.q, [](auto, auto, auto n, auto c) { return c == n % 3 ? 1.0 : 0.0; });
    fill(inputs.k, [](auto, auto, auto n, auto c) {
      double const noise = (n * 7 % 16) / 16.0;
      return c == 0 ? 80 + noise : c == 1 ? -80 + noise : c == 2 && n == 77 ? 60.0 : 0.0;
    });
    GradientInputs<TestType> const gradients = make_gradient_inputs(std::move(inputs), 1, sigma);
    GradientOutput<TestType> const output = run_backward(gradients);
    CAPTURE(sigma);
    CHECK(all_finite(output));
    check_gradients(truth_of(gradients), output);
  }
}

TEMPLATE_TEST_CASE("U19 constant inputs of a thousand give finite gradients and uniform ones of V", "[gpu]",
                   bfloat16, float16) {
  SKIP_WITHOUT_GPU();
  ForwardInputs<TestType> inputs =
      inputs_under<TestType>({1, 2, 1, 130, 100, 64}, [](auto...) { return true; });
  for (HostTensor<TestType>* x : {&inputs.q, &inputs.k, &inputs.v}) fill_constant(*x, 1000);
  GradientInputs<TestType> gradients = make_gradient_inputs(std::move(inputs), 1);
  fill_constant(gradients.grad_out, 1);
  GradientOutput<TestType> const output = run_backward(gradients);
  CHECK(all_finite(output));
  CHECK(all_zero(output.grad_q));
  CHECK(all_zero(output.grad_k));
  GradientTruth const truth = truth_of(gradients);
  CHECK(compare<TestType>(output.grad_v.values(), truth.exact.grad_v, truth.naive.grad_v));
}

TEMPLATE_TEST_CASE("U21 a loss that uses lse alone has the gradient of lse", "[gpu]", bfloat16, float16) {
  SKIP_WITHOUT_GPU();
  for (int head_dim : {64, 128}) {
    GradientInputs<TestType> inputs = make_gradient_inputs<TestType>({{{1, 4, 2, 300, 410, head_dim}}});
    fill_constant(inputs.grad_out, 0);
    inputs.grad_lse.assign(inputs.lse.size(), 1.0f);
    check_on_every_kernel(inputs);
    GradientOutput<TestType> const output = run_backward(inputs);
    CHECK(all_zero(output.grad_v));
    CHECK_FALSE(all_zero(output.grad_q));
  }
}

TEMPLATE_TEST_CASE("Rows whose lse says that they keep no key give no gradient whatever they hold", "[gpu]",
                   bfloat16, float16) {
  SKIP_WITHOUT_GPU();
  for (int head_dim : {64, 128}) {
    GradientInputs<TestType> inputs = make_gradient_inputs<TestType>({{{1, 2, 1, 200, 300, head_dim}}});
    inputs.grad_lse.assign(inputs.lse.size(), std::numeric_limits<float>::infinity());
    float const none = -std::numeric_limits<float>::infinity();
    for (std::size_t row = 0; row < inputs.lse.size(); ++row)
      if (row % 3 == 0)
        inputs.lse[row] = none;
      else
        inputs.grad_lse[row] = 0;
    HostTensor<TestType>& out = inputs.out;
    out.for_each_index([&](auto b, auto h, auto n, auto c) {
      if ((h * 200 + n) % 3 == 0) set(out, b, h, n, c, std::numeric_limits<double>::quiet_NaN());
    });
    check_on_every_kernel(inputs);
    // Not even a row of infinite logits.
    HostTensor<TestType>& q = inputs.forward.q;
    GradientOutput<TestType> const wanted = run_backward(inputs);
    q.for_each_index([&](auto b, auto h, auto n, auto c) {
      if ((h * 200 + n) % 3 == 0) set(q, b, h, n, c, 0);
    });
    CHECK(element_bits(run_backward(inputs).grad_v) == element_bits(wanted.grad_v));
  }
}

TEMPLATE_TEST_CASE("U07 gradients predict how a loss changes with single inputs", "[gpu]", bfloat16,
                   float16) {
  SKIP_WITHOUT_GPU();
  AttentionProblem const p{1, 2, 1, 150, 200, 64};
  GradientInputs<TestType> inputs = make_gradient_inputs<TestType>({{p}});
  GradientOutput<TestType> const output = run_backward(inputs);
  auto const loss = [&](GradientInputs<TestType> const& at) {
    auto const exact = reference::attention(p, at.forward.q.const_view(), at.forward.k.const_view(),
                                            at.forward.v.const_view(), view_of(at.forward.mask));
    std::vector<double> const weight = at.grad_out.values();
    double sum = 0;
    for (std::size_t i = 0; i < weight.size(); ++i) sum += weight[i] * exact.out[i];
    return sum;
  };
  Random random(11);
  struct Pair {
    HostTensor<TestType> ForwardInputs<TestType>::*input;
    HostTensor<TestType> const* gradient;
  };
  for (Pair pair : {Pair{&ForwardInputs<TestType>::q, &output.grad_q},
                    {&ForwardInputs<TestType>::k, &output.grad_k},
                    {&ForwardInputs<TestType>::v, &output.grad_v}})
    for (int draw = 0; draw < 10; ++draw) {
      Shape const s = pair.gradient->shape();
      std::int64_t const h = random.below(s[1]), n = random.below(s[2]), c = random.below(s[3]);
      TestType& x = (inputs.forward.*pair.input).at(0, h, n, c);
      TestType const before = x;
      // Powers of two, so that the element type holds both points apart by a known step.
      double const centre = reference::to_double(before);
      x = reference::round_to<TestType>(static_cast<float>(centre + 0.0625));
      double const above = reference::to_double(x), loss_above = loss(inputs);
      x = reference::round_to<TestType>(static_cast<float>(centre - 0.0625));
      double const below = reference::to_double(x), loss_below = loss(inputs);
      x = before;
      double const predicted = reference::to_double(pair.gradient->at(0, h, n, c));
      CHECK((loss_above - loss_below) / (above - below) == Approx(predicted).margin(0.02).epsilon(0.02));
    }
}
