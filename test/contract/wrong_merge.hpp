#pragma once
/// Every wrong argument of merge_partials().

#include <cstdint>

#include "contract/merge_calls.hpp"
#include "contract/wrong_arguments.hpp"

namespace sparge::test {

namespace detail {

/// Elements of T in 16 bytes.
template <class T>
inline constexpr std::int64_t stride_unit = 16 / sizeof(T);

template <class T>
void add_wrong_inputs(WrongCalls<MergeCall<T>>& wrong) {
  using Call = MergeCall<T>;
  wrong.add_view(
      "partials[0].out.data", "partials[0].out.shape", "partials[0].out.stride",
      [](Call & c) -> auto& { return c.args.partials[0].out; }, stride_unit<T>);
  wrong.add_view(
      "partials[1].out.data", "partials[1].out.shape", "partials[1].out.stride",
      [](Call & c) -> auto& { return c.args.partials[1].out; }, stride_unit<T>);
  wrong.add_view(
      "running.out.data", "running.out.shape", "running.out.stride",
      [](Call & c) -> auto& { return c.args.running.out; }, stride_unit<float>);
  wrong.add_pointer(
      "partials[0].lse", [](Call & c) -> auto& { return c.args.partials[0].lse; }, 16);
  wrong.add_pointer(
      "partials[1].lse", [](Call & c) -> auto& { return c.args.partials[1].lse; }, 16);
  wrong.add_pointer(
      "running.lse", [](Call & c) -> auto& { return c.args.running.lse; }, 16);
  wrong.add("more partial results than a call takes", invalid("count", most_partials + 1, most_partials),
            [](Call& c) { c.args.count = most_partials + 1; });
  wrong.add("a count below 0", invalid("count", -1, 0), [](Call& c) { c.args.count = -1; });
  wrong.add("nothing to merge", invalid("count", 0, 1),
            [](Call& c) { c.args.count = 0, c.args.running = {}; });
  wrong.add("a partial result that was not given", not_the_plans_axis("partials[2].out.shape", 0, 0, 2),
            [](Call& c) { c.args.count = 3; });
}

template <class T>
void add_wrong_plans(WrongCalls<MergeCall<T>>& wrong) {
  using Call = MergeCall<T>;
  std::int64_t const tokens = wrong.right().plan.problem.q_tokens;
  wrong.add("a plan for more queries", not_the_plans_axis("partials[0].out.shape", 2, tokens, tokens + 128),
            [](Call& c) { c.plan.problem.q_tokens += 128; });
  wrong.add("a plan edited to another head_dim", not_built("problem.head_dim", 96),
            [](Call& c) { c.plan.problem.head_dim = 96; });
}

/// `reach(call)` is an output: the inputs may not begin where it does, nor another output.
template <class T, class Reach>
void add_merge_aliases(WrongCalls<MergeCall<T>>& wrong, char const* field, Reach reach) {
  using Call = MergeCall<T>;
  wrong.add_alias(field,
                  [=](Call& c) { c.args.partials[0].out.data = reinterpret_cast<T const*>(reach(c)); });
  wrong.add_alias(field,
                  [=](Call& c) { c.args.partials[1].out.data = reinterpret_cast<T const*>(reach(c)); });
  wrong.add_alias(field, [=](Call& c) { c.args.partials[1].lse = reinterpret_cast<float const*>(reach(c)); });
  wrong.add_alias(field,
                  [=](Call& c) { c.args.running.out.data = reinterpret_cast<float const*>(reach(c)); });
  wrong.add_alias(field, [=](Call& c) { c.args.running.lse = reinterpret_cast<float const*>(reach(c)); });
}

}  // namespace detail

/// A call that asks for `out` and lse.
template <class T>
WrongCalls<MergeCall<T>> wrong_merge_calls(MergeCall<T> right) {
  using Call = MergeCall<T>;
  right.args.running_out = {};
  WrongCalls<Call> wrong(right);
  detail::add_wrong_inputs(wrong);
  detail::add_wrong_plans(wrong);
  wrong.add_view(
      "out.data", "out.shape", "out.stride", [](Call & c) -> auto& { return c.args.out; },
      detail::stride_unit<T>);
  wrong.add_overlapping_output(
      "out.stride", [](Call & c) -> auto& { return c.args.out; });
  wrong.add_pointer(
      "lse", [](Call & c) -> auto& { return c.args.lse; }, 16, true);
  detail::add_merge_aliases(wrong, "out.data", [](Call& c) { return c.args.out.data; });
  detail::add_merge_aliases(wrong, "lse", [](Call& c) { return c.args.lse; });
  wrong.add_alias("out.data", [](Call& c) { c.args.lse = reinterpret_cast<float*>(c.args.out.data); });
  return wrong;
}

/// A call that asks for `running_out` and lse.
template <class T>
WrongCalls<MergeCall<T>> wrong_running_merge_calls(MergeCall<T> right) {
  using Call = MergeCall<T>;
  right.args.out = {};
  WrongCalls<Call> wrong(right);
  auto const reach = [](Call & c) -> auto& { return c.args.running_out; };
  wrong.add("no output", invalid("out.data"), [](Call& c) { c.args.running_out = {}; });
  wrong.add_misplaced_view("running_out.data", "running_out.shape", "running_out.stride", reach,
                           detail::stride_unit<float>);
  wrong.add_overlapping_output("running_out.stride", reach);
  detail::add_merge_aliases(wrong, "running_out.data", [](Call& c) { return c.args.running_out.data; });
  wrong.add_alias("running_out.data", [](Call& c) { c.args.lse = c.args.running_out.data; });
  return wrong;
}

}  // namespace sparge::test
