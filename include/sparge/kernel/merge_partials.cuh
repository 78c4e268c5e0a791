#pragma once
/// Partial results of attention to one, by their lse: out = sum of exp(lse_i - lse) * out_i, lse = ln of the sum of exp(lse_i).

#include <cstdint>

#include "sparge/device/chunk.cuh"
#include "sparge/device/math.cuh"
#include "sparge/kernel/launch.cuh"
#include "sparge/kernel/merge_params.hpp"

namespace sparge {

/// `head_dim / 8` lanes share a row. Each computes the row's weights for itself: they cost less than to share them.
template <class T, int head_dim>
class MergePartials {
public:
  using Params = MergeParams<T>;
  static constexpr int threads = merging::threads, ctas_per_sm = 4;

  static __device__ __forceinline__ void run(Params const& params, unsigned char*) {
    std::uint32_t const head = blockIdx.x / params.head_blocks;
    int const token = static_cast<int>(blockIdx.x % params.head_blocks) * rows +
                      static_cast<int>(threadIdx.x) / lanes_a_row;
    if (token < params.q_tokens) MergePartials(params, head, token).merge();
  }

private:
  static constexpr int width = merging::lane_channels, lanes_a_row = head_dim / width;
  static constexpr int rows = merging::block_rows(head_dim);  ///< of a thread block

  __device__ __forceinline__ MergePartials(Params const& params, std::uint32_t head, int token)
      : params_(params),
        batch_(head / params.heads),
        head_(head % params.heads),
        row_(std::int64_t{head} * params.q_tokens + token),
        token_(token),
        channel_(static_cast<int>(threadIdx.x) % lanes_a_row * width) {}

  /// A weight of an input with keys is never skipped, so that NaN and infinity show; inputs without keys are not read.
  __device__ __forceinline__ void merge() const {
    float largest = -infinity();
    for (int i = first_input(); i < params_.count; ++i) largest = fmaxf(largest, lse_of(i));
    float total = 0;  // at least 1 where an input has keys, else 0; NaN where an lse is NaN or +inf
    for (int i = first_input(); i < params_.count; ++i) total += weight(lse_of(i), largest);
    float sum[width];
#pragma unroll
    for (int c = 0; c < width; ++c) sum[c] = total == 0 ? 0.0f : -0.0f;  // x * 1 - 0 is x, be it 0 or -0
    for (int i = first_input(); i < params_.count; ++i) {
      float const lse = lse_of(i);
      if (lse != -infinity()) add(i, weight(lse, largest) / total, sum);
    }
    store(sum, largest + logf(total));
  }

  /// The running result comes before the first partial one.
  static constexpr int running = -1;
  __device__ __forceinline__ int first_input() const { return params_.running.lse == nullptr ? 0 : running; }

  __device__ __forceinline__ float lse_of(int input) const {
    return input == running ? params_.running.lse[row_] : params_.partials[input].lse[row_];
  }

  /// The difference of -inf and -inf is not taken.
  static __device__ __forceinline__ float weight(float lse, float largest) {
    return lse == -infinity() ? 0.0f : expf(lse - largest);
  }

  __device__ __forceinline__ void add(int input, float weight, float (&sum)[width]) const {
    float x[width];
    if (input == running)
      load(place(params_.running.out), x);
    else
      load(place(params_.partials[input].out), x);
#pragma unroll
    for (int c = 0; c < width; ++c) sum[c] = fmaf(weight, x[c], sum[c]);
  }

  __device__ __forceinline__ void store(float const (&sum)[width], float lse) const {
    if (params_.out.data != nullptr) put(sum, place(params_.out));
    if (params_.running_out.data != nullptr) put(sum, place(params_.running_out));
    if (params_.lse != nullptr && channel_ == 0) params_.lse[row_] = lse;
  }

  /// This lane's channels.
  template <class Element>
  __device__ __forceinline__ Element* place(TensorView<Element> const& view) const {
    return view.data + batch_ * view.stride[0] + head_ * view.stride[1] + token_ * view.stride[2] + channel_;
  }

  template <class Element>
  static __device__ __forceinline__ void load(Element const* from, float (&x)[width]) {
    constexpr int step = chunk_elements<Element>;
#pragma unroll
    for (int c = 0; c < width; c += step) {
      float chunk[step];
      widen_chunk<Element>(__ldcs(reinterpret_cast<uint4 const*>(from + c)), chunk);
#pragma unroll
      for (int i = 0; i < step; ++i) x[c + i] = chunk[i];
    }
  }

  template <class Element>
  static __device__ __forceinline__ void put(float const (&x)[width], Element* to) {
    constexpr int step = chunk_elements<Element>;
#pragma unroll
    for (int c = 0; c < width; c += step) {
      float chunk[step];
#pragma unroll
      for (int i = 0; i < step; ++i) chunk[i] = x[c + i];
      *reinterpret_cast<uint4*>(to + c) = narrow_chunk<Element>(chunk);
    }
  }

  Params const& params_;
  std::int64_t batch_, head_, row_;
  int token_, channel_;
};

template <class T>
cudaError_t launch_merge_partials(MergeParams<T> const& params, std::int64_t all_heads,
                                  cudaStream_t stream) noexcept {
  std::int64_t const blocks = all_heads * params.head_blocks;
  if (params.head_dim == 64) return launch<MergePartials<T, 64>>(params, blocks, 0, stream);
  if (params.head_dim == 128) return launch<MergePartials<T, 128>>(params, blocks, 0, stream);
  return cudaErrorInvalidValue;  // validate_problem() refuses other head_dims
}

}  // namespace sparge
