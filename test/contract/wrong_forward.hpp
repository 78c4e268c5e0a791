#pragma once
/// Every wrong argument of forward().

#include "contract/typed_calls.hpp"
#include "contract/wrong_arguments.hpp"

namespace sparge::test {

/// What kernels for 9.0 refuse beyond the others: strides that descriptors cannot hold, another GPU, scratch that is an output.
template <class T>
void add_wrong_for_sm90a(WrongCalls<ForwardCall<T>>& wrong) {
  using Call = ForwardCall<T>;
  KernelInfo info{};
  must(supported_kernel(wrong.right().plan.kernel, &info));
  if (std::string(info.name).rfind("sm90a", 0) != 0) return;
  std::int64_t const far = std::int64_t{1} << 39;  // elements of two bytes
  Refusal refusal = not_built("k.stride", far);
  refusal.axis = 0;
  wrong.add("a stride of 2^40 bytes", refusal, [=](Call& c) { c.args.k.stride[0] = far; });
  refusal.field = "out.stride";
  wrong.add("an output stride of 2^40 bytes", refusal, [=](Call& c) { c.args.out.stride[0] = far; });
  wrong.add("a plan edited to another GPU", invalid("plan.kernel", wrong.right().plan.kernel),
            [](Call& c) { c.plan.device.capability_major = 8; });
  wrong.add_alias("out.data", [](Call& c) { c.workspace.data = c.args.out.data; });
}

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
  add_wrong_for_sm90a(wrong);
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
