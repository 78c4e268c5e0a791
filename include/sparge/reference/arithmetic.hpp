#pragma once
/// In which numbers a formula is evaluated: exactly, or as a kernel that keeps no more than it must.

#include "sparge/reference/element.hpp"

namespace sparge::reference {

/// The truth: everything in f64.
struct Exact {
  using Real = double;
  static double narrow(double x) { return x; }
};

/// The working precision: f32 throughout; P, dS, which is made of the rounded P, and the results are rounded to the element
/// type T.
template <class T>
struct Working {
  using Real = float;
  static float narrow(float x) { return to_float(round_to<T>(x)); }
};

}  // namespace sparge::reference
