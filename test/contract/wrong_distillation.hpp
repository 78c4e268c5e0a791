#pragma once
/// Every wrong argument of distillation_loss() and interpolate().

#include <cstdint>
#include <limits>

#include "contract/distillation_calls.hpp"
#include "contract/wrong_arguments.hpp"

namespace sparge::test {

namespace detail {

/// Plans edited to problems that no plan call accepts, or that need more memory than was given.
template <class Call>
void add_wrong_distillation_problems(WrongCalls<Call>& wrong) {
  constexpr std::int64_t huge = std::numeric_limits<std::int64_t>::max();
  wrong.add("a plan edited to negative samples", invalid("problem.samples", -1),
            [](Call& c) { c.plan.problem.samples = -1; });
  wrong.add("a plan edited to negative lengths", invalid("problem.sample_elements", -5),
            [](Call& c) { c.plan.problem.sample_elements = -5; });
  wrong.add("a plan edited to more elements than 64 bits count", invalid("problem.samples", huge / 64),
            [](Call& c) { c.plan.problem.samples = huge / 64; });
}

template <class T>
void add_wrong_distillation_memory(WrongCalls<DistillationCall<T>>& wrong) {
  using Call = DistillationCall<T>;
  wrong.add_alias("grad_student", [](Call& c) { c.args.student = c.args.grad_student; });
  wrong.add_alias("grad_student", [](Call& c) { c.args.teacher = c.args.grad_student; });
  wrong.add_alias("grad_student", [](Call& c) { c.args.student = c.args.grad_student + 16; });
  wrong.add_alias("grad_student", [](Call& c) { c.args.grad_student = const_cast<T*>(c.args.teacher) + 32; });
  wrong.add_alias("grad_student",
                  [](Call& c) { c.args.weights = reinterpret_cast<float*>(c.args.grad_student + 64); });
  wrong.add_alias("grad_student",
                  [](Call& c) { c.args.loss = reinterpret_cast<float*>(c.args.grad_student); });
  wrong.add_alias("grad_student", [](Call& c) { c.workspace.data = c.args.grad_student; });
  wrong.add_alias("loss", [](Call& c) { c.args.loss = const_cast<float*>(c.args.grad_loss); });
  wrong.add_alias("loss", [](Call& c) { c.args.loss = const_cast<float*>(c.args.weights) + 1; });
  wrong.add_alias("loss", [](Call& c) { c.args.loss = static_cast<float*>(c.workspace.data) + 1; });
  wrong.add_alias("workspace.data", [](Call& c) { c.args.student = static_cast<T*>(c.workspace.data); });
  wrong.add_alias("workspace.data", [](Call& c) { c.args.weights = static_cast<float*>(c.workspace.data); });
}

}  // namespace detail

template <class T>
WrongCalls<DistillationCall<T>> wrong_distillation_calls(DistillationCall<T> const& right) {
  using Call = DistillationCall<T>;
  WrongCalls<Call> wrong(right);
  wrong.add_pointer(
      "student", [](Call & c) -> auto& { return c.args.student; }, 16);
  wrong.add_pointer(
      "teacher", [](Call & c) -> auto& { return c.args.teacher; }, 16);
  wrong.add_pointer(
      "weights", [](Call & c) -> auto& { return c.args.weights; }, 4, true);
  wrong.add_pointer(
      "grad_loss", [](Call & c) -> auto& { return c.args.grad_loss; }, 4, true);
  wrong.add_pointer(
      "loss", [](Call & c) -> auto& { return c.args.loss; }, 4);
  wrong.add_pointer(
      "grad_student", [](Call & c) -> auto& { return c.args.grad_student; }, 16, true);
  wrong.add_workspace();
  detail::add_wrong_distillation_problems(wrong);
  detail::add_wrong_distillation_memory(wrong);
  std::int64_t const need = static_cast<std::int64_t>(right.plan.workspace_bytes);
  wrong.add("a plan whose workspace was edited away",
            {StatusCode::workspace_too_small, "workspace.bytes", -1, 0, need},
            [](Call& c) { c.plan.workspace_bytes = c.workspace.bytes = 0; });
  return wrong;
}

template <class T>
WrongCalls<InterpolateCall<T>> wrong_interpolate_calls(InterpolateCall<T> const& right) {
  using Call = InterpolateCall<T>;
  WrongCalls<Call> wrong(right);
  wrong.add_pointer(
      "x0", [](Call & c) -> auto& { return c.args.x0; }, 16);
  wrong.add_pointer(
      "x1", [](Call & c) -> auto& { return c.args.x1; }, 16);
  wrong.add_pointer(
      "t", [](Call & c) -> auto& { return c.args.t; }, 4);
  wrong.add_pointer(
      "x_t", [](Call & c) -> auto& { return c.args.x_t; }, 16);
  wrong.add_alias("x_t", [](Call& c) { c.args.x0 = c.args.x_t; });
  wrong.add_alias("x_t", [](Call& c) { c.args.x_t = const_cast<T*>(c.args.x1); });
  wrong.add_alias("x_t", [](Call& c) { c.args.x_t = const_cast<T*>(c.args.x1) + 16; });
  wrong.add_alias("x_t", [](Call& c) { c.args.t = reinterpret_cast<float*>(c.args.x_t) + 5; });
  detail::add_wrong_distillation_problems(wrong);
  return wrong;
}

}  // namespace sparge::test
