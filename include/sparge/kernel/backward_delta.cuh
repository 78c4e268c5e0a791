#pragma once
/// What both backward passes need of every query row: delta = rowsum(dO * O) - dLSE, and lse ready for use.

#include <cstdint>

#include "sparge/device/dependent_launch.cuh"
#include "sparge/device/math.cuh"
#include "sparge/device/warp.cuh"
#include "sparge/device/widen.cuh"
#include "sparge/kernel/backward_params.hpp"
#include "sparge/kernel/launch.cuh"

namespace sparge {

/// `head_dim / 8` lanes share a row, 16 bytes of O and of dO each. Sums are in f32 and in a fixed order. Reads nothing of the kernel before, but
/// one thread block waits for it at the end, so that what comes next does not pass it by.
template <class T, int head_dim>
class BackwardDelta {
public:
  using Params = BackwardDeltaParams<T>;
  static constexpr int threads = 128, ctas_per_sm = 4;

  static __device__ __forceinline__ void run(Params const& params, unsigned char*) {
    int const blocks_a_head = params.padded_rows / delta_rows;
    std::int64_t const head = blockIdx.x / blocks_a_head;
    int const first = static_cast<int>(blockIdx.x % blocks_a_head) * delta_rows;
#pragma unroll
    for (int pass = 0; pass < delta_rows / rows_a_pass; ++pass)
      write_row(params, head, first + pass * rows_a_pass + static_cast<int>(threadIdx.x) / lanes_a_row);
    if (blockIdx.x == 0) wait_for_kernel_before();
  }

private:
  static constexpr int lanes_a_row = head_dim / 8;
  static constexpr int rows_a_pass = threads / lanes_a_row;

  static __device__ __forceinline__ void write_row(Params const& params, std::int64_t head, int token) {
    bool const exists = token < params.q_tokens;
    float const product = sum_of_lanes(exists ? product_of_chunk(params, head, token) : 0);
    if (threadIdx.x % lanes_a_row != 0) return;
    std::int64_t const source = head * params.q_tokens + token;
    std::int64_t const target = head * params.padded_rows + token;
    float const lse = exists ? params.lse[source] : -infinity();
    float const grad_lse = exists && params.grad_lse ? params.grad_lse[source] : 0;
    bool const keeps_none = lse == -infinity();
    params.row_lse[target] = keeps_none ? infinity() : lse;
    params.delta[target] = keeps_none ? 0 : product - grad_lse;
  }

  /// This lane's eight channels of one row.
  static __device__ __forceinline__ float product_of_chunk(Params const& params, std::int64_t head,
                                                           int token) {
    uint4 const out = load_chunk(params.out, params.heads, head, token);
    uint4 const grad_out = load_chunk(params.grad_out, params.heads, head, token);
    float sum = 0;
    add_product(sum, out.x, grad_out.x);
    add_product(sum, out.y, grad_out.y);
    add_product(sum, out.z, grad_out.z);
    add_product(sum, out.w, grad_out.w);
    return sum;
  }

  static __device__ __forceinline__ uint4 load_chunk(TensorView<T const> const& view, std::int64_t heads,
                                                     std::int64_t head, int token) {
    T const* const row =
        view.data + head / heads * view.stride[0] + head % heads * view.stride[1] + token * view.stride[2];
    return *reinterpret_cast<uint4 const*>(row + threadIdx.x % lanes_a_row * 8);
  }

  static __device__ __forceinline__ void add_product(float& sum, std::uint32_t a, std::uint32_t b) {
    float2 const x = widen<T>(a), y = widen<T>(b);
    sum = fmaf(x.x, y.x, sum);
    sum = fmaf(x.y, y.y, sum);
  }

  static __device__ __forceinline__ float sum_of_lanes(float value) {
#pragma unroll
    for (int offset = lanes_a_row / 2; offset > 0; offset /= 2)
      value += __shfl_xor_sync(all_lanes, value, offset);
    return value;
  }
};

template <class T>
cudaError_t launch_backward_delta(BackwardDeltaParams<T> const& params, bool is_ordering,
                                  cudaStream_t stream) noexcept {
  std::int64_t const blocks = params.all_heads * (params.padded_rows / delta_rows);
  if (params.head_dim == 64) return launch<BackwardDelta<T, 64>>(params, blocks, 0, stream, is_ordering);
  if (params.head_dim == 128) return launch<BackwardDelta<T, 128>>(params, blocks, 0, stream, is_ordering);
  return cudaErrorInvalidValue;  // validate_problem() refuses other head_dims
}

}  // namespace sparge
