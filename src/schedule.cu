#define SPARGE_INLINE

#include "sparge/kernel/merge_pieces.cuh"
#include "sparge/kernel/schedule.cuh"

namespace sparge {

template cudaError_t launch_merge_rows(MergeRowsParams<bfloat16> const&, std::int64_t, cudaStream_t) noexcept;
template cudaError_t launch_merge_rows(MergeRowsParams<float16> const&, std::int64_t, cudaStream_t) noexcept;
template cudaError_t launch_sum_pieces(SumPiecesParams<bfloat16> const&, std::int64_t, cudaStream_t) noexcept;
template cudaError_t launch_sum_pieces(SumPiecesParams<float16> const&, std::int64_t, cudaStream_t) noexcept;

}  // namespace sparge
