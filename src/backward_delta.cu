#include "sparge/kernel/backward_delta.cuh"

namespace sparge {

template cudaError_t launch_backward_delta(BackwardDeltaParams<bfloat16> const&, bool, cudaStream_t) noexcept;
template cudaError_t launch_backward_delta(BackwardDeltaParams<float16> const&, bool, cudaStream_t) noexcept;

}  // namespace sparge
