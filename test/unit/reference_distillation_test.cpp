/// The distillation loss: its value by hand and its gradient by finite differences.

#include "sparge/reference/distillation.hpp"
#include "support/catch.hpp"
#include "support/random.hpp"

using namespace sparge;
using namespace sparge::test;

TEST_CASE("interpolation runs from x0 to x1, each sample at its own time") {
  std::vector<double> const x0{1, 2, 3, 4}, x1{5, 6, 7, 8}, t{0.25, 1};
  CHECK(reference::interpolate(x0.data(), x1.data(), t.data(), 2, 2) == std::vector<double>{2, 3, 7, 8});
  std::vector<double> const ends{0, 0};
  CHECK(reference::interpolate(x0.data(), x1.data(), ends.data(), 2, 2) == x0);
}

TEST_CASE("the loss is the mean square over all elements") {
  std::vector<double> const student{1, 2, 3, 4}, teacher{1, 0, 3, 3}, weight{1, 3};
  CHECK(reference::distillation_loss(student.data(), teacher.data(), 2, 2).loss == 1.25);
  CHECK(reference::distillation_loss(student.data(), teacher.data(), 2, 2, weight.data()).loss == 1.75);
  CHECK(reference::distillation_loss(student.data(), student.data(), 2, 2).loss == 0);
  CHECK(reference::distillation_loss(student.data(), teacher.data(), 0, 2).loss == 0);
}

TEST_CASE("the gradient of the loss equals finite differences") {
  Random random(1);
  std::vector<double> student(30), teacher(30), weight(3);
  for (auto* values : {&student, &teacher, &weight})
    for (double& x : *values) x = random.gaussian();
  bool const weighted = GENERATE(false, true);
  double const* const w = weighted ? weight.data() : nullptr;
  auto const loss = [&] {
    return reference::distillation_loss(student.data(), teacher.data(), 3, 10, w).loss;
  };
  auto const grad = reference::distillation_loss(student.data(), teacher.data(), 3, 10, w).grad;
  for (int i = 0; i < 30; ++i) {
    double const middle = student[i], step = 1e-4;
    student[i] = middle + step;
    double const above = loss();
    student[i] = middle - step;
    double const below = loss();
    student[i] = middle;
    CHECK(grad[i] == Approx((above - below) / (2 * step)).epsilon(1e-8).margin(1e-12));
  }
}

TEST_CASE("the gradient points from the teacher to the student and a loss is worth its weight") {
  Random random(2);
  std::vector<double> student(12), teacher(12), weight{2, 2, 2};
  for (auto* values : {&student, &teacher})
    for (double& x : *values) x = random.gaussian();
  auto const plain = reference::distillation_loss(student.data(), teacher.data(), 3, 4);
  auto const doubled = reference::distillation_loss(student.data(), teacher.data(), 3, 4, weight.data());
  auto const swapped = reference::distillation_loss(teacher.data(), student.data(), 3, 4);
  CHECK(doubled.loss == Approx(2 * plain.loss));
  CHECK(swapped.loss == plain.loss);
  for (std::size_t i = 0; i < 12; ++i) {
    CHECK(plain.grad[i] == Approx((student[i] - teacher[i]) / 6));
    CHECK(doubled.grad[i] == 2 * plain.grad[i]);
    CHECK(swapped.grad[i] == -plain.grad[i]);
  }
}
