#pragma once
/// The shape of velocity distillation: samples of equal length.

#include <cstdint>

namespace sparge {

/// `samples` contiguous samples of `sample_elements` elements each, whatever their own shape. Either may be 0.
struct DistillationProblem {
  std::int64_t samples = 1, sample_elements = 0;

  constexpr std::int64_t elements() const { return samples * sample_elements; }
};

constexpr bool operator==(DistillationProblem const& a, DistillationProblem const& b) {
  return a.samples == b.samples && a.sample_elements == b.sample_elements;
}
constexpr bool operator!=(DistillationProblem const& a, DistillationProblem const& b) { return !(a == b); }

}  // namespace sparge
