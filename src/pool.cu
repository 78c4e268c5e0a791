#include "sparge/kernel/pool.cuh"

namespace sparge {

template cudaError_t launch_pool(PoolParams<bfloat16> const&, std::int32_t, cudaStream_t) noexcept;
template cudaError_t launch_pool(PoolParams<float16> const&, std::int32_t, cudaStream_t) noexcept;

}  // namespace sparge
