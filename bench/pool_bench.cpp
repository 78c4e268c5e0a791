/// Pooling of Q and K: pool/SHAPE/DTYPE/CACHE.

#include "support/bench.hpp"
#include "support/tensors.hpp"

namespace sparge::bench {
namespace {

template <class T>
Result run_pool(Gpu& gpu, AttentionProblem const& problem, PlanOptions const& options, Cache cache) {
  ClusteredQK<T> const inputs(problem, gpu.stream);
  Pooled const pooled(problem);
  PoolPlan<T> plan;
  sparge::check(plan_pool(problem, gpu.device, options, &plan));
  Scratch const scratch(plan.workspace_bytes);
  PoolArgs<T> const args{inputs.q_view(), inputs.k_view(), pooled.q.data(), pooled.k.data()};
  poison(pooled.q, gpu.stream);
  poison(pooled.k, gpu.stream);

  Result result;
  result.timing =
      gpu.timer.time(cache, [&] { sparge::check(pool(plan, args, scratch.workspace(), gpu.stream)); });
  result.bytes = inputs.bytes() + pooled.bytes();
  require_finite(pooled.q, "pooled_q");
  require_finite(pooled.k, "pooled_k");
  return result;
}

template <class T>
void add_pool(Shape const& shape, PlanOptions const& options, Cache cache) {
  add_case(std::string("pool/") + shape.name + "/" + dtype_name<T> + "/" + name_of(cache),
           [=](Gpu& gpu) { return run_pool<T>(gpu, shape.problem(), options, cache); });
}

}  // namespace

void register_cases(Options const& options) {
  PlanOptions plan = options.plan;
  plan.force_kernel = -1;  // the option names a forward kernel
  for (Shape const& shape : options.shapes) {
    add_pool<bfloat16>(shape, plan, Cache::cold);
    add_pool<bfloat16>(shape, plan, Cache::hot);
    add_pool<float16>(shape, plan, Cache::cold);
  }
}

}  // namespace sparge::bench
