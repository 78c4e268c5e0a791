#pragma once
/// Gradients against central differences of the loss in f64, for a fixed input and a fixed mask.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <utility>

#include "sparge/reference/distillation.hpp"
#include "sparge/reference/mask.hpp"
#include "training/host_layer.hpp"

namespace training {

/// The student's loss as a function of its weights; all else is fixed.
class LossOfWeights {
public:
  LossOfWeights(LayerShape const& shape, Numbers x, MaskWords mask, Weights<double> const& teacher)
      : s_(shape), x_(std::move(x)), mask_(std::move(mask)) {
    HostActivations a;
    a.qkv = project_qkv(teacher, x_);
    attend(s_, teacher, sparge::reference::full_mask(s_.attention()), a);
    target_ = std::move(a.velocity);
  }

  double operator()(Weights<double> const& w) const { return loss(run(w)).loss; }

  Weights<double> gradient(Weights<double> const& w) const {
    HostActivations const a = run(w);
    return backward(s_, w, x_, mask_, a, loss(a).grad);
  }

private:
  HostActivations run(Weights<double> const& w) const {
    HostActivations a;
    a.qkv = project_qkv(w, x_);
    attend(s_, w, mask_, a);
    return a;
  }
  sparge::reference::DistillationLoss loss(HostActivations const& a) const {
    return sparge::reference::distillation_loss(a.velocity.data(), target_.data(), s_.batch,
                                                s_.samples().sample_elements);
  }

  LayerShape s_;
  Numbers x_, target_;
  MaskWords mask_;
};

/// (loss(w + step d) - loss(w - step d)) / (2 step).
inline double central_difference(LossOfWeights const& loss, Weights<double> const& w,
                                 Weights<double> const& d, double step) {
  auto const moved = [&](double by) {
    Weights<double> at = w;
    for (std::size_t i = 0; i < at.qkv.size(); ++i) at.qkv[i] += by * d.qkv[i];
    for (std::size_t i = 0; i < at.out.size(); ++i) at.out[i] += by * d.out[i];
    return loss(at);
  };
  return (moved(step) - moved(-step)) / (2 * step);
}

/// The part of a gradient that belongs to Wq, Wk, Wv or Wo (0 to 3); zero elsewhere.
inline Weights<double> part_of(LayerShape const& s, Weights<double> const& w, int which) {
  Weights<double> part = w;
  for (std::size_t i = 0; i < part.qkv.size(); ++i)
    if (std::int64_t(i) / s.width() % 3 != which) part.qkv[i] = 0;
  if (which != 3) std::fill(part.out.begin(), part.out.end(), 0.0);
  return part;
}

inline double norm(Weights<double> const& w) {
  double sum = 0;
  for (double x : w.qkv) sum += x * x;
  for (double x : w.out) sum += x * x;
  return std::sqrt(sum);
}

inline Weights<double> difference(Weights<double> a, Weights<double> const& b) {
  for (std::size_t i = 0; i < a.qkv.size(); ++i) a.qkv[i] -= b.qkv[i];
  for (std::size_t i = 0; i < a.out.size(); ++i) a.out[i] -= b.out[i];
  return a;
}

inline constexpr char const* names_of_parts[] = {"Wq", "Wk", "Wv", "Wo"};

inline bool say(bool holds, std::string const& what, double error, double tolerance) {
  std::printf("  %-56s %9.2e, allowed %.0e%s\n", what.c_str(), error, tolerance, holds ? "" : "  FAILED");
  return holds;
}

/// The f64 gradient against differences in single weights, 8 of each matrix. Error is relative to the matrix's largest
/// gradient.
inline bool check_elements(LayerShape const& s, LossOfWeights const& loss, Weights<double> const& w,
                           Weights<double> const& gradient) {
  constexpr double tolerance = 1e-6, step = 1e-4;
  bool holds = true;
  for (int which = 0; which < 4; ++which) {
    bool const is_out = which == 3;
    Weights<double> const part = part_of(s, gradient, which);
    std::vector<double> const& values = is_out ? part.out : part.qkv;
    double largest = 0, error = 0;
    for (double x : values) largest = std::max(largest, std::abs(x));
    for (std::int64_t sample = 0; sample < 8; ++sample) {
      std::int64_t const row = sample * 7919 % (is_out ? s.width() : channels);
      std::int64_t const column = sample * 6007 % (is_out ? channels : s.width());
      std::size_t const at =
          std::size_t(is_out ? row * channels + column : (row * 3 + which) * s.width() + column);
      Weights<double> direction{Numbers(w.qkv.size()), Numbers(w.out.size())};
      (is_out ? direction.out : direction.qkv)[at] = 1;
      double const here = std::abs(central_difference(loss, w, direction, step) - values[at]) / largest;
      if (!(here <= error)) error = here;  // a NaN too
      if (std::isnan(error)) break;
    }
    holds &=
        say(error <= tolerance, std::string("f64 gradient of ") + names_of_parts[which] + ", 8 differences",
            error, tolerance);
  }
  return holds;
}

/// A gradient computed in bf16 against the f64 one, and its length against a difference along itself. The tolerances are about
/// twice what rounding every stored tensor to bf16 does on the host.
inline bool check_bf16(LayerShape const& s, LossOfWeights const& loss, Weights<double> const& w,
                       Weights<double> const& exact, Weights<double> const& computed) {
  constexpr double norm_tolerance = 5e-3, length_tolerance = 2e-3, step = 1e-4;
  bool holds = true;
  for (int which = 0; which < 4; ++which) {
    std::string const name = names_of_parts[which];
    Weights<double> const truth = part_of(s, exact, which), part = part_of(s, computed, which);
    double const error = norm(difference(part, truth)) / norm(truth), length = norm(part);
    holds &= say(error <= norm_tolerance, "bf16 gradient of " + name + " against f64, by norm", error,
                 norm_tolerance);
    double const along = central_difference(loss, w, part, step / length) / length;
    double const along_error = std::abs(along / length - 1);
    holds &= say(along_error <= length_tolerance, "bf16 gradient of " + name + ", difference along it",
                 along_error, length_tolerance);
  }
  return holds;
}

}  // namespace training
