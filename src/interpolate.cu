#include "sparge/kernel/interpolate.cuh"

namespace sparge {

template cudaError_t launch_interpolate(InterpolateParams<bfloat16> const&, std::int64_t,
                                        cudaStream_t) noexcept;
template cudaError_t launch_interpolate(InterpolateParams<float16> const&, std::int64_t,
                                        cudaStream_t) noexcept;
template cudaError_t launch_interpolate(InterpolateParams<float> const&, std::int64_t, cudaStream_t) noexcept;

}  // namespace sparge
