/// Interpolation against the f64 reference.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "sparge/sparge.hpp"
#include "support/catch.hpp"
#include "support/distillation_case.hpp"
#include "support/gpu.hpp"

using namespace sparge;
using namespace sparge::test;

namespace {

template <class T>
std::vector<T> run_interpolate(DistillationProblem const& p, std::vector<T> const& x0,
                               std::vector<T> const& x1, std::vector<float> const& t) {
  InterpolatePlan<T> plan;
  must(plan_interpolate(p, test_device(), {}, &plan));
  DeviceBuffer<T> const from(x0), to(x1);
  DeviceBuffer<float> const times(t);
  DeviceBuffer<T> const out(p.elements());
  Stream const stream;
  must(interpolate(plan, {from.data(), to.data(), times.data(), out.data()}, stream));
  stream.wait();
  return out.download();
}

/// Elements that are not within three f32 roundings of either term, and the rounding to T.
template <class T>
std::int64_t count_wrong_between(DistillationProblem const& p, std::vector<T> const& x0,
                                 std::vector<T> const& x1, std::vector<float> const& t,
                                 std::vector<T> const& actual) {
  std::vector<double> const wanted =
      reference::interpolate(x0.data(), x1.data(), as_doubles(t).data(), p.samples, p.sample_elements);
  std::int64_t wrong = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    double const time = t[i / static_cast<std::size_t>(p.sample_elements)];
    double const size =
        std::abs(time * reference::to_double(x1[i])) + std::abs((1 - time) * reference::to_double(x0[i]));
    wrong += !is_rounded_once<T>(reference::to_double(actual[i]), wanted[i], std::ldexp(3.0, -24), size);
  }
  return wrong;
}

}  // namespace

TEMPLATE_TEST_CASE("U37 interpolation is right at any number of elements and samples", "[gpu]", bfloat16,
                   float16, float) {
  SKIP_WITHOUT_GPU();
  Random random(1);
  for (DistillationProblem const& p :
       {DistillationProblem{1, 1}, DistillationProblem{1, 9}, DistillationProblem{3, 5},
        DistillationProblem{64, 1}, DistillationProblem{1000, 3}, DistillationProblem{7, 4097},
        DistillationProblem{2, 8192}, DistillationProblem{1, 8193}, DistillationProblem{5, 131},
        DistillationProblem{3, 700001}}) {
    CAPTURE(p.samples, p.sample_elements);
    auto const x0 = gaussian_elements<TestType>(p.elements(), random, 1, 2);
    auto const x1 = gaussian_elements<TestType>(p.elements(), random, 3);
    auto const t = uniform_floats(p.samples, random);
    CHECK(count_wrong_between(p, x0, x1, t, run_interpolate(p, x0, x1, t)) == 0);
  }
}

TEMPLATE_TEST_CASE("Times of 0 and 1 give the ends themselves", "[gpu]", bfloat16, float16, float) {
  SKIP_WITHOUT_GPU();
  DistillationProblem const p{2, 5003};
  Random random(2);
  auto const x0 = gaussian_elements<TestType>(p.elements(), random, 1000);
  auto const x1 = gaussian_elements<TestType>(p.elements(), random, 1000);
  auto const out = run_interpolate(p, x0, x1, {0, 1});
  for (std::size_t i = 0; i < out.size(); ++i)
    REQUIRE(reference::to_double(out[i]) == reference::to_double(i < 5003 ? x0[i] : x1[i]));
}

TEMPLATE_TEST_CASE("NaN and infinity follow the formula and times may lie outside of 0 and 1", "[gpu]",
                   bfloat16, float16, float) {
  SKIP_WITHOUT_GPU();
  DistillationProblem const p{4, 1003};
  Random random(3);
  auto x0 = gaussian_elements<TestType>(p.elements(), random);
  auto x1 = gaussian_elements<TestType>(p.elements(), random);
  float const inf = std::numeric_limits<float>::infinity();
  x0[0] = x1[8] = x0[1002] = x1[1003] = x0[4011] = reference::round_to<TestType>(inf);
  x1[1002] = x0[2500] = reference::round_to<TestType>(-inf);
  x1[3] = x0[3300] = reference::round_to<TestType>(std::nanf(""));
  std::vector<float> const t{0.25f, -1.5f, 7, 1};
  CHECK(count_wrong_between(p, x0, x1, t, run_interpolate(p, x0, x1, t)) == 0);
}

TEST_CASE("U05 interpolation of nothing launches nothing", "[gpu]") {
  SKIP_WITHOUT_GPU();
  for (DistillationProblem const& p : {DistillationProblem{0, 5}, DistillationProblem{5, 0}}) {
    InterpolatePlan<float16> plan;
    must(plan_interpolate(p, test_device(), {}, &plan));
    Stream const stream;
    CHECK(interpolate(plan, {}, stream).ok());
    CHECK(cudaStreamQuery(stream) == cudaSuccess);
  }
}

TEST_CASE("U66 U77 interpolation is right beyond 2^32 elements", "[gpu][slow]") {
  SKIP_WITHOUT_GPU();
  // x0 and x1 are one buffer, x1 eight elements further on; zeros but for a few runs.
  DistillationProblem const p{3, ((std::int64_t{1} << 32) + 5003) / 3};
  std::int64_t const run = 1000;
  std::vector<float> const t{0.25f, 0.5f, 0.875f};
  DeviceBuffer<bfloat16> values(p.elements() + 8), out(p.elements());
  DeviceBuffer<float> const times(t);
  values.fill_bytes(0);
  std::int64_t const starts[] = {0, (std::int64_t{1} << 31) - 500, 2 * p.sample_elements - 500,
                                 (std::int64_t{1} << 32) - 500, p.elements() - run};
  Random random(4);
  for (std::int64_t start : starts) values.upload(gaussian_elements<bfloat16>(run, random), start);
  InterpolatePlan<bfloat16> plan;
  must(plan_interpolate(p, test_device(), {}, &plan));
  Stream const stream;
  must(interpolate(plan, {values.data(), values.data() + 8, times.data(), out.data()}, stream));
  stream.wait();
  for (std::int64_t start : starts) {
    CAPTURE(start);
    std::vector<bfloat16> const x = values.download(start, run + 8), actual = out.download(start, run);
    for (std::int64_t i = 0; i < run; ++i) {
      std::size_t const at = static_cast<std::size_t>(i);
      double const time = t[static_cast<std::size_t>((start + i) / p.sample_elements)];
      double const x0 = reference::to_double(x[at]), x1 = reference::to_double(x[at + 8]);
      REQUIRE(is_rounded_once<bfloat16>(reference::to_double(actual[at]), time * x1 + (1 - time) * x0,
                                        std::ldexp(3.0, -24), std::abs(x0) + std::abs(x1)));
    }
  }
}
