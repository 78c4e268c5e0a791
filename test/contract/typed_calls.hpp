#pragma once
/// Every public call as a struct of plan, arguments and workspace, so that a test can spoil any one of them.

#include <cstdint>

#include "sparge/core/carver.hpp"
#include "sparge/sparge.hpp"
#include "support/gpu.hpp"

namespace sparge::test {

template <class T>
struct ForwardCall {
  ForwardPlan<T> plan;
  ForwardArgs<T> args;
  Workspace workspace;
  Status run(cudaStream_t stream) const { return forward(plan, args, workspace, stream); }
};

template <class T>
struct BackwardCall {
  BackwardPlan<T> plan;
  BackwardArgs<T> args;
  Workspace workspace;
  Status run(cudaStream_t stream) const { return backward(plan, args, workspace, stream); }
};

template <class T>
struct PoolCall {
  PoolPlan<T> plan;
  PoolArgs<T> args;
  Workspace workspace;
  Status run(cudaStream_t stream) const { return pool(plan, args, workspace, stream); }
};

struct SelectCall {
  SelectPlan plan;
  SelectArgs args;
  Workspace workspace;
  Status run(cudaStream_t stream) const { return select_blocks(plan, args, workspace, stream); }
};

template <class T>
struct BuildMaskCall {
  BuildMaskPlan<T> plan;
  BuildMaskArgs<T> args;
  Workspace workspace;
  Status run(cudaStream_t stream) const { return build_mask(plan, args, workspace, stream); }
};

struct StatsCall {
  MaskStatsPlan plan;
  MaskStatsArgs args;
  Workspace workspace;
  Status run(cudaStream_t stream) const { return mask_stats(plan, args, workspace, stream); }
};

struct CalibrateCall {
  CalibratePlan plan;
  CalibrateArgs args;
  Workspace workspace;
  Status run(cudaStream_t stream) const { return calibrate(plan, args, workspace, stream); }
};

struct TransposeCall {
  MaskFormPlan plan;
  MaskView mask;
  MaskOut transposed;
  Status run(cudaStream_t stream) const { return transpose_mask(plan, mask, transposed, stream); }
};

struct SliceCall {
  MaskFormPlan plan;
  MaskView mask;
  BlockRange q, kv;
  MaskOut shard;
  Status run(cudaStream_t stream) const { return slice_mask(plan, mask, q, kv, shard, stream); }
};

struct ToBytesCall {
  MaskFormPlan plan;
  MaskView mask;
  ByteMaskOut bytes;
  Status run(cudaStream_t stream) const { return mask_to_bytes(plan, mask, bytes, stream); }
};

struct FromBytesCall {
  MaskFormPlan plan;
  ByteMaskView bytes;
  MaskOut mask;
  Status run(cudaStream_t stream) const { return mask_from_bytes(plan, bytes, mask, stream); }
};

struct ToListsCall {
  MaskFormPlan plan;
  MaskView mask;
  BlockListsOut lists;
  Status run(cudaStream_t stream) const { return mask_to_lists(plan, mask, lists, stream); }
};

struct FromListsCall {
  MaskFormPlan plan;
  BlockListsView lists;
  MaskOut mask;
  Status run(cudaStream_t stream) const { return mask_from_lists(plan, lists, mask, stream); }
};

/// Where a call is laid out: its problem, device and options, and the memory that its arguments are cut from, which may
/// be imagined where the call is to be refused.
struct CallSite {
  AttentionProblem problem;
  Device device;
  PlanOptions options;
  Carver carver;

  template <class T>
  TensorView<T> tensor(std::int64_t heads, std::int64_t tokens) {
    std::int64_t const count = problem.batch * heads * tokens * problem.head_dim;
    return contiguous_bhnd<T>(carver.take<T>(count), problem.batch, heads, tokens, problem.head_dim);
  }
  template <class T>
  TensorView<T> queries() {
    return tensor<T>(problem.heads, problem.q_tokens);
  }
  template <class T>
  TensorView<T> keys() {
    return tensor<T>(problem.kv_heads, problem.kv_tokens);
  }
  float* pooled_queries() {
    return carver.take<float>(problem.batch * problem.heads * problem.q_blocks() * problem.head_dim);
  }
  float* pooled_keys() {
    return carver.take<float>(problem.batch * problem.kv_heads * problem.kv_blocks() * problem.head_dim);
  }
  MaskOut bits() {
    std::size_t words = 0;
    must(mask_words(problem, &words));
    return {carver.take<std::uint32_t>(static_cast<std::int64_t>(words)), words};
  }
  MaskOut transposed_bits() {
    std::size_t words = 0;
    must(transposed_mask_words(problem, &words));
    return {carver.take<std::uint32_t>(static_cast<std::int64_t>(words)), words};
  }
  template <class Byte>
  ByteMask<Byte> bytes() {
    std::int64_t const count = problem.batch * problem.heads * problem.q_blocks() * problem.kv_blocks();
    return {carver.take<std::uint8_t>(count), static_cast<std::size_t>(count)};
  }
  template <class Index>
  BlockLists<Index> lists() {
    std::int64_t const rows = problem.batch * problem.heads * problem.q_blocks(),
                       capacity = problem.kv_blocks();
    std::int32_t* const counts = carver.take<std::int32_t>(rows);
    return {counts, carver.take<std::int32_t>(rows * capacity), capacity};
  }
  Workspace scratch(std::size_t bytes) {
    return {carver.take<unsigned char>(static_cast<std::int64_t>(bytes)), bytes};
  }
  MaskFormPlan form_plan() const {
    MaskFormPlan plan;
    must(plan_mask_form(problem, device, options, &plan));
    return plan;
  }
};

template <class T>
ForwardCall<T> lay_out_forward(CallSite& site) {
  ForwardCall<T> call;
  must(plan_forward(site.problem, site.device, site.options, &call.plan));
  call.args = {site.queries<T>(), site.keys<T>(), site.keys<T>(), site.bits(), site.queries<T>()};
  call.args.lse = site.carver.take<float>(site.problem.batch * site.problem.heads * site.problem.q_tokens);
  call.workspace = site.scratch(call.plan.workspace_bytes);
  return call;
}

template <class T>
BackwardCall<T> lay_out_backward(CallSite& site) {
  BackwardCall<T> call;
  must(plan_backward(site.problem, site.device, site.options, &call.plan));
  std::int64_t const rows = site.problem.batch * site.problem.heads * site.problem.q_tokens;
  BackwardArgs<T>& args = call.args;
  args.q = site.queries<T>(), args.k = site.keys<T>(), args.v = site.keys<T>();
  args.out = site.queries<T>(), args.grad_out = site.queries<T>();
  args.lse = site.carver.take<float>(rows), args.grad_lse = site.carver.take<float>(rows);
  args.mask = site.bits();
  args.grad_q = site.queries<T>(), args.grad_k = site.keys<T>(), args.grad_v = site.keys<T>();
  call.workspace = site.scratch(call.plan.workspace_bytes);
  return call;
}

template <class T>
PoolCall<T> lay_out_pool(CallSite& site) {
  PoolCall<T> call;
  must(plan_pool(site.problem, site.device, site.options, &call.plan));
  call.args = {site.queries<T>(), site.keys<T>(), site.pooled_queries(), site.pooled_keys()};
  call.workspace = site.scratch(call.plan.workspace_bytes);
  return call;
}

inline SelectCall lay_out_select(CallSite& site) {
  SelectCall call;
  must(plan_select_blocks(site.problem, site.device, site.options, &call.plan));
  call.args = {site.pooled_queries(), site.pooled_keys(), {}, site.bits()};
  call.args.rule.top_k_of_head = site.carver.take<float>(site.problem.heads);
  call.args.rule.top_p_of_head = site.carver.take<float>(site.problem.heads);
  call.workspace = site.scratch(call.plan.workspace_bytes);
  return call;
}

template <class T>
BuildMaskCall<T> lay_out_build_mask(CallSite& site) {
  BuildMaskCall<T> call;
  must(plan_build_mask(site.problem, site.device, site.options, &call.plan));
  call.args = {site.queries<T>(), site.keys<T>(), {}, site.bits()};
  call.args.rule.top_k_of_head = site.carver.take<float>(site.problem.heads);
  call.args.rule.top_p_of_head = site.carver.take<float>(site.problem.heads);
  call.workspace = site.scratch(call.plan.workspace_bytes);
  return call;
}

inline StatsCall lay_out_stats(CallSite& site) {
  StatsCall call;
  must(plan_mask_stats(site.problem, site.device, site.options, &call.plan));
  call.args = {site.pooled_queries(),
               site.pooled_keys(),
               {},
               site.bits(),
               site.carver.take<MaskStats>(site.problem.batch * site.problem.heads)};
  call.args.rule.top_k_of_head = site.carver.take<float>(site.problem.heads);
  call.args.rule.top_p_of_head = site.carver.take<float>(site.problem.heads);
  call.workspace = site.scratch(call.plan.workspace_bytes);
  return call;
}

inline CalibrateCall lay_out_calibrate(CallSite& site) {
  CalibrateCall call;
  must(plan_calibrate(site.problem, site.device, site.options, &call.plan));
  call.args.pooled_q = site.pooled_queries(), call.args.pooled_k = site.pooled_keys();
  call.args.rule.top_k_of_head = site.carver.take<float>(site.problem.heads);
  call.args.target = {CalibrationGoal::kept_mass, 0.75, CalibrationScope::all_heads};
  call.args.top_p_of_head = site.carver.take<float>(site.problem.heads);
  call.args.report = site.carver.take<Calibration>(site.problem.heads);
  call.workspace = site.scratch(call.plan.workspace_bytes);
  return call;
}

inline TransposeCall lay_out_transpose(CallSite& site) {
  return {site.form_plan(), site.bits(), site.transposed_bits()};
}
/// Without the first block of either axis.
inline SliceCall lay_out_slice(CallSite& site) {
  AttentionProblem const& p = site.problem;
  BlockRange const q{1, p.q_blocks() - 1}, kv{1, p.kv_blocks() - 1};
  std::int64_t const words = p.batch * p.heads * q.count * ((kv.count + 31) / 32);
  MaskOut const mask = site.bits();
  return {site.form_plan(),
          mask,
          q,
          kv,
          {site.carver.take<std::uint32_t>(words), static_cast<std::size_t>(words)}};
}
inline ToBytesCall lay_out_to_bytes(CallSite& site) {
  return {site.form_plan(), site.bits(), site.bytes<std::uint8_t>()};
}
inline FromBytesCall lay_out_from_bytes(CallSite& site) {
  return {site.form_plan(), site.bytes<std::uint8_t const>(), site.bits()};
}
inline ToListsCall lay_out_to_lists(CallSite& site) {
  return {site.form_plan(), site.bits(), site.lists<std::int32_t>()};
}
inline FromListsCall lay_out_from_lists(CallSite& site) {
  return {site.form_plan(), site.lists<std::int32_t const>(), site.bits()};
}

}  // namespace sparge::test
