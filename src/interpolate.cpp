#include "sparge/op/interpolate.hpp"

namespace sparge {

template Status plan_interpolate(DistillationProblem const&, Device const&, PlanOptions const&,
                                 InterpolatePlan<bfloat16>*) noexcept;
template Status plan_interpolate(DistillationProblem const&, Device const&, PlanOptions const&,
                                 InterpolatePlan<float16>*) noexcept;
template Status plan_interpolate(DistillationProblem const&, Device const&, PlanOptions const&,
                                 InterpolatePlan<float>*) noexcept;
template Status interpolate(InterpolatePlan<bfloat16> const&, InterpolateArgs<bfloat16> const&,
                            cudaStream_t) noexcept;
template Status interpolate(InterpolatePlan<float16> const&, InterpolateArgs<float16> const&,
                            cudaStream_t) noexcept;
template Status interpolate(InterpolatePlan<float> const&, InterpolateArgs<float> const&,
                            cudaStream_t) noexcept;

}  // namespace sparge
