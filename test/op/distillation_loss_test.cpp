/// The distillation loss and its gradient against the f64 reference.

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "sparge/plan/distillation.hpp"
#include "sparge/sparge.hpp"
#include "support/catch.hpp"
#include "support/distillation_case.hpp"
#include "support/gpu.hpp"

using namespace sparge;
using namespace sparge::test;

namespace {

/// Below, at and above what one load, one tile and one thread hold; samples that end inside a load; samples of one element.
constexpr DistillationProblem odd_problems[] = {
    {1, 1},    {1, 3},    {1, 4},     {1, 5},     {1, 7},     {1, 8},    {1, 9},     {3, 5},
    {2, 8},    {5, 13},   {64, 1},    {1000, 3},  {7, 4097},  {1, 1023}, {1, 4096},  {1, 4095},
    {1, 8191}, {1, 8192}, {1, 8193},  {3, 8192},  {9, 4096},  {33, 12},  {2, 65536}, {300, 17},
    {17, 300}, {4, 2047}, {2, 40000}, {100, 256}, {1, 131071}};

template <class T>
void check_both_ways(DistillationInputs<T> const& inputs) {
  check_distillation(inputs, run_distillation(inputs));
  DistillationOutput<T> const alone = run_distillation(inputs, Gradient::left_out);
  check_distillation(inputs, alone, Gradient::left_out);
}

double infinity_or_nan(int which) {
  return which == 0   ? std::numeric_limits<double>::infinity()
         : which == 1 ? -std::numeric_limits<double>::infinity()
                      : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace

TEMPLATE_TEST_CASE("U37 loss and gradient are right at any number of elements and samples", "[gpu]", bfloat16,
                   float16, float) {
  SKIP_WITHOUT_GPU();
  std::uint64_t seed = 1;
  for (DistillationProblem const& p : odd_problems) {
    DistillationInputs<TestType> inputs = make_distillation_inputs<TestType>(p, ++seed);
    check_both_ways(inputs);
    inputs.grad_loss = 3.7f;
    check_both_ways(inputs);
    inputs = make_weighted_inputs<TestType>(p, ++seed);
    check_both_ways(inputs);
    inputs.grad_loss = -0.3f;
    check_both_ways(inputs);
  }
}

TEMPLATE_TEST_CASE("Weights of both signs and of zero are right", "[gpu]", bfloat16, float16, float) {
  SKIP_WITHOUT_GPU();
  DistillationInputs<TestType> inputs = make_weighted_inputs<TestType>({6, 1003}, 5);
  inputs.weights = {1, 0, -2.5f, 1e-3f, 1000, -0.0f};
  check_both_ways(inputs);
  inputs.weights.assign(6, 0.0f);
  DistillationOutput<TestType> const output = run_distillation(inputs);
  CHECK(output.loss == 0);
  for (TestType g : output.grad) CHECK(reference::to_double(g) == 0);
}

TEMPLATE_TEST_CASE("The loss alone is the loss beside a gradient bit for bit", "[gpu]", bfloat16, float16,
                   float) {
  SKIP_WITHOUT_GPU();
  DistillationInputs<TestType> inputs = make_weighted_inputs<TestType>({3, 20011}, 7);
  float const wanted = run_distillation(inputs).loss;
  CHECK(run_distillation(inputs, Gradient::left_out).loss == wanted);
  inputs.grad_loss = 1024.0f;
  CHECK(run_distillation(inputs).loss == wanted);
  CHECK(run_distillation(inputs, Gradient::left_out).loss == wanted);
}

TEMPLATE_TEST_CASE("Millions of elements are right in every tile of every thread block", "[gpu]", bfloat16,
                   float16, float) {
  SKIP_WITHOUT_GPU();
  for (DistillationProblem const& p : {DistillationProblem{3, 700001}, DistillationProblem{64, 40000}}) {
    DistillationInputs<TestType> inputs = make_weighted_inputs<TestType>(p, 11);
    inputs.grad_loss = 65536.0f;
    check_both_ways(inputs);
  }
}

TEMPLATE_TEST_CASE("More tiles than thread blocks are all visited once", "[gpu][slow]", bfloat16, float) {
  SKIP_WITHOUT_GPU();
  constexpr std::int64_t round =
      distillation::most_blocks * distillation::tile_loads * distillation::load_elements<TestType>;
  DistillationProblem const p{3, round / 3 + 400003};
  DistillationInputs<TestType> inputs{p, {}, {}, {0.5f, 1.25f, 3}, 1e6f};
  Random random(13);
  std::vector<TestType> const pattern = gaussian_elements<TestType>(262147, random);
  auto const fill = [&](std::vector<TestType>& x, std::size_t shift) {
    x.resize(static_cast<std::size_t>(p.elements()));
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = pattern[(i + shift) % pattern.size()];
  };
  fill(inputs.student, 0), fill(inputs.teacher, 100003);
  check_distillation(inputs, run_distillation(inputs));
}

TEMPLATE_TEST_CASE("A common mean a thousand times the difference costs no accuracy", "[gpu]", bfloat16,
                   float16, float) {
  SKIP_WITHOUT_GPU();
  double const sigma = std::is_same_v<TestType, float> ? 0.01 : 3;
  check_both_ways(make_distillation_inputs<TestType>({2, 100003}, 17, sigma, 1000));
}

TEST_CASE("The error of the loss does not grow with the number of elements", "[gpu]") {
  SKIP_WITHOUT_GPU();
  std::int64_t const count = (std::int64_t{1} << 26) + 5;
  DeviceBuffer<float> student(count), teacher(count), loss(1);
  student.fill_bytes(0x3E), teacher.fill_bytes(0);
  std::uint32_t const bits = 0x3E3E3E3E;
  float value = 0;
  std::memcpy(&value, &bits, sizeof(value));
  DistillationLossPlan<float> plan;
  must(plan_distillation_loss({1, count}, test_device(), {}, &plan));
  ScratchBuffer const scratch(plan.workspace_bytes);
  DistillationLossArgs<float> args{student.data(), teacher.data()};
  args.loss = loss.data();
  Stream const stream;
  must(distillation_loss(plan, args, scratch.workspace(), stream));
  stream.wait();
  double const wanted = static_cast<double>(value) * value;
  CHECK(std::abs(loss.download()[0] - wanted) <= std::ldexp(wanted, -21));
}

TEMPLATE_TEST_CASE("NaN and infinity reach the loss and their own element of the gradient", "[gpu]", bfloat16,
                   float16, float) {
  SKIP_WITHOUT_GPU();
  for (int which : {0, 1, 2})
    for (std::size_t at : {0u, 8u, 4099u, 4100u, 8215u, 8217u})
      for (bool both : {false, true}) {
        CAPTURE(which, at, both);
        DistillationInputs<TestType> inputs = make_weighted_inputs<TestType>({2, 4109}, 19);
        inputs.student[at] = reference::round_to<TestType>(static_cast<float>(infinity_or_nan(which)));
        if (both) inputs.teacher[at] = inputs.student[at];
        check_both_ways(inputs);
        inputs.weights.assign(2, 0.0f);
        check_both_ways(inputs);
      }
}

TEST_CASE("A NaN weight spoils its own sample alone", "[gpu]") {
  SKIP_WITHOUT_GPU();
  DistillationInputs<bfloat16> inputs = make_weighted_inputs<bfloat16>({4, 1001}, 23);
  inputs.weights[2] = std::numeric_limits<float>::quiet_NaN();
  check_both_ways(inputs);
}

TEST_CASE("A loss scale carries f16 gradients that would underflow", "[gpu]") {
  SKIP_WITHOUT_GPU();
  DistillationInputs<float16> inputs = make_distillation_inputs<float16>({4, 1 << 20}, 29, 0.005);
  auto const zeros = [](std::vector<float16> const& grad) {
    std::size_t count = 0;
    for (float16 g : grad) count += reference::to_double(g) == 0;
    return count;
  };
  DistillationOutput<float16> const plain = run_distillation(inputs);
  check_distillation(inputs, plain);
  CHECK(zeros(plain.grad) == plain.grad.size());
  inputs.grad_loss = 16777216.0f;
  DistillationOutput<float16> const scaled = run_distillation(inputs);
  check_distillation(inputs, scaled);
  CHECK(zeros(scaled.grad) < scaled.grad.size() / 50);  // only where student and teacher are equal
  inputs.grad_loss = 2e13f;                             // and too large a one is an honest infinity
  check_distillation(inputs, run_distillation(inputs));
}

TEMPLATE_TEST_CASE("U05 without elements the loss is 0 and nothing else is touched", "[gpu]", bfloat16,
                   float16, float) {
  SKIP_WITHOUT_GPU();
  for (DistillationProblem const& p :
       {DistillationProblem{0, 5}, DistillationProblem{5, 0}, DistillationProblem{0, 0}}) {
    DistillationLossPlan<TestType> plan;
    must(plan_distillation_loss(p, test_device(), {}, &plan));
    CHECK(plan.workspace_bytes == 0);
    DeviceBuffer<float> loss(1);
    DistillationLossArgs<TestType> args;
    args.loss = loss.data();
    Stream const stream;
    must(distillation_loss(plan, args, {}, stream));
    stream.wait();
    CHECK(loss.download()[0] == 0);
  }
}

TEST_CASE("U66 U74 U77 loss and gradient are right beyond 2^32 elements", "[gpu][slow]") {
  SKIP_WITHOUT_GPU();
  // Student and teacher are one buffer, the teacher eight elements further on; zeros but for a few runs.
  std::int64_t const count = (std::int64_t{1} << 32) + 5003, run = 1000;
  std::vector<float> const weights{0.5f, 2, 3};
  DistillationProblem const p{3, count / 3};
  std::int64_t const starts[] = {0, (std::int64_t{1} << 31) - 500, p.sample_elements * 2 - 500,
                                 (std::int64_t{1} << 32) - 500, p.elements() - run};
  DeviceBuffer<bfloat16> values(p.elements() + 8), grad(p.elements());
  DeviceBuffer<float> const device_weights(weights), scale(std::vector<float>{1e9f});
  DeviceBuffer<float> loss(1);
  values.fill_bytes(0);
  Random random(31);
  for (std::int64_t start : starts) values.upload(gaussian_elements<bfloat16>(run, random), start);
  DistillationLossPlan<bfloat16> plan;
  must(plan_distillation_loss(p, test_device(), {}, &plan));
  ScratchBuffer const scratch(plan.workspace_bytes);
  DistillationLossArgs<bfloat16> args{values.data(), values.data() + 8, device_weights.data(), scale.data()};
  args.loss = loss.data(), args.grad_student = grad.data();
  Stream const stream;
  must(distillation_loss(plan, args, scratch.workspace(), stream));
  stream.wait();
  double wanted_loss = 0, n = static_cast<double>(p.elements());
  for (std::int64_t start : starts) {
    std::int64_t const first = std::max<std::int64_t>(start - 16, 0),
                       end = std::min(start + run + 16, p.elements());
    std::vector<bfloat16> const x = values.download(first, end - first + 8);
    std::vector<double> wanted;
    for (std::int64_t i = first; i < end; ++i) {
      std::size_t const at = static_cast<std::size_t>(i - first);
      double const difference = reference::to_double(x[at]) - reference::to_double(x[at + 8]);
      double const weight = weights[static_cast<std::size_t>(i / p.sample_elements)];
      wanted_loss += weight * difference * difference / n;
      wanted.push_back(2e9 * weight * difference / n);
    }
    CAPTURE(start);
    CHECK(count_wrong(grad.download(first, end - first), wanted, std::ldexp(1.0, -22)) == 0);
  }
  CHECK(std::abs(loss.download()[0] - wanted_loss) <= std::ldexp(wanted_loss, -21));
  for (std::int64_t at : {std::int64_t{1} << 20, std::int64_t{1} << 30, (std::int64_t{1} << 31) + 4096})
    for (bfloat16 g : grad.download(at, 4096)) REQUIRE(reference::to_double(g) == 0);
}
