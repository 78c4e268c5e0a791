/// forward() on values that break softmax and sums: huge, constant, tied, infinite.

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "sparge/sparge.hpp"
#include "support/attention_case.hpp"
#include "support/catch.hpp"
#include "support/gpu.hpp"

namespace {

using namespace sparge;
using namespace sparge::test;

template <class T>
ForwardInputs<T> full_inputs(AttentionProblem const& p) {
  ForwardCase c{p};
  c.mask = MaskKind::full;
  return make_inputs<T>(c);
}

/// Every output element is `value`, to the bit.
template <class T>
void check_all_equal(ForwardOutput<T> const& output, double value) {
  std::int64_t wrong = 0;
  for (double x : output.out.values()) wrong += !(x == value);
  CHECK(wrong == 0);
}

/// Every output element is 1 to one unit in the last place.
template <class T>
void check_ones(ForwardOutput<T> const& output) {
  std::int64_t wrong = 0;
  for (double x : output.out.values()) wrong += !(std::abs(x - 1) <= unit_in_last_place<T>(1));
  CHECK(wrong == 0);
}

}  // namespace

TEMPLATE_TEST_CASE("U19 constant inputs of a thousand give a thousand", "[gpu]", bfloat16, float16) {
  SKIP_WITHOUT_GPU();
  for (std::int64_t kv_tokens : {64, 100, 1025}) {
    ForwardInputs<TestType> inputs = full_inputs<TestType>({1, 2, 1, 130, kv_tokens, 64});
    for (HostTensor<TestType>* x : {&inputs.q, &inputs.k, &inputs.v}) fill_constant(*x, 1000);
    ForwardOutput<TestType> const output = run_forward(inputs);
    check_forward(inputs, output);
    check_all_equal(output, 1000);
  }
}

TEMPLATE_TEST_CASE("U24 logits far below any finite sentinel still have weights that sum to one", "[gpu]",
                   bfloat16, float16) {
  SKIP_WITHOUT_GPU();
  ForwardCase c{{1, 2, 2, 200, 300, 128}};
  c.inputs = Inputs::huge_negative_logits;
  for (MaskKind mask : {MaskKind::full, MaskKind::half}) {
    c.mask = mask;
    check_case<TestType>(c);
  }
  ForwardInputs<TestType> inputs = full_inputs<TestType>(c.problem);
  Random random(9);
  fill_tied_huge_logits(inputs.q, inputs.k, random, -1);
  fill_constant(inputs.v, 1);
  check_all_equal(run_forward(inputs), 1);
}

TEMPLATE_TEST_CASE("U25 a dropped key has no weight however low the kept logits are", "[gpu]", bfloat16,
                   float16) {
  SKIP_WITHOUT_GPU();
  AttentionProblem const p{1, 1, 1, 128, 65, 64};
  ForwardInputs<TestType> inputs = full_inputs<TestType>(p);
  Random random(2);
  fill_constant(inputs.q, 160);  // scaled logits of -2e5
  fill_constant(inputs.k, -160);
  fill_gaussian(inputs.v, random);
  for (std::int64_t c = 0; c < 64; ++c) set(inputs.v, 0, 0, 64, c, 100);
  inputs.mask = make_mask(p, [](auto, auto, auto, auto j) { return j == 0; });
  check_forward(inputs, run_forward(inputs));
}

TEMPLATE_TEST_CASE("U26 huge finite queries and keys give one winner and no NaN", "[gpu]", bfloat16,
                   float16) {
  SKIP_WITHOUT_GPU();
  ForwardInputs<TestType> inputs = full_inputs<TestType>({1, 2, 2, 130, 200, 128});
  Random random(4);
  fill_gaussian(inputs.q, random, 1e4);
  fill_gaussian(inputs.k, random, 1e4);
  check_forward(inputs, run_forward(inputs));
  // Scaled logits of +-4e10, as large as f16 can make them, where even f32 has steps of thousands.
  for (double sign : {1.0, -1.0}) {
    double key = 0;
    fill_constant(inputs.q, 59904);
    fill(inputs.k, [&](auto, auto, auto, auto c) {
      return c == 0 ? key = sign * (59904 - 256 * static_cast<double>(random.below(100))) : key;
    });
    CAPTURE(sign);
    check_forward(inputs, run_forward(inputs));
  }
}

TEST_CASE("U27 large f16 values do not overflow the product with the weights", "[gpu]") {
  SKIP_WITHOUT_GPU();
  ForwardInputs<float16> inputs = full_inputs<float16>({1, 1, 1, 130, 4096, 64});
  fill_constant(inputs.q, 0);
  fill_constant(inputs.v, 60000);
  check_all_equal(run_forward(inputs), 60000);
}

TEST_CASE("U28 the sum over very many keys does not leave the range of f16", "[gpu]") {
  SKIP_WITHOUT_GPU();
  for (std::int64_t kv_tokens : {65536, 131072, 131073}) {
    ForwardInputs<float16> inputs = full_inputs<float16>({1, 1, 1, 70, kv_tokens, 64});
    fill_constant(inputs.q, 0);
    fill_constant(inputs.v, 1);
    check_all_equal(run_forward(inputs), 1);
  }
}

TEST_CASE("U29 bf16 values of a million stay finite and right", "[gpu]") {
  SKIP_WITHOUT_GPU();
  ForwardInputs<bfloat16> inputs = full_inputs<bfloat16>({1, 2, 2, 200, 300, 64});
  Random random(6);
  fill_gaussian(inputs.v, random, 3e5);
  check_forward(inputs, run_forward(inputs));
  fill_gaussian(inputs.v, random, 1e36);
  check_forward(inputs, run_forward(inputs));
}

TEMPLATE_TEST_CASE("U30 logits that climb to the far side give the reference", "[gpu]", bfloat16, float16) {
  SKIP_WITHOUT_GPU();
  for (std::int64_t tokens : {257, 1025})
    for (double sign : {1.0, -1.0}) {
      ForwardInputs<TestType> inputs = full_inputs<TestType>({1, 1, 1, tokens, tokens, 64});
      // Logits are 2 * (n' - m') for whole n' and m', and every factor is exact in either type.
      fill(inputs.q, [&](auto, auto, auto n, auto c) {
        return c == 0 ? sign * 16 * static_cast<double>(n / 4) : c == 1 ? sign * 16 : 0.0;
      });
      fill(inputs.k, [&](auto, auto, auto n, auto c) {
        return c == 0 ? 1.0 : c == 1 ? -static_cast<double>(n / 4) : 0.0;
      });
      CAPTURE(tokens, sign);
      check_forward(inputs, run_forward(inputs));
    }
}

TEMPLATE_TEST_CASE("U31 out of range mask bits are ignored and a row may start with dropped blocks", "[gpu]",
                   bfloat16, float16) {
  SKIP_WITHOUT_GPU();
  AttentionProblem const p{1, 2, 2, 300, 500, 64};
  ForwardInputs<TestType> inputs = make_inputs<TestType>({p});
  inputs.mask = make_mask(p, [](auto, auto, auto i, auto j) { return j >= 3 + i; });
  ForwardOutput<TestType> const clean = run_forward(inputs);
  check_forward(inputs, clean);
  dirty_padding(p, inputs.mask);
  CHECK(run_forward(inputs) == clean);
}

TEMPLATE_TEST_CASE("U40 with values of one the output is one", "[gpu]", bfloat16, float16) {
  SKIP_WITHOUT_GPU();
  for (std::int64_t kv_tokens : {1, 65, 129, 641, 4097})
    for (int head_dim : {64, 128}) {
      ForwardInputs<TestType> inputs = full_inputs<TestType>({1, 2, 1, 200, kv_tokens, head_dim});
      fill_constant(inputs.v, 1);
      check_ones(run_forward(inputs));
      fill_constant(inputs.q, 0);  // then every weight is exactly 1 before it is normalised
      check_all_equal(run_forward(inputs), 1);
    }
}

TEMPLATE_TEST_CASE("A query whose kept logits are all minus infinity keeps no key", "[gpu]", bfloat16,
                   float16) {
  SKIP_WITHOUT_GPU();
  AttentionProblem const p{1, 1, 1, 128, 128, 64};
  ForwardInputs<TestType> inputs = full_inputs<TestType>(p);
  double const infinity = std::numeric_limits<double>::infinity();
  fill(inputs.q, [](auto...) { return 1.0; });
  fill(inputs.k, [&](auto, auto, auto n, auto c) { return c == 0 && n >= 64 ? -infinity : 0.5; });
  inputs.mask = make_mask(p, [](auto, auto, auto, auto j) { return j == 1; });
  ForwardOutput<TestType> const lost = run_forward(inputs);
  check_all_equal(lost, 0);
  for (float lse : lost.lse) REQUIRE(lse == -std::numeric_limits<float>::infinity());
  inputs.mask = full_mask(p);
  check_forward(inputs, run_forward(inputs));
}

TEMPLATE_TEST_CASE("U18 rows of very different lse in one block give the reference", "[gpu]", bfloat16,
                   float16) {
  SKIP_WITHOUT_GPU();
  AttentionProblem const p{1, 2, 2, 256, 300, 64};
  ForwardInputs<TestType> inputs = full_inputs<TestType>(p);
  // Rows alternate between lse near +80 and near -80; key 7 stands 60 above the rest for some.
  fill(inputs.q, [](auto, auto, auto n, auto c) {
    return c == 0 ? (n % 2 ? 16.0 : -16.0) : c == 1 ? n % 3 * 8.0 : 0.0;
  });
  Random random(8);
  fill(inputs.k, [&](auto, auto, auto n, auto c) {
    return c == 0 ? 40 + 0.25 * random.gaussian() : c == 1 && n == 7 ? 30.0 : 0.0;
  });
  check_forward(inputs, run_forward(inputs));
}
