#include "sparge/op/build_mask.hpp"

namespace sparge {

template Status plan_build_mask(AttentionProblem const&, Device const&, PlanOptions const&,
                                BuildMaskPlan<bfloat16>*) noexcept;
template Status plan_build_mask(AttentionProblem const&, Device const&, PlanOptions const&,
                                BuildMaskPlan<float16>*) noexcept;
template Status build_mask(BuildMaskPlan<bfloat16> const&, BuildMaskArgs<bfloat16> const&, Workspace,
                           cudaStream_t) noexcept;
template Status build_mask(BuildMaskPlan<float16> const&, BuildMaskArgs<float16> const&, Workspace,
                           cudaStream_t) noexcept;

}  // namespace sparge
