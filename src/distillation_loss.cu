#define SPARGE_INLINE

#include "sparge/kernel/distillation_loss.cuh"

namespace sparge {

template cudaError_t launch_distillation_loss(DistillationLossParams<bfloat16> const&, std::int64_t,
                                              cudaStream_t) noexcept;
template cudaError_t launch_distillation_loss(DistillationLossParams<float16> const&, std::int64_t,
                                              cudaStream_t) noexcept;
template cudaError_t launch_distillation_loss(DistillationLossParams<float> const&, std::int64_t,
                                              cudaStream_t) noexcept;

}  // namespace sparge
