#pragma once
/// The tensors of an attention problem in device memory.

#include <cmath>
#include <stdexcept>
#include <string>

#include "sparge/sparge.hpp"
#include "sparge/throwing.hpp"
#include "support/cuda.hpp"
#include "support/inputs.hpp"

namespace sparge::bench {

inline constexpr std::uint64_t q_seed = 11, k_seed = 12, v_seed = 13, cluster_seed = 14, mask_seed = 15,
                               grad_out_seed = 16, grad_lse_seed = 17;

/// Q and K in clusters (see Clusters), as the mask rule meets them in models: k = c + N(0, 1), q = 2c + N(0, 1).
template <class T>
void fill_clustered_qk(AttentionProblem const& p, T* q, T* k, cudaStream_t stream) {
  if (p.heads != p.kv_heads || p.q_tokens != p.kv_tokens)
    throw std::invalid_argument("clustered inputs are made for self-attention with a kv head per head");
  fill_clustered(q, p.batch * p.heads, {p.q_tokens, p.head_dim, 2, cluster_seed, q_seed}, stream);
  fill_clustered(k, p.batch * p.kv_heads, {p.kv_tokens, p.head_dim, 1, cluster_seed, k_seed}, stream);
}

/// Clustered Q and K, self-attention with a kv head per head.
template <class T>
struct ClusteredQK {
  AttentionProblem problem;
  DeviceArray<T> q, k;

  ClusteredQK(AttentionProblem const& p, cudaStream_t stream)
      : problem(p),
        q(p.batch * p.heads * p.q_tokens * p.head_dim),
        k(p.batch * p.kv_heads * p.kv_tokens * p.head_dim) {
    fill_clustered_qk(p, q.data(), k.data(), stream);
  }

  TensorView<T const> q_view() const {
    return contiguous_bhnd<T>(q.data(), problem.batch, problem.heads, problem.q_tokens, problem.head_dim);
  }
  TensorView<T const> k_view() const {
    return contiguous_bhnd<T>(k.data(), problem.batch, problem.kv_heads, problem.kv_tokens, problem.head_dim);
  }
  double bytes() const { return static_cast<double>(q.bytes() + k.bytes()); }
};

/// Pooled vectors of every block.
struct Pooled {
  DeviceArray<float> q, k;

  explicit Pooled(AttentionProblem const& p)
      : q(p.batch * p.heads * p.q_blocks() * p.head_dim),
        k(p.batch * p.kv_heads * p.kv_blocks() * p.head_dim) {}
  double bytes() const { return static_cast<double>(q.bytes() + k.bytes()); }
};

/// Pools once and waits.
template <class T>
void pool_now(ClusteredQK<T> const& inputs, Pooled const& pooled, Device const& device, cudaStream_t stream) {
  PoolPlan<T> plan;
  sparge::check(plan_pool(inputs.problem, device, {}, &plan));
  Scratch scratch(plan.workspace_bytes);
  PoolArgs<T> const args{inputs.q_view(), inputs.k_view(), pooled.q.data(), pooled.k.data()};
  sparge::check(pool(plan, args, scratch.workspace(), stream));
  check(cudaStreamSynchronize(stream), "pool");
}

/// Throws unless the first and the last values are finite: a kernel that did nothing must not win.
template <class T>
void require_finite(DeviceArray<T> const& values, char const* name) {
  std::int64_t const sample = std::min<std::int64_t>(values.size(), 1 << 16);
  std::vector<T> host(static_cast<std::size_t>(sample));
  for (std::int64_t first : {std::int64_t{0}, values.size() - sample}) {
    check(cudaMemcpy(host.data(), values.data() + first, host.size() * sizeof(T), cudaMemcpyDeviceToHost),
          "cudaMemcpy");
    for (T value : host)
      if (!std::isfinite(static_cast<float>(value)))
        throw std::runtime_error(std::string(name) + " holds a value that is not finite");
  }
}

/// Bytes of NaN, so that what a kernel leaves unwritten shows.
template <class T>
void poison(DeviceArray<T> const& values, cudaStream_t stream) {
  check(cudaMemsetAsync(values.data(), 0xFF, values.bytes(), stream), "cudaMemsetAsync");
}

}  // namespace sparge::bench
