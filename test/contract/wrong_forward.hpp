#pragma once
/// Every wrong argument of forward().

#include "contract/typed_calls.hpp"
#include "contract/wrong_arguments.hpp"

namespace sparge::test {

template <class T>
WrongCalls<ForwardCall<T>> wrong_forward_calls(ForwardCall<T> const& right) {
  using Call = ForwardCall<T>;
  WrongCalls<Call> wrong(right);
  wrong.add_view(
      "q.data", "q.shape", "q.stride", [](Call & c) -> auto& { return c.args.q; });
  wrong.add_view(
      "k.data", "k.shape", "k.stride", [](Call & c) -> auto& { return c.args.k; });
  wrong.add_view(
      "v.data", "v.shape", "v.stride", [](Call & c) -> auto& { return c.args.v; });
  wrong.add_view(
      "out.data", "out.shape", "out.stride", [](Call & c) -> auto& { return c.args.out; });
  wrong.add_overlapping_output(
      "out.stride", [](Call & c) -> auto& { return c.args.out; });
  wrong.add_mask(
      "mask.data", "mask.words", [](Call & c) -> auto& { return c.args.mask; });
  wrong.add_pointer(
      "lse", [](Call & c) -> auto& { return c.args.lse; }, 16, true);
  wrong.add_workspace();
  wrong.add_alias("out.data", [](Call& c) { c.args.q.data = c.args.out.data; });
  wrong.add_alias("out.data", [](Call& c) { c.args.k.data = c.args.out.data; });
  wrong.add_alias("out.data", [](Call& c) { c.args.v.data = c.args.out.data; });
  wrong.add_alias("out.data", [](Call& c) { c.args.lse = reinterpret_cast<float*>(c.args.out.data); });
  wrong.add_alias("out.data",
                  [](Call& c) { c.args.mask.data = reinterpret_cast<std::uint32_t*>(c.args.out.data); });
  wrong.add_alias("lse", [](Call& c) { c.args.q.data = reinterpret_cast<T*>(c.args.lse); });
  wrong.add_alias("lse", [](Call& c) { c.args.k.data = reinterpret_cast<T*>(c.args.lse); });
  wrong.add_alias("lse", [](Call& c) { c.args.v.data = reinterpret_cast<T*>(c.args.lse); });
  wrong.add_alias("lse", [](Call& c) { c.args.mask.data = reinterpret_cast<std::uint32_t*>(c.args.lse); });
  wrong.add("a plan that was never made", invalid("plan.kernel", -1), [](Call& c) { c.plan.kernel = -1; });
  wrong.add("a kernel past the table", invalid("plan.kernel", 1000), [](Call& c) { c.plan.kernel = 1000; });
  AttentionProblem const& p = right.plan.problem;
  wrong.add("a plan for more queries", not_the_plans_axis("q.shape", 2, p.q_tokens, p.q_tokens + 128),
            [](Call& c) { c.plan.problem.q_tokens += 128; });
  wrong.add("a plan for fewer keys", not_the_plans_axis("k.shape", 2, p.kv_tokens, p.kv_tokens - 1),
            [](Call& c) { c.plan.problem.kv_tokens -= 1; });
  std::int64_t const kernel = right.plan.kernel;
  wrong.add("a plan edited to another head_dim", invalid("plan.kernel", kernel),
            [](Call& c) { c.plan.problem.head_dim = c.plan.problem.head_dim == 64 ? 128 : 64; });
  wrong.add("a plan edited to smaller query blocks than its tile", invalid("plan.kernel", kernel),
            [](Call& c) { c.plan.problem.q_block = 64; });
  wrong.add("a plan edited to no query block", not_built("problem.q_block", 0),
            [](Call& c) { c.plan.problem.q_block = 0; });
  wrong.add("a plan edited to a causal order", not_built("problem.order", 1),
            [](Call& c) { c.plan.problem.order = TokenOrder::causal_bottom_right; });
  wrong.add("a plan for another batch", not_the_plans_axis("q.shape", 0, p.batch, p.batch - 1),
            [](Call& c) { c.plan.problem.batch -= 1; });
  return wrong;
}

}  // namespace sparge::test
