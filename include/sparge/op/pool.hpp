#pragma once
/// plan_pool and pool: validate, launch.

#include "sparge/kernel/mask_params.hpp"
#include "sparge/op/guard.hpp"
#include "sparge/plan/validate.hpp"
#include "sparge/sparge.hpp"

namespace sparge {

namespace detail {

inline Status validate_pool_grid(AttentionProblem const& p) {
  auto const blocks = checked_sum(checked_product({p.batch, p.heads, p.q_blocks()}),
                                  checked_product({p.batch, p.kv_heads, p.kv_blocks()}));
  return validate_grid(p, blocks ? std::optional(ceil_div(*blocks, pool_warps)) : blocks);
}

template <class T>
Status enqueue_pool(AttentionProblem const& p, Device const& device, TensorView<T const> const& q,
                    TensorView<T const> const& k, float* pooled_q, float* pooled_k, cudaStream_t stream) {
  PoolParams<T> params{{q, pooled_q, p.q_block, p.q_blocks()}, {k, pooled_k, p.kv_block, p.kv_blocks()}};
  params.q_blocks = params.q.all_blocks();
  params.k_blocks = params.k.all_blocks();
  params.streams = params.q.bytes() + params.k.bytes() > device.l2_bytes;
  return launch_result("pooling kernel", launch_pool(params, p.head_dim, stream));
}

}  // namespace detail

template <class T>
Status plan_pool(AttentionProblem const& problem, Device const& device, PlanOptions const& options,
                 PoolPlan<T>* plan) noexcept {
  if (plan == nullptr) return refuse("plan", "must not be null");
  SPARGE_TRY(validate_plan_inputs(problem, device, options));
  SPARGE_TRY(validate_no_choice(options));
  SPARGE_TRY(detail::validate_pool_grid(problem));
  *plan = {problem, device, options, 0};
  return {};
}

template <class T>
Status pool(PoolPlan<T> const& plan, PoolArgs<T> const& args, Workspace workspace,
            cudaStream_t stream) noexcept {
  AttentionProblem const& p = plan.problem;
  SPARGE_TRY(validate_problem(p));
  SPARGE_TRY(validate_queries_and_keys(p, args.q, args.k));
  SPARGE_TRY(validate_pointer("pooled_q", args.pooled_q, p.batch * p.q_tokens));
  SPARGE_TRY(validate_pointer("pooled_k", args.pooled_k, p.batch * p.kv_tokens));
  SPARGE_TRY(validate_workspace(workspace, plan.workspace_bytes));
  SPARGE_TRY(check_arguments(plan,
                             {{"pooled_q", place_of(args.pooled_q, p.batch * p.q_tokens)},
                              {"pooled_k", place_of(args.pooled_k, p.batch * p.kv_tokens)}},
                             {{"q.data", place_of(args.q)}, {"k.data", place_of(args.k)}}));
  return detail::enqueue_pool(p, plan.device, args.q, args.k, args.pooled_q, args.pooled_k, stream);
}

}  // namespace sparge
