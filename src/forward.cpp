#include "sparge/op/forward.hpp"

namespace sparge {

template Status plan_forward(AttentionProblem const&, Device const&, PlanOptions const&,
                             ForwardPlan<bfloat16>*) noexcept;
template Status plan_forward(AttentionProblem const&, Device const&, PlanOptions const&,
                             ForwardPlan<float16>*) noexcept;
template Status forward(ForwardPlan<bfloat16> const&, ForwardArgs<bfloat16> const&, Workspace,
                        cudaStream_t) noexcept;
template Status forward(ForwardPlan<float16> const&, ForwardArgs<float16> const&, Workspace,
                        cudaStream_t) noexcept;

}  // namespace sparge
