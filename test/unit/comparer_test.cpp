/// The comparer must be able to say no.

#include <cmath>
#include <limits>

#include "sparge/reference/arithmetic.hpp"
#include "support/catch.hpp"
#include "support/compare.hpp"
#include "support/random.hpp"

using namespace sparge;
using namespace sparge::test;

namespace {

constexpr double nan_value = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();

/// A reference, a result a rounding away from it, and a naive result with twice that rounding.
struct Sample {
  std::vector<double> reference, actual, naive;

  template <class T>
  static Sample of(std::uint64_t seed) {
    Random random(seed);
    Sample s;
    for (int i = 0; i < 1024; ++i) {
      double const x = random.gaussian();
      s.reference.push_back(x);
      s.actual.push_back(reference::Working<T>::narrow(static_cast<float>(x)));
      double const worse = x + (random.uniform() - 0.5) * unit_in_last_place<T>(x);
      s.naive.push_back(reference::Working<T>::narrow(static_cast<float>(worse)));
    }
    return s;
  }

  template <class T>
  Comparison verdict() const {
    return compare<T>(actual, reference, naive);
  }
};

}  // namespace

TEMPLATE_TEST_CASE("the comparer accepts a rounded result", "", bfloat16, float16, float) {
  CHECK(Sample::of<TestType>(1).template verdict<TestType>());
}

TEMPLATE_TEST_CASE("U34 the comparer refuses NaN and Inf in the result", "", bfloat16, float16, float) {
  Sample s = Sample::of<TestType>(2);
  s.actual[77] = GENERATE(as<double>{}, nan_value, infinity, -infinity);
  CHECK_FALSE(s.verdict<TestType>());
}

TEST_CASE("U34 the comparer refuses a finite result where the reference is not") {
  Sample s = Sample::of<bfloat16>(3);
  s.reference[77] = s.naive[77] = GENERATE(as<double>{}, nan_value, infinity, -infinity);
  CHECK_FALSE(s.verdict<bfloat16>());
  s.actual[77] = s.reference[77];
  CHECK(s.verdict<bfloat16>());
}

TEST_CASE("U34 the comparer tells NaN from Inf and one infinity from the other") {
  Sample s = Sample::of<bfloat16>(4);
  s.reference[5] = s.naive[5] = infinity;
  s.actual[5] = GENERATE(as<double>{}, nan_value, -infinity, 3.3895313892515355e38);
  CHECK_FALSE(s.verdict<bfloat16>());
}

TEST_CASE("a value too large for the type is expected as infinity") {
  Sample s = Sample::of<float16>(5);
  s.reference[9] = 70000;
  s.actual[9] = s.naive[9] = infinity;
  CHECK(s.verdict<float16>());
  s.actual[9] = 65504;
  CHECK_FALSE(s.verdict<float16>());
}

TEST_CASE("a naive result that is not finite measures nothing and is refused") {
  Sample s = Sample::of<bfloat16>(6);
  s.naive[3] = GENERATE(as<double>{}, nan_value, infinity);
  CHECK_FALSE(s.verdict<bfloat16>());
}

TEST_CASE("one wrong element is found") {
  Sample s = Sample::of<bfloat16>(7);
  s.actual[1000] += 0.1;
  Comparison const verdict = s.verdict<bfloat16>();
  CHECK_FALSE(verdict);
  CHECK(verdict.worst == 1000);
}

TEST_CASE("U40 a result that is all a little too small is found") {
  Sample s = Sample::of<bfloat16>(8);
  double const scale = GENERATE(0.98, 1.02, 0.5, -1.0);
  for (double& x : s.actual) x *= scale;
  CHECK_FALSE(s.verdict<bfloat16>());
}

TEST_CASE("zeros are not a result") {
  Sample s = Sample::of<bfloat16>(9);
  s.actual.assign(s.actual.size(), 0.0);
  CHECK_FALSE(s.verdict<bfloat16>());
  // Not even where a poor naive result allows every element to be zero.
  for (double& x : s.naive) x = 100;
  CHECK_FALSE(s.verdict<bfloat16>());
}

TEST_CASE("zeros are right where the reference is zero") {
  std::vector<double> const zeros(64, 0.0);
  CHECK(compare<bfloat16>(zeros, zeros, zeros));
  std::vector<double> noise = zeros;
  noise[3] = 1e-6;
  CHECK_FALSE(compare<bfloat16>(noise, zeros, zeros));
  CHECK(compare<bfloat16>(noise, zeros, zeros, 1e-5));
  noise[3] = 1e-4;
  CHECK_FALSE(compare<bfloat16>(noise, zeros, zeros, 1e-5));
}

TEST_CASE("rounding among the smallest numbers of the type is allowed") {
  std::vector<double> reference, rounded;
  for (int i = 1; i < 50; ++i) {
    reference.push_back(i % 7 * 0.3 * 0x1p-24);
    rounded.push_back(reference::Working<float16>::narrow(static_cast<float>(reference.back())));
  }
  CHECK(compare<float16>(rounded, reference, reference));
}

TEST_CASE("the floor allows its error in one small number") {
  CHECK(compare<float>({1e-4 + 5e-7}, {1e-4}, {1e-4}, 1e-6));
  CHECK_FALSE(compare<float>({1e-4 + 5e-7}, {1e-4}, {1e-4}));
}

TEST_CASE("swapped rows are found") {
  Sample s = Sample::of<bfloat16>(10);
  for (int c = 0; c < 64; ++c) std::swap(s.actual[c], s.actual[64 + c]);
  CHECK_FALSE(s.verdict<bfloat16>());
}

TEST_CASE("the direction is checked where one large element hides the others") {
  Sample s = Sample::of<bfloat16>(11);
  s.reference[0] = s.actual[0] = s.naive[0] = 4096;  // one step of bf16 there is 32
  CHECK(s.verdict<bfloat16>());
  for (std::size_t i = 1; i < s.actual.size(); ++i) s.actual[i] += i % 2 ? 30 : -30;
  Comparison const verdict = s.verdict<bfloat16>();
  CHECK(verdict.error <= verdict.allowed_error);
  CHECK_FALSE(verdict);
}

TEST_CASE("a largest difference does not lose a NaN whatever comes before or after it") {
  CHECK(max_or_nan(1, 2) == 2);
  CHECK(max_or_nan(2, 1) == 2);
  CHECK(std::isnan(max_or_nan(nan_value, 1)));
  CHECK(std::isnan(max_or_nan(1, nan_value)));
}

TEST_CASE("results of different sizes are refused and empty ones are right") {
  CHECK_FALSE(compare<float>({1, 2}, {1}, {1}));
  CHECK_FALSE(compare<float>({1}, {1}, {1, 2}));
  CHECK(compare<float>({}, {}, {}));
}

TEST_CASE("units in the last place") {
  CHECK(unit_in_last_place<bfloat16>(1) == 0x1p-7);
  CHECK(unit_in_last_place<bfloat16>(1.99) == 0x1p-7);
  CHECK(unit_in_last_place<bfloat16>(0) == 0x1p-133);
  CHECK(unit_in_last_place<float16>(-1) == 0x1p-10);
  CHECK(unit_in_last_place<float16>(1e-7) == 0x1p-24);
  CHECK(unit_in_last_place<float>(1) == 0x1p-23);
}

TEST_CASE("seeded inputs are the same numbers everywhere") {
  Random random(1);
  CHECK(random.next() == 0x910a2dec89025cc1ull);
  CHECK(random.uniform() == Approx(0.7457817572627012).epsilon(1e-15));
  double sum = 0, squares = 0;
  for (int i = 0; i < 20000; ++i) {
    double const x = random.gaussian();
    sum += x, squares += x * x;
  }
  CHECK(std::abs(sum / 20000) < 0.03);
  CHECK(squares / 20000 == Approx(1).epsilon(0.03));
}

TEST_CASE("uneven masks have the row lengths they promise and clean padding") {
  AttentionProblem const p{1, 2, 1, 128 * 6, 64 * 37, 64};
  Random random(2);
  MaskWords words = uneven_mask(p, random);
  std::vector<std::int64_t> lengths;
  for (std::int64_t row = 0; row < 12; ++row)
    lengths.push_back(count_kept({words.begin() + row * 2, words.begin() + (row + 1) * 2}));
  for (int group = 0; group < 12; group += 6) {
    CHECK(lengths[group] == 0);
    CHECK(lengths[group + 1] == 1);
    CHECK(lengths[group + 2] == 37);
    CHECK(lengths[group + 3] == 2);
    CHECK(lengths[group + 4] == 36);
  }
  std::int64_t const kept = count_kept(words);
  dirty_padding(p, words);
  CHECK(count_kept(words) == kept + 12 * (64 - 37));
  CHECK(full_mask(p) == make_mask(p, [](auto...) { return true; }));
}
