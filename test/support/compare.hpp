#pragma once
/// Is a result right? Measured against the f64 reference and against the same formula evaluated naively in the working
/// type, on the same rounded inputs (docs/math.md, "Numbers that count as right").

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <ostream>
#include <sstream>
#include <string>
#include <vector>

#include "sparge/core/element.hpp"

namespace sparge::test {

/// The larger one, and NaN where either is: std::max would drop it, and a NaN would pass for no difference at all.
inline double max_or_nan(double a, double b) {
  return std::isnan(a) ? a : std::isnan(b) ? b : std::max(a, b);
}

/// Precision of an output type: significand bits (the hidden one included) and the exponent of its smallest step.
template <class T>
struct Precision;
template <>
struct Precision<bfloat16> {
  static constexpr int significand = 8, least_exponent = -133;
  static constexpr double largest = 3.3895313892515355e38;
};
template <>
struct Precision<float16> {
  static constexpr int significand = 11, least_exponent = -24;
  static constexpr double largest = 65504;
};
template <>
struct Precision<float> {
  static constexpr int significand = 24, least_exponent = -149;
  static constexpr double largest = 3.4028234663852886e38;
};

/// One unit in the last place of T at magnitude |x|.
template <class T>
double unit_in_last_place(double x) {
  if (x == 0 || !std::isfinite(x)) return std::ldexp(1.0, Precision<T>::least_exponent);
  return std::ldexp(1.0,
                    std::max(std::ilogb(x) - Precision<T>::significand + 1, Precision<T>::least_exponent));
}

/// The verdict and what it rests on. Prints itself in an assertion: `CHECK(compare<bfloat16>(out, reference, naive))`.
struct Comparison {
  bool ok = true;
  std::string why;  ///< of a failure
  double error = 0, allowed_error = 0;
  double cosine_distance = 0, allowed_cosine_distance = 0;
  double norm_error = 0, allowed_norm_error = 0;  ///< | |actual| / |reference| - 1 |
  std::int64_t worst = -1;                        ///< index of the largest error

  explicit operator bool() const { return ok; }
};

inline std::ostream& operator<<(std::ostream& out, Comparison const& c) {
  return out << (c.ok ? "right" : "wrong: " + c.why) << " (error " << c.error << " of " << c.allowed_error
             << " allowed, at " << c.worst << "; cosine distance " << c.cosine_distance << " of "
             << c.allowed_cosine_distance << "; norm " << c.norm_error << " of " << c.allowed_norm_error
             << ")";
}

namespace detail {

/// Deviations of x from the reference, over the elements where the reference is finite.
struct Deviation {
  double error = 0, largest = 0;
  double dot = 0, norm = 0, reference_norm = 0;
  std::int64_t worst = -1;

  /// 1 - cosine, free of cancellation: |a/|a| - b/|b||^2 / 2 = (1 - cos).
  double cosine_distance = 0;
  double norm_error() const { return reference_norm == 0 ? 0 : std::abs(norm / reference_norm - 1); }
};

/// The reference as T would hold it: finite, or infinite where it is too large for T.
template <class T>
double expected_of(double reference) {
  double const limit = Precision<T>::largest + unit_in_last_place<T>(Precision<T>::largest) / 2;
  return std::abs(reference) >= limit ? std::copysign(std::numeric_limits<double>::infinity(), reference)
                                      : reference;
}

template <class T>
Deviation deviation(std::vector<double> const& x, std::vector<double> const& reference) {
  Deviation d;
  for (std::size_t i = 0; i < x.size(); ++i) {
    double const expected = expected_of<T>(reference[i]);
    if (!std::isfinite(expected) || !std::isfinite(x[i])) continue;
    double const error = std::abs(x[i] - expected);
    if (error > d.error || d.worst < 0) d.error = error, d.worst = static_cast<std::int64_t>(i);
    d.largest = std::max(d.largest, std::abs(expected));
    d.norm = std::hypot(d.norm, x[i]);
    d.reference_norm = std::hypot(d.reference_norm, expected);
  }
  if (d.norm == 0 || d.reference_norm == 0) return d;
  for (std::size_t i = 0; i < x.size(); ++i) {
    double const expected = expected_of<T>(reference[i]);
    if (!std::isfinite(expected) || !std::isfinite(x[i])) continue;
    double const difference = x[i] / d.norm - expected / d.reference_norm;
    d.cosine_distance += difference * difference / 2;
  }
  return d;
}

/// Empty, or what is wrong with the NaN and infinite elements of x.
template <class T>
std::string special_mismatch(char const* name, std::vector<double> const& x,
                             std::vector<double> const& reference) {
  for (std::size_t i = 0; i < x.size(); ++i) {
    double const expected = expected_of<T>(reference[i]);
    bool const same = std::isnan(expected)   ? std::isnan(x[i])
                      : std::isinf(expected) ? x[i] == expected
                                             : std::isfinite(x[i]);
    if (same) continue;
    std::ostringstream text;
    text << name << " element " << i << " is " << x[i] << " where the reference is " << reference[i];
    return text.str();
  }
  return {};
}

}  // namespace detail

/// Compares a result held in T with the f64 reference. `naive` is the same formula in the working type; `floor` allows
/// an absolute error beyond the rule, for results that cancel to nothing in exact arithmetic.
///
/// Beside the two bounds of the rule, the norm may deviate by twice the naive deviation and one step of T: a result
/// that is all a little too small passes an element-wise bound and any cosine.
template <class T>
Comparison compare(std::vector<double> const& actual, std::vector<double> const& reference,
                   std::vector<double> const& naive, double floor = 0) {
  Comparison c;
  auto const fail = [&](std::string why) {
    if (c.ok) c.why = std::move(why);
    c.ok = false;
  };
  if (actual.size() != reference.size() || naive.size() != reference.size()) {
    fail("sizes differ");
    return c;
  }
  for (std::string const& why : {detail::special_mismatch<T>("result", actual, reference),
                                 detail::special_mismatch<T>("naive", naive, reference)})
    if (!why.empty()) fail(why);
  detail::Deviation const result = detail::deviation<T>(actual, reference);
  detail::Deviation const measure = detail::deviation<T>(naive, reference);
  c.error = result.error, c.worst = result.worst;
  c.allowed_error = 2 * measure.error + unit_in_last_place<T>(result.largest) + 1e-5 * result.largest + floor;
  // What the floor, and steps that no longer shrink with the value, may do to the whole vector.
  double const least = floor + std::ldexp(1.0, Precision<T>::least_exponent);
  double const slack = result.reference_norm == 0
                           ? 0
                           : least * std::sqrt(static_cast<double>(actual.size())) / result.reference_norm;
  c.cosine_distance = result.cosine_distance;
  c.allowed_cosine_distance = 2 * measure.cosine_distance + 1e-6 + slack * slack;
  c.norm_error = result.norm_error();
  c.allowed_norm_error =
      2 * measure.norm_error() + std::ldexp(1.0, 1 - Precision<T>::significand) + 1e-5 + slack;
  if (!(c.error <= c.allowed_error)) fail("an element is too far off");
  bool const is_noise = result.largest <= std::max(floor, std::ldexp(0.5, Precision<T>::least_exponent));
  if (is_noise) return c;
  if (result.norm == 0) fail("all zeros where the reference is not");
  if (!(c.cosine_distance <= c.allowed_cosine_distance)) fail("the direction is wrong");
  if (!(c.norm_error <= c.allowed_norm_error)) fail("the scale is wrong");
  return c;
}

}  // namespace sparge::test
