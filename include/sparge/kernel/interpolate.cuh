#pragma once
/// x_t = t x_1 + (1 - t) x_0, one t a sample.

#include <cstdint>

#include "sparge/collective/sample_walk.cuh"
#include "sparge/kernel/distillation_params.hpp"
#include "sparge/kernel/launch.cuh"

namespace sparge {

/// In f32 with one fused operation, so that finite values stay themselves at t of 0 and of 1.
template <class T>
class Interpolate {
public:
  using Params = InterpolateParams<T>;
  static constexpr int threads = distillation::threads, ctas_per_sm = 3;

  static __device__ __forceinline__ void run(Params const& params, unsigned char*) {
    Interpolate interpolate(params);
    SampleWalk<T, Interpolate>(params.x0, params.x1, params.elements, params.sample_elements, interpolate)
        .run();
  }

  __device__ __forceinline__ void chunk(std::int64_t first, std::int64_t sample, uint4 x0, uint4 x1) {
    float x[width], other[width];
    widen_chunk<T>(x0, x);
    widen_chunk<T>(x1, other);
    float const t = params_.t[sample];
#pragma unroll
    for (int i = 0; i < width; ++i) x[i] = between(x[i], other[i], t);
    *reinterpret_cast<uint4*>(params_.x_t + first) = narrow_chunk<T>(x);
  }

  __device__ __forceinline__ void element(std::int64_t index, std::int64_t sample) {
    float const x = between(widen_one(params_.x0[index]), widen_one(params_.x1[index]), params_.t[sample]);
    narrow_one(x, params_.x_t[index]);
  }

private:
  static constexpr int width = chunk_elements<T>;

  __device__ __forceinline__ explicit Interpolate(Params const& params) : params_(params) {}

  static __device__ __forceinline__ float between(float x0, float x1, float t) {
    return fmaf(t, x1, __fmul_rn(1 - t, x0));
  }

  Params const& params_;
};

template <class T>
cudaError_t launch_interpolate(InterpolateParams<T> const& params, std::int64_t blocks,
                               cudaStream_t stream) noexcept {
  return launch<Interpolate<T>>(params, blocks, 0, stream);
}

}  // namespace sparge
