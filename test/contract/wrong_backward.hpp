#pragma once
/// Every wrong argument of backward().

#include "contract/typed_calls.hpp"
#include "contract/wrong_arguments.hpp"

namespace sparge::test {

namespace detail {

template <class T>
void add_wrong_backward_arguments(WrongCalls<BackwardCall<T>>& wrong) {
  using Call = BackwardCall<T>;
  wrong.add_view(
      "q.data", "q.shape", "q.stride", [](Call & c) -> auto& { return c.args.q; });
  wrong.add_view(
      "k.data", "k.shape", "k.stride", [](Call & c) -> auto& { return c.args.k; });
  wrong.add_view(
      "v.data", "v.shape", "v.stride", [](Call & c) -> auto& { return c.args.v; });
  wrong.add_view(
      "out.data", "out.shape", "out.stride", [](Call & c) -> auto& { return c.args.out; });
  wrong.add_view(
      "grad_out.data", "grad_out.shape", "grad_out.stride",
      [](Call & c) -> auto& { return c.args.grad_out; });
  wrong.add_view(
      "grad_q.data", "grad_q.shape", "grad_q.stride", [](Call & c) -> auto& { return c.args.grad_q; });
  wrong.add_view(
      "grad_k.data", "grad_k.shape", "grad_k.stride", [](Call & c) -> auto& { return c.args.grad_k; });
  wrong.add_view(
      "grad_v.data", "grad_v.shape", "grad_v.stride", [](Call & c) -> auto& { return c.args.grad_v; });
  wrong.add_overlapping_output(
      "grad_q.stride", [](Call & c) -> auto& { return c.args.grad_q; });
  wrong.add_overlapping_output(
      "grad_k.stride", [](Call & c) -> auto& { return c.args.grad_k; });
  wrong.add_overlapping_output(
      "grad_v.stride", [](Call & c) -> auto& { return c.args.grad_v; });
  wrong.add_pointer(
      "lse", [](Call & c) -> auto& { return c.args.lse; }, 16);
  wrong.add_pointer(
      "grad_lse", [](Call & c) -> auto& { return c.args.grad_lse; }, 16, true);
  wrong.add_mask(
      "mask.data", "mask.words", [](Call & c) -> auto& { return c.args.mask; });
  wrong.add_workspace();
}

/// Each output and the workspace at the address of another argument.
template <class T>
void add_backward_aliases(WrongCalls<BackwardCall<T>>& wrong) {
  using Call = BackwardCall<T>;
  wrong.add_alias("grad_q.data", [](Call& c) { c.args.q.data = c.args.grad_q.data; });
  wrong.add_alias("grad_q.data", [](Call& c) { c.args.out.data = c.args.grad_q.data; });
  wrong.add_alias("grad_q.data", [](Call& c) { c.args.grad_out.data = c.args.grad_q.data; });
  wrong.add_alias("grad_q.data", [](Call& c) { c.args.grad_k.data = c.args.grad_q.data; });
  wrong.add_alias("grad_q.data", [](Call& c) { c.args.lse = reinterpret_cast<float*>(c.args.grad_q.data); });
  wrong.add_alias("grad_k.data", [](Call& c) { c.args.k.data = c.args.grad_k.data; });
  wrong.add_alias("grad_k.data", [](Call& c) { c.args.grad_v.data = c.args.grad_k.data; });
  wrong.add_alias("grad_k.data",
                  [](Call& c) { c.args.grad_lse = reinterpret_cast<float*>(c.args.grad_k.data); });
  wrong.add_alias("grad_v.data", [](Call& c) { c.args.v.data = c.args.grad_v.data; });
  wrong.add_alias("grad_v.data",
                  [](Call& c) { c.args.mask.data = reinterpret_cast<std::uint32_t*>(c.args.grad_v.data); });
  wrong.add_alias("grad_v.data", [](Call& c) { c.workspace.data = c.args.grad_v.data; });
  wrong.add_alias("workspace.data", [](Call& c) { c.args.q.data = static_cast<T*>(c.workspace.data); });
  wrong.add_alias("workspace.data", [](Call& c) { c.args.lse = static_cast<float*>(c.workspace.data); });
}

inline bool is_for_sm90a(std::int32_t row) {
  KernelInfo info{};
  must(supported_backward_kernel(row, &info));
  return std::string(info.name).find(" sm90a ") != std::string::npos;
}

/// What kernels for 9.0 refuse beyond the others: strides that descriptors cannot hold, and another GPU.
template <class T>
void add_wrong_backward_for_sm90a(WrongCalls<BackwardCall<T>>& wrong) {
  using Call = BackwardCall<T>;
  BackwardPlan<T> const& plan = wrong.right().plan;
  if (!is_for_sm90a(plan.dkdv_kernel) || !is_for_sm90a(plan.dq_kernel)) return;
  std::int64_t const far = std::int64_t{1} << 39;  // elements of two bytes
  auto const add_far = [&](char const* field, auto reach) {
    Refusal refusal = not_built(field, far);
    refusal.axis = 0;
    wrong.add(field + std::string(" of 2^40 bytes"), refusal, [=](Call& c) { reach(c).stride[0] = far; });
  };
  add_far(
      "q.stride", [](Call & c) -> auto& { return c.args.q; });
  add_far(
      "k.stride", [](Call & c) -> auto& { return c.args.k; });
  add_far(
      "v.stride", [](Call & c) -> auto& { return c.args.v; });
  add_far(
      "grad_out.stride", [](Call & c) -> auto& { return c.args.grad_out; });
  add_far(
      "grad_q.stride", [](Call & c) -> auto& { return c.args.grad_q; });
  add_far(
      "grad_k.stride", [](Call & c) -> auto& { return c.args.grad_k; });
  add_far(
      "grad_v.stride", [](Call & c) -> auto& { return c.args.grad_v; });
  wrong.add("a plan edited to another GPU", invalid("plan.dkdv_kernel", plan.dkdv_kernel),
            [](Call& c) { c.plan.device.capability_major = 8; });
}

template <class T>
void add_wrong_backward_plans(WrongCalls<BackwardCall<T>>& wrong, BackwardPlan<T> const& plan) {
  using Call = BackwardCall<T>;
  AttentionProblem const& p = plan.problem;
  std::int64_t const dkdv = plan.dkdv_kernel, dq = plan.dq_kernel;
  wrong.add("a plan that was never made", invalid("plan.dkdv_kernel", -1),
            [](Call& c) { c.plan.dkdv_kernel = -1; });
  wrong.add("a plan without a kernel for dQ", invalid("plan.dq_kernel", -1),
            [](Call& c) { c.plan.dq_kernel = -1; });
  wrong.add("a kernel past the table", invalid("plan.dkdv_kernel", 1000),
            [](Call& c) { c.plan.dkdv_kernel = 1000; });
  wrong.add("the kernel of the other pass", invalid("plan.dkdv_kernel", dq),
            [](Call& c) { c.plan.dkdv_kernel = c.plan.dq_kernel; });
  wrong.add("the kernel of the other pass for dQ", invalid("plan.dq_kernel", dkdv),
            [](Call& c) { c.plan.dq_kernel = c.plan.dkdv_kernel; });
  wrong.add("a plan for more queries", not_the_plans_axis("q.shape", 2, p.q_tokens, p.q_tokens + 128),
            [](Call& c) { c.plan.problem.q_tokens += 128; });
  wrong.add("a plan for fewer keys", not_the_plans_axis("k.shape", 2, p.kv_tokens, p.kv_tokens - 1),
            [](Call& c) { c.plan.problem.kv_tokens -= 1; });
  wrong.add("a plan edited to another head_dim", invalid("plan.dkdv_kernel", dkdv),
            [](Call& c) { c.plan.problem.head_dim = c.plan.problem.head_dim == 64 ? 128 : 64; });
  // Tiles of the portable kernels of dK and dV are 64 queries.
  wrong.add(
      "a plan edited to smaller query blocks than its tile",
      is_for_sm90a(plan.dkdv_kernel) ? invalid("plan.dkdv_kernel", dkdv) : invalid("plan.dq_kernel", dq),
      [](Call& c) { c.plan.problem.q_block = 64; });
  wrong.add("a plan edited to a causal order", not_built("problem.order", 1),
            [](Call& c) { c.plan.problem.order = TokenOrder::causal_bottom_right; });
  std::int64_t const need = static_cast<std::int64_t>(plan.workspace_bytes);
  wrong.add("a plan whose workspace was edited away",
            {StatusCode::workspace_too_small, "workspace.bytes", -1, 0, need},
            [](Call& c) { c.plan.workspace_bytes = c.workspace.bytes = 0; });
}

}  // namespace detail

template <class T>
WrongCalls<BackwardCall<T>> wrong_backward_calls(BackwardCall<T> const& right) {
  WrongCalls<BackwardCall<T>> wrong(right);
  detail::add_wrong_backward_arguments(wrong);
  detail::add_backward_aliases(wrong);
  detail::add_wrong_backward_for_sm90a(wrong);
  detail::add_wrong_backward_plans(wrong, right.plan);
  return wrong;
}

}  // namespace sparge::test
