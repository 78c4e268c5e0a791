#pragma once
/// The calls on a GPU. Each uploads its inputs and downloads its results, so that ranks share nothing but what they send; a real rank
/// keeps its tensors, plans and workspace in device memory.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "context_parallel/data.hpp"
#include "sparge/throwing.hpp"
#include "support/device_array.hpp"

namespace context_parallel {

using demo::DeviceArray;

/// A tensor in device memory.
template <class T>
class DeviceTensor {
public:
  explicit DeviceTensor(Tensor<T> const& host) : host_(host), memory_(host.values) {}
  DeviceTensor(std::int64_t heads, std::int64_t rows, std::int64_t channels)
      : host_(heads, rows, channels), memory_(host_.values.size()) {}

  T* data() const { return memory_.data(); }
  sparge::TensorView<T> view() const {
    return sparge::contiguous_bhnd(memory_.data(), 1, host_.heads, host_.rows, host_.channels);
  }
  Tensor<T> to_host() const {
    Tensor<T> result = host_;
    result.values = memory_.to_host();
    return result;
  }

private:
  Tensor<T> host_;
  DeviceArray<T> memory_;
};

class GpuBackend : public Backend {
public:
  explicit GpuBackend(sparge::Device const& device) : device_(device) {}

  Pooled pool(sparge::AttentionProblem const& p, Tensor<bfloat16> const& q,
              Tensor<bfloat16> const& k) override {
    sparge::PoolPlan<bfloat16> plan;
    sparge::check(sparge::plan_pool(p, device_, {}, &plan));
    DeviceTensor<bfloat16> const on_q(q), on_k(k);
    DeviceTensor<float> const pooled_q(q.heads, p.q_blocks(), q.channels),
        pooled_k(k.heads, p.kv_blocks(), k.channels);
    DeviceArray<std::byte> const scratch(plan.workspace_bytes);
    sparge::check(sparge::pool<bfloat16>(plan, {on_q.view(), on_k.view(), pooled_q.data(), pooled_k.data()},
                                         {scratch.data(), scratch.size()}, stream_));
    return {pooled_q.to_host(), pooled_k.to_host()};
  }

  MaskWords select(sparge::AttentionProblem const& p, sparge::MaskRule const& rule,
                   Pooled const& pooled) override {
    sparge::SelectPlan plan;
    sparge::check(sparge::plan_select_blocks(p, device_, {}, &plan));
    DeviceTensor<float> const q(pooled.q), k(pooled.k);
    std::size_t words = 0;
    sparge::check(sparge::mask_words(p, &words));
    DeviceArray<std::uint32_t> const mask(words);
    DeviceArray<std::byte> const scratch(plan.workspace_bytes);
    sparge::check(sparge::select_blocks(plan, {q.data(), k.data(), rule, {mask.data(), words}},
                                        {scratch.data(), scratch.size()}, stream_));
    return mask.to_host();
  }

  MaskWords slice(sparge::AttentionProblem const& p, MaskWords const& words, sparge::BlockRange q,
                  sparge::BlockRange kv) override {
    sparge::MaskFormPlan plan;
    sparge::check(sparge::plan_mask_form(p, device_, {}, &plan));
    DeviceArray<std::uint32_t> const mask(words),
        shard(std::size_t(p.batch * p.heads * q.count * ((kv.count + 31) / 32)));
    sparge::check(
        sparge::slice_mask(plan, {mask.data(), mask.size()}, q, kv, {shard.data(), shard.size()}, stream_));
    return shard.to_host();
  }

  Attended forward(sparge::AttentionProblem const& p, Inputs const& in, MaskWords const& words) override {
    sparge::ForwardPlan<bfloat16> plan;
    sparge::check(sparge::plan_forward(p, device_, {}, &plan));
    DeviceTensor<bfloat16> const q(in.q), k(in.k), v(in.v), out(p.heads, p.q_tokens, p.head_dim);
    DeviceTensor<float> const lse(p.heads, p.q_tokens, 1);
    DeviceArray<std::uint32_t> const mask(words);
    DeviceArray<std::byte> const scratch(plan.workspace_bytes);
    sparge::check(sparge::forward<bfloat16>(
        plan, {q.view(), k.view(), v.view(), {mask.data(), mask.size()}, out.view(), lse.data()},
        {scratch.data(), scratch.size()}, stream_));
    return {out.to_host(), lse.to_host()};
  }

  Attended merge(sparge::AttentionProblem const& p, std::vector<Attended> const& parts) override {
    sparge::MergePlan<bfloat16> plan;
    sparge::check(sparge::plan_merge_partials(p, device_, {}, &plan));
    DeviceTensor<bfloat16> const out(p.heads, p.q_tokens, p.head_dim);
    DeviceTensor<float> const lse(p.heads, p.q_tokens, 1);
    std::vector<std::unique_ptr<DeviceTensor<bfloat16>>> outs;
    std::vector<std::unique_ptr<DeviceTensor<float>>> lses;
    sparge::MergeArgs<bfloat16> args;
    for (Attended const& part : parts) {
      outs.push_back(std::make_unique<DeviceTensor<bfloat16>>(part.out));
      lses.push_back(std::make_unique<DeviceTensor<float>>(part.lse));
      args.partials[args.count++] = {outs.back()->view(), lses.back()->data()};
    }
    args.out = out.view(), args.lse = lse.data();
    sparge::check(sparge::merge_partials(plan, args, stream_));
    return {out.to_host(), lse.to_host()};
  }

  Gradients backward(sparge::AttentionProblem const& p, BackwardInputs const& in) override {
    sparge::BackwardPlan<bfloat16> plan;
    sparge::check(sparge::plan_backward(p, device_, {}, &plan));
    DeviceTensor<bfloat16> const q(in.inputs.q), k(in.inputs.k), v(in.inputs.v), grad_out(in.inputs.grad_out),
        out(in.attended.out);
    DeviceTensor<float> const lse(in.attended.lse);
    DeviceTensor<bfloat16> const grad_q(p.heads, p.q_tokens, p.head_dim),
        grad_k(p.kv_heads, p.kv_tokens, p.head_dim), grad_v(p.kv_heads, p.kv_tokens, p.head_dim);
    DeviceArray<std::uint32_t> const mask(in.mask);
    DeviceArray<std::byte> const scratch(plan.workspace_bytes);
    sparge::BackwardArgs<bfloat16> args;
    args.q = q.view(), args.k = k.view(), args.v = v.view();
    args.out = out.view(), args.lse = lse.data(), args.grad_out = grad_out.view();
    args.mask = {mask.data(), mask.size()};
    args.grad_q = grad_q.view(), args.grad_k = grad_k.view(), args.grad_v = grad_v.view();
    sparge::check(sparge::backward(plan, args, {scratch.data(), scratch.size()}, stream_));
    return {grad_q.to_host(), grad_k.to_host(), grad_v.to_host()};
  }

private:
  sparge::Device device_;
  cudaStream_t stream_ = cudaStreamLegacy;
};

}  // namespace context_parallel
