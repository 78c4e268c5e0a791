#pragma once
/// Velocity distillation in f64: the student (sparse attention) is trained to predict what the frozen teacher (full
/// attention) predicts for the same input. The data only builds that input; x_1 - x_0 is never a target.

#include <cstdint>
#include <vector>

#include "sparge/reference/element.hpp"

namespace sparge::reference {

/// x_t = t x_1 + (1 - t) x_0, one t a sample; all tensors contiguous [samples, elements].
template <class T>
std::vector<double> interpolate(T const* x0, T const* x1, double const* t, std::int64_t samples,
                                std::int64_t elements) {
  std::vector<double> xt(samples * elements);
  for (std::int64_t i = 0; i < samples * elements; ++i) {
    double const time = t[i / elements];
    xt[i] = time * to_double(x1[i]) + (1 - time) * to_double(x0[i]);
  }
  return xt;
}

struct DistillationLoss {
  double loss = 0;           ///< mean over all elements of weight * (student - teacher)^2
  std::vector<double> grad;  ///< of the loss by the student's velocity, [samples, elements]
};

/// `weight` is one number a sample, or null for 1. With no elements the loss is 0.
template <class T>
DistillationLoss distillation_loss(T const* student, T const* teacher, std::int64_t samples,
                                   std::int64_t elements, double const* weight = nullptr) {
  DistillationLoss result;
  std::int64_t const count = samples * elements;
  result.grad.resize(count);
  for (std::int64_t i = 0; i < count; ++i) {
    double const difference = to_double(student[i]) - to_double(teacher[i]);
    double const share = (weight ? weight[i / elements] : 1.0) / static_cast<double>(count);
    result.loss += share * difference * difference;
    result.grad[i] = 2 * share * difference;
  }
  return result;
}

}  // namespace sparge::reference
