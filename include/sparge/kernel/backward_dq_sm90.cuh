#pragma once
/// Gradient of Q for capability 9.0: persistent thread blocks of one loading warpgroup and two that compute 64 query rows each.

#include <cstdint>

#include "sparge/collective/dq_loop_sm90.cuh"
#include "sparge/collective/dq_pipe_sm90.cuh"
#include "sparge/collective/dq_producer_sm90.cuh"
#include "sparge/device/dependent_launch.cuh"
#include "sparge/device/swizzle.cuh"
#include "sparge/device/tma_sm90.cuh"
#include "sparge/device/warp.cuh"
#include "sparge/kernel/backward_params.hpp"
#include "sparge/kernel/launch.cuh"
#include "sparge/kernel/tensor_map.cuh"
#include "sparge/plan/refuse.hpp"

namespace sparge {

template <BackwardConfig config>
class BackwardDqSm90 {
public:
  using T = std::conditional_t<config.dtype == ElementType::bf16, bfloat16, float16>;
  static constexpr int threads = config.threads(), ctas_per_sm = config.ctas_per_sm;
  static constexpr std::int64_t most_smem_bytes = config.smem_bytes();
  static constexpr bool starts_early = true;

  struct Params {
    DqTensors tensors;
    BackwardParams<T> backward;
  };

  static __device__ __forceinline__ void run(Params const& params, unsigned char* smem) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL  // code for other targets is empty, and no plan chooses it there
    DqPipe<config> const pipe(shared_address(smem));
    if (threadIdx.x == 0) pipe.init();
    if (threadIdx.x == threads - 1) prefetch_descriptors(params.tensors);
    wait_for_kernel_before();
    let_next_kernel_start();  // it reads at once whether the order, which is known now, splits tiles
    __syncthreads();
    // The same for all lanes, which the compiler cannot see.
    int const warpgroup = __shfl_sync(all_lanes, static_cast<int>(threadIdx.x) / 128, 0);
    if (warpgroup == 0) {
      give_registers<producer_registers>();
      if (warp_index() != 0) return;
      DqProducerSm90<config, T> producer(params.backward, params.tensors, pipe);
      producer.run(static_cast<int>(blockIdx.x), static_cast<int>(gridDim.x));
    } else {
      take_registers<consumer_registers>();
      DqLoopSm90<config, T> loop(params.backward, params.tensors.grad_q, pipe, warpgroup - 1);
      loop.run();
    }
#endif
  }

  static Status enqueue(BackwardParams<T> const& backward, std::int64_t blocks,
                        cudaStream_t stream) noexcept {
    if (blocks == 0) return {};
    Params params{{}, backward};
    TensorMaps maps(backward.grad_q.data);
    maps.add("q", backward.q, config.q_tile, &params.tensors.q);
    maps.add("grad_out", backward.grad_out, config.q_tile, &params.tensors.grad_out);
    maps.add("k", backward.k, 64, &params.tensors.k);
    maps.add("v", backward.v, 64, &params.tensors.v);
    maps.add("grad_q", backward.grad_q, 16, &params.tensors.grad_q);
    if (!maps.status().ok()) return maps.status();
    return launch_result("dQ kernel", launch<BackwardDqSm90>(params, blocks, config.smem_bytes(), stream));
  }

private:
  static constexpr int producer_registers = config.producer_registers();
  static constexpr int consumer_registers = config.consumer_registers();
  static_assert(threads == 384 && ctas_per_sm == 1);
};

}  // namespace sparge
