#pragma once
/// Weighted mean square of student - teacher and its gradient, in one pass over both.

#include <cub/block/block_reduce.cuh>

#include <cstdint>

#include "sparge/collective/sample_walk.cuh"
#include "sparge/core/linkage.hpp"
#include "sparge/kernel/distillation_params.hpp"
#include "sparge/kernel/launch.cuh"

namespace sparge {

/// Squares of 16 bytes are added in f32 by a tree, everything beyond in f64, so that the error does not grow with the number of
/// elements. Fused operations are spelled out: what a compiler may choose to fuse would be bits that differ between GPUs.
template <class T>
class DistillationLoss {
public:
  using Params = DistillationLossParams<T>;
  static constexpr int threads = distillation::threads, ctas_per_sm = 3;

  static __device__ __forceinline__ void run(Params const& params, unsigned char*) {
    using Reduce = cub::BlockReduce<double, threads>;
    __shared__ typename Reduce::TempStorage storage;
    DistillationLoss loss(params);
    SampleWalk<T, DistillationLoss>(params.student, params.teacher, params.elements, params.sample_elements,
                                    loss)
        .run();
    double const sum = Reduce(storage).Sum(loss.sum_);
    if (threadIdx.x == 0) params.partial_sums[blockIdx.x] = sum;
  }

  __device__ __forceinline__ void chunk(std::int64_t first, std::int64_t sample, uint4 student,
                                        uint4 teacher) {
    float difference[width], minus[width];
    widen_chunk<T>(student, difference);
    widen_chunk<T>(teacher, minus);
#pragma unroll
    for (int i = 0; i < width; ++i) difference[i] -= minus[i];
    double const weight = weight_of(sample);
    sum_ = fma(weight, static_cast<double>(sum_of_squares(difference)), sum_);
    if (params_.grad_student == nullptr) return;
    float const factor = static_cast<float>(grad_unit_ * weight);
#pragma unroll
    for (int i = 0; i < width; ++i) difference[i] *= factor;
    *reinterpret_cast<uint4*>(params_.grad_student + first) = narrow_chunk<T>(difference);
  }

  __device__ __forceinline__ void element(std::int64_t index, std::int64_t sample) {
    float const difference = widen_one(params_.student[index]) - widen_one(params_.teacher[index]);
    double const weight = weight_of(sample);
    sum_ = fma(weight, static_cast<double>(__fmul_rn(difference, difference)), sum_);
    if (params_.grad_student == nullptr) return;
    narrow_one(difference * static_cast<float>(grad_unit_ * weight), params_.grad_student[index]);
  }

private:
  static constexpr int width = chunk_elements<T>;

  __device__ __forceinline__ explicit DistillationLoss(Params const& params) : params_(params) {
    double const grad_loss = params.grad_loss == nullptr ? 1.0 : static_cast<double>(*params.grad_loss);
    grad_unit_ = 2 * grad_loss / static_cast<double>(params.elements);
  }

  __device__ __forceinline__ double weight_of(std::int64_t sample) const {
    return params_.weights == nullptr ? 1.0 : static_cast<double>(params_.weights[sample]);
  }

  static __device__ __forceinline__ float sum_of_squares(float const (&x)[width]) {
    float pairs[width / 2];
#pragma unroll
    for (int i = 0; i < width / 2; ++i)
      pairs[i] = fmaf(x[2 * i], x[2 * i], __fmul_rn(x[2 * i + 1], x[2 * i + 1]));
    if constexpr (width == 8)
      return (pairs[0] + pairs[1]) + (pairs[2] + pairs[3]);
    else
      return pairs[0] + pairs[1];
  }

  Params const& params_;
  double grad_unit_;  ///< gradient for a weight and a difference of 1
  double sum_ = 0;
};

/// One thread block; the order of additions is fixed.
class LossSum {
public:
  using Params = LossSumParams;
  static constexpr int threads = 512, ctas_per_sm = 1;

  static __device__ __forceinline__ void run(Params const& params, unsigned char*) {
    using Reduce = cub::BlockReduce<double, threads>;
    __shared__ typename Reduce::TempStorage storage;
    double sum = 0;
    for (std::int64_t i = threadIdx.x; i < params.partials; i += threads) sum += params.partial_sums[i];
    sum = Reduce(storage).Sum(sum);
    if (threadIdx.x != 0) return;
    *params.loss =
        params.elements == 0 ? 0.0f : static_cast<float>(sum / static_cast<double>(params.elements));
  }
};

template <class T>
cudaError_t launch_distillation_loss(DistillationLossParams<T> const& params, std::int64_t blocks,
                                     cudaStream_t stream) noexcept {
  return launch<DistillationLoss<T>>(params, blocks, 0, stream);
}

SPARGE_INLINE cudaError_t launch_loss_sum(LossSumParams const& params, cudaStream_t stream) noexcept {
  return launch<LossSum>(params, 1, 0, stream);
}

}  // namespace sparge
