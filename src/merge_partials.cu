#include "sparge/kernel/merge_partials.cuh"

namespace sparge {

template cudaError_t launch_merge_partials(MergeParams<bfloat16> const&, std::int64_t, cudaStream_t) noexcept;
template cudaError_t launch_merge_partials(MergeParams<float16> const&, std::int64_t, cudaStream_t) noexcept;
template cudaError_t launch_merge_partials(MergeParams<float> const&, std::int64_t, cudaStream_t) noexcept;

}  // namespace sparge
