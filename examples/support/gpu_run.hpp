#pragma once
/// The demo on a GPU, by the library.

#include <cuda_runtime_api.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "sparge/throwing.hpp"
#include "support/attention_run.hpp"
#include "support/device_array.hpp"

namespace demo {

/// Median time of five calls after one that warms up, by events on the stream.
template <class Call>
double time_calls(cudaStream_t stream, Call call) {
  cudaEvent_t start, stop;
  check_cuda(cudaEventCreate(&start));
  check_cuda(cudaEventCreate(&stop));
  std::vector<float> times(5);
  call();
  for (float& time : times) {
    check_cuda(cudaEventRecord(start, stream));
    call();
    check_cuda(cudaEventRecord(stop, stream));
    check_cuda(cudaEventSynchronize(stop));
    check_cuda(cudaEventElapsedTime(&time, start, stop));
  }
  cudaEventDestroy(start);
  cudaEventDestroy(stop);
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

class GpuRunner {
public:
  GpuRunner(AttentionInput const& in, sparge::Device const& device)
      : p_(in.problem), rule_(in.rule), device_(device), q_data_(in.q), k_data_(in.k), v_data_(in.v) {
    q_ = sparge::contiguous_bhnd<float16 const>(q_data_.data(), p_.batch, p_.heads, p_.q_tokens, p_.head_dim);
    k_ = sparge::contiguous_bhnd<float16 const>(k_data_.data(), p_.batch, p_.kv_heads, p_.kv_tokens,
                                                p_.head_dim);
    v_ = sparge::contiguous_bhnd<float16 const>(v_data_.data(), p_.batch, p_.kv_heads, p_.kv_tokens,
                                                p_.head_dim);
  }

  AttentionRun run() const {
    AttentionRun result;
    cudaDeviceProp properties{};
    check_cuda(cudaGetDeviceProperties(&properties, device_.ordinal));
    result.device = properties.name;
    std::size_t words = 0;
    sparge::check(sparge::mask_words(p_, &words));
    DeviceArray<std::uint32_t> const mask(words);
    result.mask_milliseconds = build(mask);
    result.mask = mask.to_host();
    result.stats = count(mask);
    result.sparse = attend(mask);
    result.full = attend(DeviceArray<std::uint32_t>(std::vector<std::uint32_t>(words, ~0u)));
    for (std::int64_t row = 0; row < p_.batch * p_.heads * p_.q_tokens; ++row) result.sample.push_back(row);
    return result;
  }

private:
  double build(DeviceArray<std::uint32_t> const& mask) const {
    sparge::BuildMaskPlan<float16> plan;
    sparge::check(sparge::plan_build_mask(p_, device_, {}, &plan));
    DeviceArray<std::byte> const workspace(plan.workspace_bytes);
    return time_calls(stream_, [&] {
      sparge::check(sparge::build_mask<float16>(plan, {q_, k_, rule_, {mask.data(), mask.size()}},
                                                {workspace.data(), workspace.size()}, stream_));
    });
  }

  std::vector<sparge::MaskStats> count(DeviceArray<std::uint32_t> const& mask) const {
    DeviceArray<float> const pooled_q(std::size_t(p_.batch * p_.heads * p_.q_blocks() * p_.head_dim));
    DeviceArray<float> const pooled_k(std::size_t(p_.batch * p_.kv_heads * p_.kv_blocks() * p_.head_dim));
    sparge::PoolPlan<float16> pool_plan;
    sparge::check(sparge::plan_pool(p_, device_, {}, &pool_plan));
    DeviceArray<std::byte> const pool_workspace(pool_plan.workspace_bytes);
    sparge::check(sparge::pool<float16>(pool_plan, {q_, k_, pooled_q.data(), pooled_k.data()},
                                        {pool_workspace.data(), pool_workspace.size()}, stream_));
    sparge::MaskStatsPlan plan;
    sparge::check(sparge::plan_mask_stats(p_, device_, {}, &plan));
    DeviceArray<std::byte> const workspace(plan.workspace_bytes);
    DeviceArray<sparge::MaskStats> const stats(std::size_t(p_.batch * p_.heads));
    sparge::check(sparge::mask_stats(
        plan, {pooled_q.data(), pooled_k.data(), rule_, {mask.data(), mask.size()}, stats.data()},
        {workspace.data(), workspace.size()}, stream_));
    return stats.to_host();
  }

  AttentionRows attend(DeviceArray<std::uint32_t> const& mask) const {
    sparge::ForwardPlan<float16> plan;
    sparge::check(sparge::plan_forward(p_, device_, {}, &plan));
    DeviceArray<std::byte> const workspace(plan.workspace_bytes);
    DeviceArray<float> const lse(std::size_t(p_.batch * p_.heads * p_.q_tokens));
    DeviceArray<float16> const out(lse.size() * std::size_t(p_.head_dim));
    auto const out_view = sparge::contiguous_bhnd(out.data(), p_.batch, p_.heads, p_.q_tokens, p_.head_dim);
    AttentionRows rows;
    rows.milliseconds = time_calls(stream_, [&] {
      sparge::check(sparge::forward<float16>(plan,
                                             {q_, k_, v_, {mask.data(), mask.size()}, out_view, lse.data()},
                                             {workspace.data(), workspace.size()}, stream_));
    });
    for (float16 x : out.to_host()) rows.out.push_back(__half2float(x));
    rows.lse = lse.to_host();
    return rows;
  }

  sparge::AttentionProblem p_;
  sparge::MaskRule rule_;
  sparge::Device device_;
  DeviceArray<float16> q_data_, k_data_, v_data_;
  sparge::TensorView<float16 const> q_, k_, v_;
  cudaStream_t stream_ = cudaStreamLegacy;
};

}  // namespace demo
