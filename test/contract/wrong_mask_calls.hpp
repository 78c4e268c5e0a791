#pragma once
/// Every wrong argument of the calls that pool, select, build, count and convert masks.

#include <cmath>
#include <cstdint>
#include <string>

#include "contract/typed_calls.hpp"
#include "contract/wrong_arguments.hpp"

namespace sparge::test {

namespace detail {

/// Wrong values of `reach(call)`, a MaskRule.
template <class Call, class Reach>
void add_wrong_rule(WrongCalls<Call>& wrong, Reach reach) {
  for (double share : {-0.01, 1.01, 5.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    wrong.add("top_k " + std::to_string(share), invalid("rule.top_k"),
              [=](Call& call) { reach(call).top_k = share; });
    wrong.add("top_p " + std::to_string(share), invalid("rule.top_p"),
              [=](Call& call) { reach(call).top_p = share; });
  }
  auto const add_count = [&](char const* field, std::int64_t value, auto set) {
    wrong.add(field, invalid(field, value), [=](Call& call) { set(reach(call), value); });
  };
  add_count("rule.min_blocks", -1, [](MaskRule& r, auto n) { r.min_blocks = static_cast<std::int32_t>(n); });
  add_count("rule.keep.kv_front_tokens", -1, [](MaskRule& r, auto n) { r.keep.kv_front_tokens = n; });
  add_count("rule.keep.kv_back_tokens", -7, [](MaskRule& r, auto n) { r.keep.kv_back_tokens = n; });
  add_count("rule.keep.band_tokens", -2, [](MaskRule& r, auto n) { r.keep.band_tokens = n; });
  add_count("rule.keep.dense_q_front_tokens", -1,
            [](MaskRule& r, auto n) { r.keep.dense_q_front_tokens = n; });
  add_count("rule.keep.dense_q_back_tokens", -1, [](MaskRule& r, auto n) { r.keep.dense_q_back_tokens = n; });
  wrong.add_pointer(
      "rule.top_k_of_head", [=](Call & c) -> auto& { return reach(c).top_k_of_head; }, 16, true);
  wrong.add_pointer(
      "rule.top_p_of_head", [=](Call & c) -> auto& { return reach(c).top_p_of_head; }, 16, true);
}

/// Shares of single heads where `reach(call)`, an output, or the workspace lies.
template <class Call, class Reach>
void add_shares_in_outputs(WrongCalls<Call>& wrong, char const* field, Reach reach) {
  wrong.add_alias(field, [=](Call& c) { c.args.rule.top_k_of_head = reinterpret_cast<float*>(reach(c)); });
  wrong.add_alias(field, [=](Call& c) { c.args.rule.top_p_of_head = reinterpret_cast<float*>(reach(c)); });
  wrong.add_alias("workspace.data",
                  [](Call& c) { c.args.rule.top_k_of_head = static_cast<float*>(c.workspace.data); });
  wrong.add_alias("workspace.data",
                  [](Call& c) { c.args.rule.top_p_of_head = static_cast<float*>(c.workspace.data); });
}

/// A plan whose problem has more queries than the arguments.
template <class Call>
void add_stale_plan(WrongCalls<Call>& wrong) {
  AttentionProblem const& p = wrong.right().plan.problem;
  wrong.add("a plan for more queries", not_the_plans_axis("q.shape", 2, p.q_tokens, p.q_tokens + 128),
            [](Call& call) { call.plan.problem.q_tokens += 128; });
  wrong.add("a plan for fewer keys", not_the_plans_axis("k.shape", 2, p.kv_tokens, p.kv_tokens - 1),
            [](Call& call) { call.plan.problem.kv_tokens -= 1; });
}

template <class Call>
void add_pooled(WrongCalls<Call>& wrong) {
  wrong.add_pointer(
      "pooled_q", [](Call & c) -> auto& { return c.args.pooled_q; }, 16);
  wrong.add_pointer(
      "pooled_k", [](Call & c) -> auto& { return c.args.pooled_k; }, 16);
}

/// `reach(call)` is a BlockLists.
template <class Call, class Reach>
void add_wrong_lists(WrongCalls<Call>& wrong, Reach reach) {
  wrong.add_pointer(
      "lists.counts", [=](Call & c) -> auto& { return reach(c).counts; }, 4);
  wrong.add_pointer(
      "lists.indices", [=](Call & c) -> auto& { return reach(c).indices; }, 4);
  wrong.add("negative capacity", invalid("lists.capacity", -1), [=](Call& c) { reach(c).capacity = -1; });
}

/// `reach(call)` is a ByteMask: any alignment, one length.
template <class Call, class Reach>
void add_wrong_bytes(WrongCalls<Call>& wrong, Call right, Reach reach) {
  wrong.add("bytes null", invalid("bytes.data"), [=](Call& c) { reach(c).data = nullptr; });
  auto const count = static_cast<std::int64_t>(reach(right).bytes);
  for (std::int64_t given : {count - 1, count + 1, std::int64_t{0}})
    wrong.add("bytes of a wrong length", not_the_plans("bytes.bytes", given, count),
              [=](Call& c) { reach(c).bytes = static_cast<std::size_t>(given); });
}

}  // namespace detail

template <class T>
WrongCalls<PoolCall<T>> wrong_pool_calls(PoolCall<T> const& right) {
  using Call = PoolCall<T>;
  WrongCalls<Call> wrong(right);
  wrong.add_view(
      "q.data", "q.shape", "q.stride", [](Call & c) -> auto& { return c.args.q; });
  wrong.add_view(
      "k.data", "k.shape", "k.stride", [](Call & c) -> auto& { return c.args.k; });
  detail::add_pooled(wrong);
  wrong.add_workspace();
  detail::add_stale_plan(wrong);
  wrong.add_alias("pooled_q", [](Call& c) { c.args.q.data = reinterpret_cast<T*>(c.args.pooled_q); });
  wrong.add_alias("pooled_k", [](Call& c) { c.args.k.data = reinterpret_cast<T*>(c.args.pooled_k); });
  wrong.add_alias("pooled_q", [](Call& c) { c.args.k.data = reinterpret_cast<T*>(c.args.pooled_q); });
  wrong.add_alias("pooled_k", [](Call& c) { c.args.q.data = reinterpret_cast<T*>(c.args.pooled_k); });
  wrong.add_alias("pooled_q", [](Call& c) { c.args.pooled_k = c.args.pooled_q; });
  return wrong;
}

inline WrongCalls<SelectCall> wrong_select_calls(SelectCall const& right) {
  using Call = SelectCall;
  WrongCalls<Call> wrong(right);
  detail::add_pooled(wrong);
  detail::add_wrong_rule(
      wrong, [](Call & c) -> auto& { return c.args.rule; });
  wrong.add_mask(
      "mask.data", "mask.words", [](Call & c) -> auto& { return c.args.mask; });
  wrong.add_workspace();
  wrong.add_alias("mask.data", [](Call& c) { c.args.pooled_q = reinterpret_cast<float*>(c.args.mask.data); });
  wrong.add_alias("mask.data", [](Call& c) { c.args.pooled_k = reinterpret_cast<float*>(c.args.mask.data); });
  wrong.add_alias("mask.data",
                  [](Call& c) { c.args.mask.data = static_cast<std::uint32_t*>(c.workspace.data); });
  wrong.add_alias("workspace.data", [](Call& c) { c.args.pooled_q = static_cast<float*>(c.workspace.data); });
  wrong.add_alias("workspace.data", [](Call& c) { c.args.pooled_k = static_cast<float*>(c.workspace.data); });
  detail::add_shares_in_outputs(
      wrong, "mask.data", [](Call & c) -> auto& { return c.args.mask.data; });
  return wrong;
}

template <class T>
WrongCalls<BuildMaskCall<T>> wrong_build_mask_calls(BuildMaskCall<T> const& right) {
  using Call = BuildMaskCall<T>;
  WrongCalls<Call> wrong(right);
  wrong.add_view(
      "q.data", "q.shape", "q.stride", [](Call & c) -> auto& { return c.args.q; });
  wrong.add_view(
      "k.data", "k.shape", "k.stride", [](Call & c) -> auto& { return c.args.k; });
  detail::add_wrong_rule(
      wrong, [](Call & c) -> auto& { return c.args.rule; });
  wrong.add_mask(
      "mask.data", "mask.words", [](Call & c) -> auto& { return c.args.mask; });
  wrong.add_workspace();
  detail::add_stale_plan(wrong);
  wrong.add_alias("mask.data", [](Call& c) { c.args.q.data = reinterpret_cast<T*>(c.args.mask.data); });
  wrong.add_alias("mask.data", [](Call& c) { c.args.k.data = reinterpret_cast<T*>(c.args.mask.data); });
  wrong.add_alias("workspace.data", [](Call& c) { c.args.q.data = static_cast<T*>(c.workspace.data); });
  wrong.add_alias("workspace.data", [](Call& c) { c.args.k.data = static_cast<T*>(c.workspace.data); });
  detail::add_shares_in_outputs(
      wrong, "mask.data", [](Call & c) -> auto& { return c.args.mask.data; });
  return wrong;
}

inline WrongCalls<StatsCall> wrong_stats_calls(StatsCall const& right) {
  using Call = StatsCall;
  WrongCalls<Call> wrong(right);
  detail::add_pooled(wrong);
  detail::add_wrong_rule(
      wrong, [](Call & c) -> auto& { return c.args.rule; });
  wrong.add_mask(
      "mask.data", "mask.words", [](Call & c) -> auto& { return c.args.mask; });
  wrong.add_pointer(
      "stats", [](Call & c) -> auto& { return c.args.stats; }, 16);
  wrong.add_workspace();
  wrong.add_alias("stats", [](Call& c) { c.args.pooled_q = reinterpret_cast<float*>(c.args.stats); });
  wrong.add_alias("stats", [](Call& c) { c.args.pooled_k = reinterpret_cast<float*>(c.args.stats); });
  detail::add_shares_in_outputs(
      wrong, "stats", [](Call & c) -> auto& { return c.args.stats; });
  wrong.add_alias("stats",
                  [](Call& c) { c.args.mask.data = reinterpret_cast<std::uint32_t*>(c.args.stats); });
  wrong.add_alias("workspace.data",
                  [](Call& c) { c.args.mask.data = static_cast<std::uint32_t*>(c.workspace.data); });
  wrong.add_alias("workspace.data", [](Call& c) { c.args.pooled_k = static_cast<float*>(c.workspace.data); });
  return wrong;
}

inline WrongCalls<CalibrateCall> wrong_calibrate_calls(CalibrateCall const& right) {
  using Call = CalibrateCall;
  WrongCalls<Call> wrong(right);
  detail::add_pooled(wrong);
  for (double share : {-0.01, 1.01, std::nan("")}) {
    wrong.add("top_k " + std::to_string(share), invalid("rule.top_k"),
              [=](Call& c) { c.args.rule.top_k = share; });
    wrong.add("target " + std::to_string(share), invalid("target.value"),
              [=](Call& c) { c.args.target.value = share; });
  }
  wrong.add("min_blocks", invalid("rule.min_blocks", -1), [](Call& c) { c.args.rule.min_blocks = -1; });
  wrong.add("band", invalid("rule.keep.band_tokens", -2), [](Call& c) { c.args.rule.keep.band_tokens = -2; });
  for (std::int32_t none : {-1, 2}) {
    wrong.add("goal", invalid("target.goal", none),
              [=](Call& c) { c.args.target.goal = static_cast<CalibrationGoal>(none); });
    wrong.add("scope", invalid("target.scope", none),
              [=](Call& c) { c.args.target.scope = static_cast<CalibrationScope>(none); });
  }
  wrong.add_pointer(
      "rule.top_k_of_head", [](Call & c) -> auto& { return c.args.rule.top_k_of_head; }, 16, true);
  wrong.add_pointer(
      "top_p_of_head", [](Call & c) -> auto& { return c.args.top_p_of_head; }, 16);
  wrong.add_pointer(
      "report", [](Call & c) -> auto& { return c.args.report; }, 16, true);
  wrong.add_workspace();
  wrong.add_alias("top_p_of_head", [](Call& c) { c.args.pooled_q = c.args.top_p_of_head; });
  wrong.add_alias("top_p_of_head", [](Call& c) { c.args.pooled_k = c.args.top_p_of_head; });
  wrong.add_alias("top_p_of_head", [](Call& c) { c.args.rule.top_k_of_head = c.args.top_p_of_head; });
  wrong.add_alias("top_p_of_head",
                  [](Call& c) { c.args.report = reinterpret_cast<Calibration*>(c.args.top_p_of_head); });
  wrong.add_alias("report", [](Call& c) { c.args.pooled_q = reinterpret_cast<float*>(c.args.report); });
  wrong.add_alias("report", [](Call& c) { c.args.pooled_k = reinterpret_cast<float*>(c.args.report); });
  wrong.add_alias("report",
                  [](Call& c) { c.args.rule.top_k_of_head = reinterpret_cast<float*>(c.args.report); });
  wrong.add_alias("workspace.data", [](Call& c) { c.args.pooled_k = static_cast<float*>(c.workspace.data); });
  wrong.add_alias("workspace.data",
                  [](Call& c) { c.args.rule.top_k_of_head = static_cast<float*>(c.workspace.data); });
  return wrong;
}

inline WrongCalls<TransposeCall> wrong_transpose_calls(TransposeCall const& right) {
  using Call = TransposeCall;
  WrongCalls<Call> wrong(right);
  wrong.add_mask(
      "mask.data", "mask.words", [](Call & c) -> auto& { return c.mask; });
  wrong.add_mask(
      "transposed.data", "transposed.words", [](Call & c) -> auto& { return c.transposed; });
  wrong.add_alias("transposed.data", [](Call& c) { c.mask.data = c.transposed.data; });
  return wrong;
}

inline WrongCalls<SliceCall> wrong_slice_calls(SliceCall const& right) {
  using Call = SliceCall;
  WrongCalls<Call> wrong(right);
  wrong.add_mask(
      "mask.data", "mask.words", [](Call & c) -> auto& { return c.mask; });
  wrong.add_mask(
      "shard.data", "shard.words", [](Call & c) -> auto& { return c.shard; });
  wrong.add_alias("shard.data", [](Call& c) { c.mask.data = c.shard.data; });
  AttentionProblem const& p = right.plan.problem;
  constexpr std::int64_t huge = std::numeric_limits<std::int64_t>::max();
  auto const add_range = [&](char const* first, char const* count, std::int64_t blocks, auto reach) {
    for (std::int64_t wrong_first : {std::int64_t{-1}, blocks + 1, huge, -huge})
      wrong.add(first, invalid(first, wrong_first, blocks), [=](Call& c) { reach(c).first = wrong_first; });
    for (std::int64_t wrong_count : {std::int64_t{-1}, blocks, huge, -huge})
      wrong.add(count, invalid(count, wrong_count, blocks - 1),
                [=](Call& c) { reach(c).count = wrong_count; });
  };
  add_range(
      "q.first", "q.count", p.q_blocks(), [](Call & c) -> auto& { return c.q; });
  add_range(
      "kv.first", "kv.count", p.kv_blocks(), [](Call & c) -> auto& { return c.kv; });
  return wrong;
}

inline WrongCalls<ToBytesCall> wrong_to_bytes_calls(ToBytesCall const& right) {
  using Call = ToBytesCall;
  WrongCalls<Call> wrong(right);
  wrong.add_mask(
      "mask.data", "mask.words", [](Call & c) -> auto& { return c.mask; });
  detail::add_wrong_bytes(
      wrong, right, [](Call & c) -> auto& { return c.bytes; });
  wrong.add_alias("bytes.data",
                  [](Call& c) { c.mask.data = reinterpret_cast<std::uint32_t*>(c.bytes.data); });
  return wrong;
}

inline WrongCalls<FromBytesCall> wrong_from_bytes_calls(FromBytesCall const& right) {
  using Call = FromBytesCall;
  WrongCalls<Call> wrong(right);
  wrong.add_mask(
      "mask.data", "mask.words", [](Call & c) -> auto& { return c.mask; });
  detail::add_wrong_bytes(
      wrong, right, [](Call & c) -> auto& { return c.bytes; });
  wrong.add_alias("mask.data", [](Call& c) { c.bytes.data = reinterpret_cast<std::uint8_t*>(c.mask.data); });
  return wrong;
}

inline WrongCalls<ToListsCall> wrong_to_lists_calls(ToListsCall const& right) {
  using Call = ToListsCall;
  WrongCalls<Call> wrong(right);
  wrong.add_mask(
      "mask.data", "mask.words", [](Call & c) -> auto& { return c.mask; });
  detail::add_wrong_lists(
      wrong, [](Call & c) -> auto& { return c.lists; });
  std::int64_t const least = right.plan.problem.kv_blocks();
  wrong.add("a capacity that a full row overflows", invalid("lists.capacity", least - 1, least),
            [=](Call& c) { c.lists.capacity = least - 1; });
  wrong.add_alias("lists.counts",
                  [](Call& c) { c.mask.data = reinterpret_cast<std::uint32_t*>(c.lists.counts); });
  wrong.add_alias("lists.indices",
                  [](Call& c) { c.mask.data = reinterpret_cast<std::uint32_t*>(c.lists.indices); });
  wrong.add_alias("lists.counts", [](Call& c) { c.lists.indices = c.lists.counts; });
  return wrong;
}

inline WrongCalls<FromListsCall> wrong_from_lists_calls(FromListsCall const& right) {
  using Call = FromListsCall;
  WrongCalls<Call> wrong(right);
  wrong.add_mask(
      "mask.data", "mask.words", [](Call & c) -> auto& { return c.mask; });
  detail::add_wrong_lists(
      wrong, [](Call & c) -> auto& { return c.lists; });
  wrong.add_alias("mask.data",
                  [](Call& c) { c.lists.counts = reinterpret_cast<std::int32_t*>(c.mask.data); });
  wrong.add_alias("mask.data",
                  [](Call& c) { c.lists.indices = reinterpret_cast<std::int32_t*>(c.mask.data); });
  return wrong;
}

}  // namespace sparge::test
