/// Laws of block-sparse attention that need no reference.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "sparge/sparge.hpp"
#include "support/attention_case.hpp"
#include "support/catch.hpp"
#include "support/gpu.hpp"

namespace {

using namespace sparge;
using namespace sparge::test;

/// Largest difference of two tensors, over the largest magnitude of the second.
template <class T>
double relative_difference(HostTensor<T> const& a, HostTensor<T> const& b) {
  std::vector<double> const x = a.values(), y = b.values();
  double difference = 0, largest = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    difference = max_or_nan(difference, std::abs(x[i] - y[i]));
    largest = std::max(largest, std::abs(y[i]));
  }
  return difference / largest;
}

/// One step of T at 1: results that differ in rounding alone stay within a few.
template <class T>
double step() {
  return unit_in_last_place<T>(1);
}

/// Two partial results of one row merged by their lse, in f64. A row that is empty in both stays empty.
struct MergedRow {
  double weight_a, weight_b, lse;
};
MergedRow merge(double lse_a, double lse_b) {
  double const top = std::max(lse_a, lse_b);
  if (std::isinf(top)) return {0, 0, top};
  double const a = std::exp(lse_a - top), b = std::exp(lse_b - top);
  return {a / (a + b), b / (a + b), top + std::log(a + b)};
}

}  // namespace

TEMPLATE_TEST_CASE("A mask that keeps every block is dense attention whatever the mask blocks are", "[gpu]",
                   bfloat16, float16) {
  SKIP_WITHOUT_GPU();
  ForwardCase c{{2, 4, 2, 300, 450, 64}};
  c.mask = MaskKind::full;
  ForwardInputs<TestType> inputs = make_inputs<TestType>(c);
  ForwardOutput<TestType> const wanted = run_forward(inputs);
  for (int q_block : {64, 128})
    for (int kv_block : {64, 128}) {
      inputs.problem.q_block = q_block, inputs.problem.kv_block = kv_block;
      inputs.mask = full_mask(inputs.problem);
      ForwardOutput<TestType> const output = run_forward(inputs);
      CHECK(relative_difference(output.out, wanted.out) <= 2 * step<TestType>());
    }
}

TEMPLATE_TEST_CASE("U91 U92 U93 disjoint masks merged by lse are their union", "[gpu]", bfloat16, float16) {
  SKIP_WITHOUT_GPU();
  for (int shards : {2, 4}) {
    ForwardCase c{{1, 4, 2, 300, 1000, 64}};
    c.mask = MaskKind::uneven;  // some rows are empty in a shard, some in all
    ForwardInputs<TestType> inputs = make_inputs<TestType>(c);
    AttentionProblem const& p = inputs.problem;
    MaskWords const whole = inputs.mask;
    ForwardOutput<TestType> const wanted = run_forward(inputs);
    std::vector<double> out(static_cast<std::size_t>(wanted.out.elements()), 0.0);
    std::vector<double> lse(wanted.lse.size(), -std::numeric_limits<double>::infinity());
    for (int shard = 0; shard < shards; ++shard) {
      MaskWords const part = make_mask(p, [&](auto, auto, auto, auto j) { return j % shards == shard; });
      for (std::size_t w = 0; w < whole.size(); ++w) inputs.mask[w] = whole[w] & part[w];
      ForwardOutput<TestType> const output = run_forward(inputs);
      std::vector<double> const values = output.out.values();
      for (std::size_t row = 0; row < lse.size(); ++row) {
        MergedRow const merged = merge(lse[row], output.lse[row]);
        for (std::int64_t d = 0; d < p.head_dim; ++d) {
          std::size_t const i = row * static_cast<std::size_t>(p.head_dim) + static_cast<std::size_t>(d);
          out[i] = merged.weight_a * out[i] + merged.weight_b * values[i];
        }
        lse[row] = merged.lse;
      }
    }
    std::vector<double> const one_shot = wanted.out.values();
    double difference = 0, largest = 0, lse_difference = 0;
    for (std::size_t i = 0; i < out.size(); ++i) {
      difference = max_or_nan(difference, std::abs(out[i] - one_shot[i]));
      largest = std::max(largest, std::abs(one_shot[i]));
    }
    for (std::size_t row = 0; row < lse.size(); ++row) {
      REQUIRE(std::isinf(lse[row]) == std::isinf(wanted.lse[row]));
      if (!std::isinf(lse[row]))
        lse_difference = max_or_nan(lse_difference, std::abs(lse[row] - wanted.lse[row]));
    }
    CHECK(difference <= 2 * step<TestType>() * largest);
    CHECK(lse_difference <= 1e-5);
  }
}

TEMPLATE_TEST_CASE("Permuting key blocks with the mask changes nothing beyond rounding", "[gpu]", bfloat16,
                   float16) {
  SKIP_WITHOUT_GPU();
  AttentionProblem const p{1, 2, 1, 300, 64 * 9, 64};
  ForwardInputs<TestType> const inputs = make_inputs<TestType>({p});
  std::vector<std::int64_t> order(static_cast<std::size_t>(p.kv_blocks()));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  Random random(21);
  for (std::size_t i = order.size() - 1; i > 0; --i)
    std::swap(order[i], order[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(i) + 1))]);
  ForwardInputs<TestType> permuted = inputs;
  auto const source = [&](std::int64_t n) { return order[static_cast<std::size_t>(n / 64)] * 64 + n % 64; };
  permuted.k.for_each_index([&](auto b, auto h, auto n, auto c) {
    permuted.k.at(b, h, n, c) = inputs.k.at(b, h, source(n), c);
    permuted.v.at(b, h, n, c) = inputs.v.at(b, h, source(n), c);
  });
  permuted.mask = make_mask(p, [&](auto b, auto h, auto i, auto j) {
    return reference::keeps(reference::mask_row(p, view_of(inputs.mask), b, h, i),
                            order[static_cast<std::size_t>(j)]);
  });
  ForwardOutput<TestType> const a = run_forward(inputs), b = run_forward(permuted);
  CHECK(relative_difference(a.out, b.out) <= 2 * step<TestType>());
  for (std::size_t row = 0; row < a.lse.size(); ++row)
    CHECK((a.lse[row] == b.lse[row] || std::abs(a.lse[row] - b.lse[row]) <= 1e-5));
}

TEMPLATE_TEST_CASE("The output is linear in the values", "[gpu]", bfloat16, float16) {
  SKIP_WITHOUT_GPU();
  ForwardInputs<TestType> inputs = make_inputs<TestType>({{1, 2, 2, 200, 400, 128}});
  ForwardOutput<TestType> const one = run_forward(inputs);
  HostTensor<TestType> const first = inputs.v;
  // By a power of two nothing but exponents changes, so the law holds to the bit.
  inputs.v.for_each_index(
      [&](auto... at) { set(inputs.v, at..., -4 * reference::to_double(first.at(at...))); });
  ForwardOutput<TestType> const scaled = run_forward(inputs);
  HostTensor<TestType> expected = one.out;
  expected.for_each_index(
      [&](auto... at) { set(expected, at..., -4 * reference::to_double(one.out.at(at...))); });
  double const least_normal = 1e-4;  // below it f16 steps do not scale
  std::int64_t wrong = 0;
  expected.for_each_index([&](auto... at) {
    double const x = reference::to_double(expected.at(at...)), y = reference::to_double(scaled.out.at(at...));
    wrong += x != y && (std::abs(x) > 4 * least_normal || std::abs(y) > 4 * least_normal);
  });
  CHECK(wrong == 0);
  CHECK(scaled.lse == one.lse);
  // A sum: what differs is the rounding of the inputs and of three outputs.
  HostTensor<TestType> second = first;
  Random random(33);
  fill_gaussian(second, random);
  inputs.v = second;
  ForwardOutput<TestType> const other = run_forward(inputs);
  inputs.v.for_each_index([&](auto... at) {
    set(inputs.v, at..., reference::to_double(first.at(at...)) + reference::to_double(second.at(at...)));
  });
  ForwardOutput<TestType> const sum = run_forward(inputs);
  expected.for_each_index([&](auto... at) {
    set(expected, at..., reference::to_double(one.out.at(at...)) + reference::to_double(other.out.at(at...)));
  });
  CHECK(relative_difference(sum.out, expected) <= 3 * step<TestType>());
}

TEMPLATE_TEST_CASE("U10 runs are identical to the bit while another stream loads the GPU", "[gpu]", bfloat16,
                   float16) {
  SKIP_WITHOUT_GPU();
  ForwardCase c{{1, 8, 8, 4096, 4096, 128}};
  c.mask = MaskKind::half;
  ForwardRun<TestType> run(make_inputs<TestType>(c));
  ForwardRun<TestType> load(make_inputs<TestType>({{1, 4, 4, 2048, 2048, 64}}));
  Stream const stream, other;
  must(run.run(stream));
  stream.wait();
  auto const wanted = run.download();
  auto const wanted_load = [&] {
    must(load.run(other));
    other.wait();
    return load.download();
  }();
  for (int repeat = 0; repeat < 30; ++repeat) {
    run.poison_outputs();
    for (int i = 0; i < 4; ++i) must(load.run(other));
    must(run.run(stream));
    stream.wait(), other.wait();
    REQUIRE(run.download() == wanted);
  }
  CHECK(load.download() == wanted_load);
}
