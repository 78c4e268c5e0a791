#include "sparge/op/backward.hpp"

namespace sparge {

template Status plan_backward(AttentionProblem const&, Device const&, PlanOptions const&,
                              BackwardPlan<bfloat16>*) noexcept;
template Status plan_backward(AttentionProblem const&, Device const&, PlanOptions const&,
                              BackwardPlan<float16>*) noexcept;
template Status backward(BackwardPlan<bfloat16> const&, BackwardArgs<bfloat16> const&, Workspace,
                         cudaStream_t) noexcept;
template Status backward(BackwardPlan<float16> const&, BackwardArgs<float16> const&, Workspace,
                         cudaStream_t) noexcept;

}  // namespace sparge
