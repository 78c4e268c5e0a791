/// Laws of velocity distillation that need no reference, bit for bit where a factor is a power of two.

#include <cmath>
#include <cstdint>
#include <vector>

#include "sparge/sparge.hpp"
#include "support/catch.hpp"
#include "support/distillation_case.hpp"
#include "support/gpu.hpp"

namespace {

using namespace sparge;
using namespace sparge::test;

template <class T>
DistillationOutput<T> run_again(DistillationRun<T>& run, cudaStream_t stream) {
  run.poison_outputs();
  must(run.run(stream));
  CHECK_CUDA(cudaStreamSynchronize(stream));
  return run.download();
}

template <class T>
std::vector<T> times(std::vector<T> const& values, double factor) {
  std::vector<T> products(values.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    products[i] = reference::round_to<T>(static_cast<float>(factor * reference::to_double(values[i])));
  return products;
}

/// Elements that differ; tiny ones are left out, since f16 rounds below its normal range to steps that do not scale.
template <class T>
std::int64_t count_different(std::vector<T> const& a, std::vector<T> const& b) {
  REQUIRE(a.size() == b.size());
  std::int64_t different = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    double const x = reference::to_double(a[i]), y = reference::to_double(b[i]);
    different += x != y && !(std::abs(x) < 0x1p-12 && std::abs(y) < 0x1p-12);
  }
  return different;
}

}  // namespace

TEMPLATE_TEST_CASE("U10 loss and gradient are the same bits in every run under load", "[gpu]", bfloat16,
                   float16, float) {
  SKIP_WITHOUT_GPU();
  DistillationInputs<TestType> const inputs = make_weighted_inputs<TestType>({5, 300007}, 1);
  DistillationRun<TestType> run(inputs), load(inputs);
  Stream const stream, other;
  DistillationOutput<TestType> const wanted = run_again(run, stream);
  for (int repeat = 0; repeat < 30; ++repeat) {
    must(load.run(other));
    CHECK(run_again(run, stream) == wanted);
  }
  other.wait();
}

TEMPLATE_TEST_CASE("U10 neither multiprocessors nor caches that a plan names change a bit", "[gpu]", bfloat16,
                   float) {
  SKIP_WITHOUT_GPU();
  DistillationInputs<TestType> const inputs = make_weighted_inputs<TestType>({5, 300007}, 2);
  DistillationOutput<TestType> const wanted = run_distillation(inputs);
  Stream const stream;
  for (std::int32_t sm_count : {1, 20, 108, 1000}) {
    Device device = test_device();
    device.sm_count = sm_count, device.l2_bytes = sm_count;
    DistillationRun<TestType> run(inputs, Gradient::wanted, device);
    CHECK(run_again(run, stream) == wanted);
  }
}

TEMPLATE_TEST_CASE("U13 what a workspace held before changes no bit of the loss", "[gpu]", bfloat16, float16,
                   float) {
  SKIP_WITHOUT_GPU();
  DistillationRun<TestType> run(make_weighted_inputs<TestType>({3, 50021}, 3));
  Stream const stream;
  DistillationOutput<TestType> const wanted = run_again(run, stream);
  for (unsigned char byte : {0x00, 0xFF, 0x7F, 0x42}) {
    run.scratch().bytes().fill_bytes(byte);
    CHECK(run_again(run, stream) == wanted);
  }
}

TEMPLATE_TEST_CASE("Loss and gradient are linear in the weights", "[gpu]", bfloat16, float16, float) {
  SKIP_WITHOUT_GPU();
  DistillationInputs<TestType> inputs = make_weighted_inputs<TestType>({4, 9001}, 4);
  inputs.grad_loss = 65536.0f;
  std::vector<float> const first = inputs.weights;
  DistillationOutput<TestType> const one = run_distillation(inputs);
  inputs.weights = times(first, 2);
  DistillationOutput<TestType> const two = run_distillation(inputs);
  CHECK(two.loss == 2 * one.loss);
  CHECK(count_different(two.grad, times(one.grad, 2)) == 0);
  std::vector<float> const second{0.5f, 0.0f, 3.0f, 1.0f};
  inputs.weights = second;
  float const other = run_distillation(inputs).loss;
  for (std::size_t i = 0; i < 4; ++i) inputs.weights[i] = first[i] + second[i];
  CHECK(run_distillation(inputs).loss == Approx(one.loss + other).epsilon(2e-6));
}

TEMPLATE_TEST_CASE("Weights of one are no weights", "[gpu]", bfloat16, float16, float) {
  SKIP_WITHOUT_GPU();
  // Whole loads a sample: the squares are then added in the same order.
  DistillationInputs<TestType> inputs = make_distillation_inputs<TestType>({6, 8000}, 5);
  DistillationOutput<TestType> const plain = run_distillation(inputs);
  inputs.weights.assign(6, 1.0f);
  CHECK(run_distillation(inputs) == plain);
}

TEMPLATE_TEST_CASE("The gradient is linear in the gradient from behind and the loss does not see it", "[gpu]",
                   bfloat16, float16, float) {
  SKIP_WITHOUT_GPU();
  DistillationInputs<TestType> inputs = make_weighted_inputs<TestType>({3, 9001}, 6);
  inputs.grad_loss = 65536.0f;
  DistillationOutput<TestType> const one = run_distillation(inputs);
  inputs.grad_loss = -131072.0f;
  DistillationOutput<TestType> const other = run_distillation(inputs);
  CHECK(other.loss == one.loss);
  CHECK(count_different(other.grad, times(one.grad, -2)) == 0);
}

TEMPLATE_TEST_CASE("Student and teacher in each other's place negate the gradient", "[gpu]", bfloat16,
                   float16, float) {
  SKIP_WITHOUT_GPU();
  DistillationInputs<TestType> inputs = make_weighted_inputs<TestType>({3, 9001}, 7);
  DistillationOutput<TestType> const one = run_distillation(inputs);
  std::swap(inputs.student, inputs.teacher);
  DistillationOutput<TestType> const other = run_distillation(inputs);
  CHECK(other.loss == one.loss);
  CHECK(count_different(other.grad, times(one.grad, -1)) == 0);
}

TEMPLATE_TEST_CASE("A student that agrees with the teacher has no loss and no gradient", "[gpu]", bfloat16,
                   float16, float) {
  SKIP_WITHOUT_GPU();
  DistillationInputs<TestType> inputs = make_weighted_inputs<TestType>({3, 9001}, 8);
  inputs.teacher = inputs.student;
  DistillationOutput<TestType> const output = run_distillation(inputs);
  CHECK(output.loss == 0);
  for (TestType g : output.grad) REQUIRE(reference::to_double(g) == 0);
}

TEMPLATE_TEST_CASE("U08 a sample alone has the gradient that it has in its batch", "[gpu]", bfloat16, float16,
                   float) {
  SKIP_WITHOUT_GPU();
  DistillationProblem const batch{4, 9001};
  DistillationInputs<TestType> inputs = make_weighted_inputs<TestType>(batch, 9);
  inputs.grad_loss = 262144.0f;
  DistillationOutput<TestType> const together = run_distillation(inputs);
  for (std::int64_t sample = 0; sample < batch.samples; ++sample) {
    auto const part = [&](std::vector<TestType> const& x) {
      return std::vector<TestType>(x.begin() + sample * 9001, x.begin() + (sample + 1) * 9001);
    };
    DistillationInputs<TestType> const alone{
        {1, 9001},
        part(inputs.student),
        part(inputs.teacher),
        {inputs.weights[static_cast<std::size_t>(sample)]},
        65536.0f};  // a quarter: the mean is over a quarter of the elements
    CHECK(count_different(run_distillation(alone).grad, part(together.grad)) == 0);
  }
}
