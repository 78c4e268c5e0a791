#pragma once
/// What training needs to know and what comes of it, on either device.

#include <cmath>
#include <string>
#include <vector>

#include "sparge/reference/element.hpp"
#include "training/layer.hpp"

namespace training {

struct Settings {
  LayerShape shape;
  sparge::MaskRule rule;
  double learning_rate = 0;
  std::int64_t steps = 0, seed = 1;
};

/// The student against the teacher on one batch.
struct Comparison {
  double difference = 0, size = 0;       ///< squares of |u_student - u_teacher| and of |u_teacher|
  std::vector<sparge::MaskStats> stats;  ///< of the student's mask, [batch, heads]
};

template <class T>
void add_difference(std::vector<T> const& student, std::vector<T> const& teacher, Comparison& sum) {
  for (std::size_t i = 0; i < student.size(); ++i) {
    double const s = sparge::reference::to_double(student[i]), t = sparge::reference::to_double(teacher[i]);
    sum.difference += (s - t) * (s - t);
    sum.size += t * t;
  }
}

}  // namespace training
