#pragma once
/// plan_distillation_loss and distillation_loss: validate, cut the workspace, launch the pass and the sum of its sums.

#include "sparge/kernel/distillation_params.hpp"
#include "sparge/op/guard.hpp"
#include "sparge/plan/distillation.hpp"
#include "sparge/sparge.hpp"

namespace sparge {

namespace detail {

template <class T>
std::size_t distillation_workspace_bytes(DistillationProblem const& p) {
  return DistillationScratch::bytes(distillation::count_blocks<T>(p));
}

template <class T>
Status validate_distillation_loss(DistillationProblem const& p, DistillationLossArgs<T> const& args,
                                  Workspace workspace) {
  SPARGE_TRY(validate_distillation_problem(p));
  SPARGE_TRY(validate_pointer("student", args.student, p.elements()));
  SPARGE_TRY(validate_pointer("teacher", args.teacher, p.elements()));
  if (args.weights) {
    SPARGE_TRY(validate_pointer("weights", args.weights, p.elements(), alignof(float)));
  }
  if (args.grad_loss) {
    SPARGE_TRY(validate_pointer("grad_loss", args.grad_loss, p.elements(), alignof(float)));
  }
  SPARGE_TRY(validate_pointer("loss", args.loss, 1, alignof(float)));
  if (args.grad_student) {
    SPARGE_TRY(validate_pointer("grad_student", args.grad_student, p.elements()));
  }
  return validate_workspace(workspace, distillation_workspace_bytes<T>(p));
}

template <class T>
Status check_distillation_memory(DistillationLossPlan<T> const& plan, DistillationLossArgs<T> const& args,
                                 Workspace workspace) {
  std::int64_t const elements = plan.problem.elements(), samples = plan.problem.samples;
  std::int64_t const tensor_bytes = elements * static_cast<std::int64_t>(sizeof(T));
  std::int64_t const value_bytes = sizeof(float);
  auto const scratch_bytes = static_cast<std::int64_t>(distillation_workspace_bytes<T>(plan.problem));
  SPARGE_TRY(validate_ranges_apart({{"grad_student", args.grad_student, tensor_bytes},
                                    {"loss", args.loss, value_bytes},
                                    {"workspace.data", workspace.data, scratch_bytes}},
                                   {{"student", args.student, tensor_bytes},
                                    {"teacher", args.teacher, tensor_bytes},
                                    {"weights", args.weights, samples * value_bytes},
                                    {"grad_loss", args.grad_loss, value_bytes}}));
  return check_arguments(plan,
                         {{"grad_student", place_of(args.grad_student, elements)},
                          {"loss", args.loss},
                          {"workspace.data", place_of(workspace.data, scratch_bytes)}},
                         {{"student", place_of(args.student, elements)},
                          {"teacher", place_of(args.teacher, elements)},
                          {"weights", place_of(args.weights, elements)},
                          {"grad_loss", place_of(args.grad_loss, elements)}});
}

}  // namespace detail

template <class T>
Status plan_distillation_loss(DistillationProblem const& problem, Device const& device,
                              PlanOptions const& options, DistillationLossPlan<T>* plan) noexcept {
  if (plan == nullptr) return refuse("plan", "must not be null");
  SPARGE_TRY(validate_distillation_inputs(problem, device, options));
  *plan = {problem, device, options, detail::distillation_workspace_bytes<T>(problem)};
  return {};
}

template <class T>
Status distillation_loss(DistillationLossPlan<T> const& plan, DistillationLossArgs<T> const& args,
                         Workspace workspace, cudaStream_t stream) noexcept {
  DistillationProblem const& p = plan.problem;
  SPARGE_TRY(detail::validate_distillation_loss(p, args, workspace));
  SPARGE_TRY(detail::check_distillation_memory(plan, args, workspace));
  std::int64_t const blocks = distillation::count_blocks<T>(p);
  Carver carver(workspace.data);
  DistillationScratch const scratch = DistillationScratch::lay_out(carver, blocks);
  DistillationLossParams<T> const params{
      args.student,      args.teacher,         args.weights, args.grad_loss,
      args.grad_student, scratch.partial_sums, p.elements(), args.weights ? p.sample_elements : p.elements()};
  SPARGE_TRY(launch_result("distillation loss kernel", launch_distillation_loss(params, blocks, stream)));
  return launch_result("loss sum kernel",
                       launch_loss_sum({scratch.partial_sums, args.loss, blocks, p.elements()}, stream));
}

}  // namespace sparge
