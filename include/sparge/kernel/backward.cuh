#pragma once
/// The kernel of a row of the backward table, and its launch.

#include "sparge/kernel/backward_dkdv.cuh"
#include "sparge/kernel/backward_dq.cuh"
#include "sparge/kernel/launch.cuh"

namespace sparge {

template <BackwardConfig config>
struct BackwardKernel;

template <BackwardConfig config>
requires(config.pass == BackwardPass::dkdv) struct BackwardKernel<config> : BackwardDkdv<config> {
};

template <BackwardConfig config>
requires(config.pass == BackwardPass::dq) struct BackwardKernel<config> : BackwardDq<config> {
};

template <int row>
cudaError_t launch_backward(BackwardParams<backward_element<row>> const& params, std::int64_t blocks,
                            cudaStream_t stream) noexcept {
  constexpr BackwardConfig config = backward_table[row];
  return launch<BackwardKernel<config>>(params, blocks, config.smem_bytes(), stream);
}

}  // namespace sparge
