// Plans from shapes.

#include "c_api/answer.hpp"
#include "c_api/plan_bytes.hpp"

using namespace sparge;
using namespace sparge::c_api;

namespace {

template <class Plan>
using MakePlan = Status (*)(AttentionProblem const&, Device const&, PlanOptions const&, Plan*) noexcept;

/// What every plan is made from.
struct PlanInputs {
  sparge_problem const* problem;
  sparge_device const* device;
  sparge_options const* options;
};

/// C gives the element types other numbers than C++.
Status in_c_numbers(Status status, sparge_dtype dtype) {
  if (!status.ok() && std::strcmp(status.field, "dtype") == 0) status.given = dtype;
  return status;
}

template <class Plan>
Status make_plan(PlanInputs const& from, MakePlan<Plan> make, sparge_plan* to) {
  AttentionProblem problem;
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
      return make_plan<PoolPlan<T>>({problem, device, options}, plan_pool<T>, plan);
    });
  });
}

sparge_code sparge_plan_select_blocks(sparge_problem const* problem, sparge_device const* device,
                                      sparge_options const* options, sparge_plan* plan,
                                      sparge_status* status) {
  return answer(status, [&] {
    return make_plan<SelectPlan>({problem, device, options}, plan_select_blocks, plan);
  });
}

sparge_code sparge_plan_build_mask(sparge_problem const* problem, sparge_dtype dtype,
                                   sparge_device const* device, sparge_options const* options,
                                   sparge_plan* plan, sparge_status* status) {
  return answer(status, [&] {
    return with_element(dtype, [&](auto element) {
      using T = typename decltype(element)::type;
      return make_plan<BuildMaskPlan<T>>({problem, device, options}, plan_build_mask<T>, plan);
    });
  });
}

sparge_code sparge_plan_mask_stats(sparge_problem const* problem, sparge_device const* device,
                                   sparge_options const* options, sparge_plan* plan, sparge_status* status) {
  return answer(status, [&] {
    return make_plan<MaskStatsPlan>({problem, device, options}, plan_mask_stats, plan);
  });
}

sparge_code sparge_plan_mask_form(sparge_problem const* problem, sparge_device const* device,
                                  sparge_options const* options, sparge_plan* plan, sparge_status* status) {
  return answer(status, [&] {
    return make_plan<MaskFormPlan>({problem, device, options}, plan_mask_form, plan);
  });
}

sparge_code sparge_plan_forward(sparge_problem const* problem, sparge_dtype dtype,
                                sparge_device const* device, sparge_options const* options, sparge_plan* plan,
                                sparge_status* status) {
  return answer(status, [&] {
    return with_element(dtype, [&](auto element) {
      using T = typename decltype(element)::type;
      return make_plan<ForwardPlan<T>>({problem, device, options}, plan_forward<T>, plan);
    });
  });
}

sparge_code sparge_plan_backward(sparge_problem const* problem, sparge_dtype dtype,
                                 sparge_device const* device, sparge_options const* options,
                                 sparge_plan* plan, sparge_status* status) {
  return answer(status, [&] {
    return with_element(dtype, [&](auto element) {
      using T = typename decltype(element)::type;
      return make_plan<BackwardPlan<T>>({problem, device, options}, plan_backward<T>, plan);
    });
  });
}
