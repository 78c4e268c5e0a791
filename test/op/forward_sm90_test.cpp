/// forward() on what the softmax of the kernels for 9.0 must survive: it takes no maximum of a tile as long as weights stay in range,
/// so these inputs leave the range in every way. On another GPU the same tests run the portable kernels.

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "sparge/plan/forward_config.hpp"
#include "sparge/sparge.hpp"
#include "support/attention_case.hpp"
#include "support/catch.hpp"
#include "support/gpu.hpp"

namespace {

using namespace sparge;
using namespace sparge::test;

/// About a tenth of the blocks, the last one in every row that keeps any; one row in five keeps none.
MaskWords mask_with_last_block(AttentionProblem const& p, std::uint64_t seed) {
  Random random(seed);
  MaskWords words = make_mask(p, [&](auto, auto h, auto i, auto j) {
    if ((h + i) % 5 == 4) return false;
    return j == p.kv_blocks() - 1 || random.chance(0.1);
  });
  dirty_padding(p, words);
  return words;
}

/// Gaussian inputs at `sigma` for the queries.
template <class T>
ForwardInputs<T> gaussian_inputs(AttentionProblem const& p, double sigma, std::uint64_t seed) {
  ForwardInputs<T> inputs{p, HostTensor<T>(q_shape(p)), HostTensor<T>(kv_shape(p)),
                          HostTensor<T>(kv_shape(p)), mask_with_last_block(p, seed)};
  Random random(seed);
  fill_gaussian(inputs.q, random, sigma);
  fill_gaussian(inputs.k, random);
  fill_gaussian(inputs.v, random);
  return inputs;
}

/// Adds `nats` to the logit of the last key, in the rows that `chosen` says: channel 0 carries nothing else.
template <class T, class Chosen>
void raise_last_key(ForwardInputs<T>& inputs, double nats, Chosen chosen) {
  AttentionProblem const& p = inputs.problem;
  inputs.q.for_each_index([&](auto b, auto h, auto n, auto c) {
    if (c == 0) set(inputs.q, b, h, n, c, chosen(n) ? 16 : 0);
  });
  inputs.k.for_each_index([&](auto b, auto h, auto n, auto c) {
    if (c == 0) set(inputs.k, b, h, n, c, n == p.kv_tokens - 1 ? nats * std::sqrt(p.head_dim) / 16 : 0);
  });
}

/// The rows at both ends and random ones.
template <class T>
void check_sampled(ForwardInputs<T> const& inputs) {
  Random random(5);
  ForwardTruth const truth = truth_of(inputs, sample_rows(inputs.problem, random, 200));
  check_forward(inputs.problem, truth, run_forward(inputs));
}

AttentionProblem long_problem(int head_dim) { return {1, 2, 1, 700, 4000, head_dim}; }

}  // namespace

TEMPLATE_TEST_CASE("Plans take the kernels for 9.0 where the GPU and the build have what they need",
                   "[gpu][sm90]", bfloat16, float16) {
  SKIP_WITHOUT_GPU();
  Device const device = test_device();
  bool const wanted = device.capability() == 90 && has_kernels_of(Arch::sm90a, built::targets);
  for (int head_dim : {64, 128})
    for (int q_block : {64, 128})
      for (int kv_block : {64, 128}) {
        AttentionProblem p{1, 2, 2, 300, 500, head_dim};
        p.q_block = q_block, p.kv_block = kv_block;
        ForwardPlan<TestType> plan;
        must(plan_forward(p, device, {}, &plan));
        KernelInfo info{};
        must(supported_kernel(plan.kernel, &info));
        bool const is_sm90a = std::string(info.name).rfind("sm90a", 0) == 0;
        CAPTURE(info.name, q_block, kv_block);
        CHECK(is_sm90a == (wanted && q_block == 128 && kv_block == 64));
        CHECK((plan.workspace_bytes > 0) == is_sm90a);
      }
}

TEMPLATE_TEST_CASE("An outlier in the last block is exact however far it stands above the rest",
                   "[gpu][sm90]", bfloat16, float16) {
  SKIP_WITHOUT_GPU();
  // In nats. Weights leave the range that is kept without a maximum near 10, f32 near 89.
  for (double nats : {-200.0, 3.0, 9.0, 11.0, 60.0, 88.0, 95.0, 200.0})
    for (int head_dim : {64, 128}) {
      CAPTURE(nats, head_dim);
      ForwardInputs<TestType> inputs = gaussian_inputs<TestType>(long_problem(head_dim), 1, 3);
      raise_last_key(inputs, nats, [](auto) { return true; });
      check_sampled(inputs);
      raise_last_key(inputs, nats,
                     [](auto n) { return n % 16 == 3; });  // beside rows that never leave the range
      check_sampled(inputs);
    }
}

TEMPLATE_TEST_CASE("Rows whose first tile is far below what follows give the reference", "[gpu][sm90]",
                   bfloat16, float16) {
  SKIP_WITHOUT_GPU();
  for (double nats : {12.0, 120.0, 6000.0})
    for (int head_dim : {64, 128}) {
      CAPTURE(nats, head_dim);
      ForwardInputs<TestType> inputs = gaussian_inputs<TestType>(long_problem(head_dim), 1, 4);
      raise_last_key(inputs, 0, [](auto) { return true; });
      std::int64_t const last = inputs.problem.kv_tokens - 1;
      double const most = nats * std::sqrt(head_dim) / 16;  // climbs to it, then falls back for the last tile
      inputs.k.for_each_index([&](auto b, auto h, auto n, auto c) {
        if (c == 0)
          set(inputs.k, b, h, n, c,
              n + 64 > last ? 0 : most * static_cast<double>(n) / static_cast<double>(last));
      });
      check_sampled(inputs);
    }
}

TEMPLATE_TEST_CASE("Logits of hundreds and thousands and a million give the reference on uneven rows",
                   "[gpu][sm90]", bfloat16, float16) {
  SKIP_WITHOUT_GPU();
  for (int head_dim : {64, 128}) {
    for (double sigma : {8.0, 40.0, 300.0}) {
      CAPTURE(sigma, head_dim);
      check_sampled(gaussian_inputs<TestType>(long_problem(head_dim), sigma, 5));
    }
    for (Inputs kind : {Inputs::huge_logits, Inputs::huge_negative_logits, Inputs::heavy_tailed}) {
      CAPTURE(static_cast<int>(kind), head_dim);
      ForwardCase c{{2, 3, 3, 1000, 1100, head_dim}};
      c.inputs = kind;
      check_sampled(make_inputs<TestType>(c));
    }
  }
}

TEST_CASE("U27 f16 values near the top of the range stay finite when later keys win", "[gpu][sm90]") {
  SKIP_WITHOUT_GPU();
  for (int head_dim : {64, 128})
    for (double nats : {9.0, 200.0}) {
      CAPTURE(nats, head_dim);
      ForwardInputs<float16> inputs = gaussian_inputs<float16>(long_problem(head_dim), 4, 6);
      raise_last_key(inputs, nats, [](auto n) { return n % 3 == 0; });
      Random random(7);
      fill(inputs.v, [&](auto...) { return random.chance(0.5) ? 60000.0 : -60000.0; });
      check_sampled(inputs);
      fill_constant(inputs.v, 60000);
      check_sampled(inputs);
    }
}

TEST_CASE("U29 bf16 values times weights above one may leave f32 and still give the reference",
          "[gpu][sm90]") {
  SKIP_WITHOUT_GPU();
  for (int head_dim : {64, 128})
    for (double nats : {4.0, 9.0, 200.0}) {
      CAPTURE(nats, head_dim);
      ForwardInputs<bfloat16> inputs = gaussian_inputs<bfloat16>(long_problem(head_dim), 1, 8);
      raise_last_key(inputs, nats, [](auto n) { return n % 2 == 0; });
      Random random(9);
      fill_gaussian(inputs.v, random, 1e36);
      check_sampled(inputs);
    }
}

TEMPLATE_TEST_CASE("U22 lse is right where the softmax is computed twice", "[gpu][sm90]", bfloat16, float16) {
  SKIP_WITHOUT_GPU();
  for (int head_dim : {64, 128}) {
    ForwardInputs<TestType> inputs = gaussian_inputs<TestType>(long_problem(head_dim), 1, 10);
    raise_last_key(inputs, 150, [](auto n) { return n == 77; });
    ForwardOutput<TestType> const output = run_forward(inputs);
    check_forward(inputs.problem, truth_of(inputs, {{0, 0, 64}, {0, 0, 77}, {0, 0, 79}, {0, 1, 77}}), output);
    ForwardChoices choices;
    choices.with_lse = false;
    CHECK(element_bits(run_forward(inputs, choices).out) == element_bits(output.out));
  }
}
