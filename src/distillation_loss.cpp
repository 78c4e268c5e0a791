#include "sparge/op/distillation_loss.hpp"

namespace sparge {

template Status plan_distillation_loss(DistillationProblem const&, Device const&, PlanOptions const&,
                                       DistillationLossPlan<bfloat16>*) noexcept;
template Status plan_distillation_loss(DistillationProblem const&, Device const&, PlanOptions const&,
                                       DistillationLossPlan<float16>*) noexcept;
template Status plan_distillation_loss(DistillationProblem const&, Device const&, PlanOptions const&,
                                       DistillationLossPlan<float>*) noexcept;
template Status distillation_loss(DistillationLossPlan<bfloat16> const&,
                                  DistillationLossArgs<bfloat16> const&, Workspace, cudaStream_t) noexcept;
template Status distillation_loss(DistillationLossPlan<float16> const&, DistillationLossArgs<float16> const&,
                                  Workspace, cudaStream_t) noexcept;
template Status distillation_loss(DistillationLossPlan<float> const&, DistillationLossArgs<float> const&,
                                  Workspace, cudaStream_t) noexcept;

}  // namespace sparge
