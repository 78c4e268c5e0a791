#pragma once
/// plan_interpolate and interpolate: validate, launch.

#include "sparge/kernel/distillation_params.hpp"
#include "sparge/op/guard.hpp"
#include "sparge/plan/distillation.hpp"
#include "sparge/sparge.hpp"

namespace sparge {

namespace detail {

template <class T>
Status validate_interpolate(DistillationProblem const& p, InterpolateArgs<T> const& args) {
  SPARGE_TRY(validate_distillation_problem(p));
  SPARGE_TRY(validate_pointer("x0", args.x0, p.elements()));
  SPARGE_TRY(validate_pointer("x1", args.x1, p.elements()));
  SPARGE_TRY(validate_pointer("t", args.t, p.elements(), alignof(float)));
  return validate_pointer("x_t", args.x_t, p.elements());
}

template <class T>
Status check_interpolate_memory(InterpolatePlan<T> const& plan, InterpolateArgs<T> const& args) {
  std::int64_t const elements = plan.problem.elements();
  std::int64_t const tensor_bytes = elements * static_cast<std::int64_t>(sizeof(T));
  std::int64_t const time_bytes = plan.problem.samples * static_cast<std::int64_t>(sizeof(float));
  SPARGE_TRY(validate_ranges_apart(
      {{"x_t", args.x_t, tensor_bytes}},
      {{"x0", args.x0, tensor_bytes}, {"x1", args.x1, tensor_bytes}, {"t", args.t, time_bytes}}));
  return check_arguments(plan, {{"x_t", place_of(args.x_t, elements)}},
                         {{"x0", place_of(args.x0, elements)},
                          {"x1", place_of(args.x1, elements)},
                          {"t", place_of(args.t, elements)}});
}

}  // namespace detail

template <class T>
Status plan_interpolate(DistillationProblem const& problem, Device const& device, PlanOptions const& options,
                        InterpolatePlan<T>* plan) noexcept {
  if (plan == nullptr) return refuse("plan", "must not be null");
  SPARGE_TRY(validate_distillation_inputs(problem, device, options));
  *plan = {problem, device, options};
  return {};
}

template <class T>
Status interpolate(InterpolatePlan<T> const& plan, InterpolateArgs<T> const& args,
                   cudaStream_t stream) noexcept {
  DistillationProblem const& p = plan.problem;
  SPARGE_TRY(detail::validate_interpolate(p, args));
  SPARGE_TRY(detail::check_interpolate_memory(plan, args));
  InterpolateParams<T> const params{args.x0, args.x1, args.t, args.x_t, p.elements(), p.sample_elements};
  return launch_result("interpolation kernel",
                       launch_interpolate(params, distillation::count_blocks<T>(p), stream));
}

}  // namespace sparge
