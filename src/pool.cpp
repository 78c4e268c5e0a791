#include "sparge/op/pool.hpp"

namespace sparge {

template Status plan_pool(AttentionProblem const&, Device const&, PlanOptions const&,
                          PoolPlan<bfloat16>*) noexcept;
template Status plan_pool(AttentionProblem const&, Device const&, PlanOptions const&,
                          PoolPlan<float16>*) noexcept;
template Status pool(PoolPlan<bfloat16> const&, PoolArgs<bfloat16> const&, Workspace, cudaStream_t) noexcept;
template Status pool(PoolPlan<float16> const&, PoolArgs<float16> const&, Workspace, cudaStream_t) noexcept;

}  // namespace sparge
