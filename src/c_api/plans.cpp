// Plans from shapes.

#include "c_api/answer.hpp"
#include "c_api/plan_bytes.hpp"

using namespace sparge;
using namespace sparge::c_api;

namespace {

/// AttentionProblem or DistillationProblem.
template <class Plan>
using ProblemOf = decltype(Plan::problem);

template <class Plan>
using MakePlan = Status (*)(ProblemOf<Plan> const&, Device const&, PlanOptions const&, Plan*) noexcept;

/// What every plan is made from.
template <class Problem>
struct PlanInputs {
  Problem const* problem;
  sparge_device const* device;
  sparge_options const* options;
};
template <class Problem>
PlanInputs(Problem const*, sparge_device const*, sparge_options const*) -> PlanInputs<Problem>;

/// C gives the element types other numbers than C++.
Status in_c_numbers(Status status, sparge_dtype dtype) {
  if (!status.ok() && std::strcmp(status.field, "dtype") == 0) status.given = dtype;
  return status;
}

template <class Plan, class Problem>
Status make_plan(PlanInputs<Problem> const& from, MakePlan<Plan> make, sparge_plan* to) {
  ProblemOf<Plan> problem;
  Device device;
  PlanOptions options;
  SPARGE_TRY(check_plan_size(to));
  SPARGE_TRY(convert(from.problem, &problem));
  SPARGE_TRY(convert(from.device, &device));
  SPARGE_TRY(convert(from.options, &options));
  Plan plan;
  SPARGE_TRY(in_c_numbers(make(problem, device, options, &plan), PlanTraits<Plan>::dtype));
  store(plan, to);
  return {};
}

}  // namespace

sparge_code sparge_plan_pool(sparge_problem const* problem, sparge_dtype dtype, sparge_device const* device,
                             sparge_options const* options, sparge_plan* plan, sparge_status* status) {
  return answer(status, [&] {
    return with_element(dtype, [&](auto element) {
      using T = typename decltype(element)::type;
      return make_plan<PoolPlan<T>>(PlanInputs{problem, device, options}, plan_pool<T>, plan);
    });
  });
}

sparge_code sparge_plan_select_blocks(sparge_problem const* problem, sparge_device const* device,
                                      sparge_options const* options, sparge_plan* plan,
                                      sparge_status* status) {
  return answer(status, [&] {
    return make_plan<SelectPlan>(PlanInputs{problem, device, options}, plan_select_blocks, plan);
  });
}

sparge_code sparge_plan_build_mask(sparge_problem const* problem, sparge_dtype dtype,
                                   sparge_device const* device, sparge_options const* options,
                                   sparge_plan* plan, sparge_status* status) {
  return answer(status, [&] {
    return with_element(dtype, [&](auto element) {
      using T = typename decltype(element)::type;
      return make_plan<BuildMaskPlan<T>>(PlanInputs{problem, device, options}, plan_build_mask<T>, plan);
    });
  });
}

sparge_code sparge_plan_mask_stats(sparge_problem const* problem, sparge_device const* device,
                                   sparge_options const* options, sparge_plan* plan, sparge_status* status) {
  return answer(status, [&] {
    return make_plan<MaskStatsPlan>(PlanInputs{problem, device, options}, plan_mask_stats, plan);
  });
}

sparge_code sparge_plan_calibrate(sparge_problem const* problem, sparge_device const* device,
                                  sparge_options const* options, sparge_plan* plan, sparge_status* status) {
  return answer(status, [&] {
    return make_plan<CalibratePlan>(PlanInputs{problem, device, options}, plan_calibrate, plan);
  });
}

sparge_code sparge_plan_mask_form(sparge_problem const* problem, sparge_device const* device,
                                  sparge_options const* options, sparge_plan* plan, sparge_status* status) {
  return answer(status, [&] {
    return make_plan<MaskFormPlan>(PlanInputs{problem, device, options}, plan_mask_form, plan);
  });
}

sparge_code sparge_plan_forward(sparge_problem const* problem, sparge_dtype dtype,
                                sparge_device const* device, sparge_options const* options, sparge_plan* plan,
                                sparge_status* status) {
  return answer(status, [&] {
    return with_element(dtype, [&](auto element) {
      using T = typename decltype(element)::type;
      return make_plan<ForwardPlan<T>>(PlanInputs{problem, device, options}, plan_forward<T>, plan);
    });
  });
}

sparge_code sparge_plan_backward(sparge_problem const* problem, sparge_dtype dtype,
                                 sparge_device const* device, sparge_options const* options,
                                 sparge_plan* plan, sparge_status* status) {
  return answer(status, [&] {
    return with_element(dtype, [&](auto element) {
      using T = typename decltype(element)::type;
      return make_plan<BackwardPlan<T>>(PlanInputs{problem, device, options}, plan_backward<T>, plan);
    });
  });
}

sparge_code sparge_plan_merge_partials(sparge_problem const* problem, sparge_dtype dtype,
                                       sparge_device const* device, sparge_options const* options,
                                       sparge_plan* plan, sparge_status* status) {
  return answer(status, [&] {
    return with_any_element(dtype, [&](auto element) {
      using T = typename decltype(element)::type;
      return make_plan<MergePlan<T>>(PlanInputs{problem, device, options}, plan_merge_partials<T>, plan);
    });
  });
}

sparge_code sparge_plan_distillation_loss(sparge_distillation_problem const* problem, sparge_dtype dtype,
                                          sparge_device const* device, sparge_options const* options,
                                          sparge_plan* plan, sparge_status* status) {
  return answer(status, [&] {
    return with_any_element(dtype, [&](auto element) {
      using T = typename decltype(element)::type;
      return make_plan<DistillationLossPlan<T>>(PlanInputs{problem, device, options},
                                                plan_distillation_loss<T>, plan);
    });
  });
}

sparge_code sparge_plan_interpolate(sparge_distillation_problem const* problem, sparge_dtype dtype,
                                    sparge_device const* device, sparge_options const* options,
                                    sparge_plan* plan, sparge_status* status) {
  return answer(status, [&] {
    return with_any_element(dtype, [&](auto element) {
      using T = typename decltype(element)::type;
      return make_plan<InterpolatePlan<T>>(PlanInputs{problem, device, options}, plan_interpolate<T>, plan);
    });
  });
}
