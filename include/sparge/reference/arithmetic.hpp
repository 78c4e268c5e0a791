#pragma once
/// In which numbers a formula is evaluated: exactly, or as a kernel that keeps no more than it must.

#include "sparge/reference/element.hpp"

namespace sparge::reference {

/// The truth: everything in f64.
struct Exact {
  using Real = double;
  static double narrow(double x) { return x; }
  static double weight_of_grad(double p) { return p; }
};

/// The working precision: f32 throughout; P, dS and the results are rounded to the element type T.
template <class T>
struct Working {
  using Real = float;
  static float narrow(float x) { return to_float(round_to<T>(x)); }
  static float weight_of_grad(float p) { return p; }
};

/// The same where dS is made of the rounded P, as by a kernel that keeps P in one type.
template <class T>
struct WorkingOnRounded : Working<T> {
  static float weight_of_grad(float p) { return Working<T>::narrow(p); }
};

}  // namespace sparge::reference
