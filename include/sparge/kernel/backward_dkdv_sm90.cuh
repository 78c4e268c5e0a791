#pragma once
/// Gradients of K and V for capability 9.0: persistent thread blocks of a loading warpgroup and two that compute, 64 keys at a
/// time. At head_dim 128 one of the two computes dV and one dK of the same keys, at 64 each both of its own keys.

#include <cstdint>

#include "sparge/collective/dkdv_loop_sm90.cuh"
#include "sparge/collective/dkdv_producer_sm90.cuh"
#include "sparge/collective/dkdv_team_loop_sm90.cuh"
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
class BackwardDkdvSm90 {
public:
  using T = std::conditional_t<config.dtype == ElementType::bf16, bfloat16, float16>;
  static constexpr int threads = config.threads(), ctas_per_sm = config.ctas_per_sm;
  static constexpr std::int64_t most_smem_bytes = config.smem_bytes();
  static constexpr bool starts_early = true;

  struct Params {
    DkdvTensors tensors;
    BackwardParams<T> backward;
  };

  static __device__ __forceinline__ void run(Params const& params, unsigned char* smem) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL  // code for other targets is empty, and no plan chooses it there
    if (threadIdx.x == 0)
      for (int team = 0; team < teams; ++team) pipe_of(smem, team).init();
    if (threadIdx.x == threads - 1) prefetch_descriptors(params.tensors);
    wait_for_kernel_before();
    let_next_kernel_start();  // it reads at once whether the order, which is known now, splits tiles
    __syncthreads();
    // The same for all lanes, which the compiler cannot see.
    int const warpgroup = __shfl_sync(all_lanes, static_cast<int>(threadIdx.x) / 128, 0);
    if (warpgroup == 0) {
      give_registers<producer_registers>();
      produce(params, smem);
    } else {
      take_registers<consumer_registers>();
      consume(params, smem, warpgroup - 1);
    }
#endif
  }

  static Status enqueue(BackwardParams<T> const& backward, std::int64_t blocks,
                        cudaStream_t stream) noexcept {
    if (blocks == 0) return {};
    Params params{{}, backward};
    TensorMaps maps(backward.grad_k.data);
    maps.add("q", backward.q, config.q_tile, &params.tensors.q);
    maps.add("grad_out", backward.grad_out, config.q_tile, &params.tensors.grad_out);
    maps.add("k", backward.k, config.kv_tile, &params.tensors.k);
    maps.add("v", backward.v, config.kv_tile, &params.tensors.v);
    maps.add("grad_k", backward.grad_k, 16, &params.tensors.grad_k);
    maps.add("grad_v", backward.grad_v, 16, &params.tensors.grad_v);
    if (!maps.status().ok()) return maps.status();
    return launch_result("dK and dV kernel",
                         launch<BackwardDkdvSm90>(params, blocks, config.smem_bytes(), stream));
  }

private:
  static constexpr int teams = config.teams();
  static constexpr int team_bytes = static_cast<int>(config.smem_bytes()) / teams;
  static constexpr int producer_registers = config.producer_registers();
  static constexpr int consumer_registers = config.consumer_registers();
  using Pipe = std::conditional_t<teams == 2, DkdvTeamPipe<config>, DkdvPipe<config>>;
  static_assert(threads == 384 && ctas_per_sm == 1);

  static __device__ __forceinline__ Pipe pipe_of(unsigned char* smem, int team) {
    return Pipe(shared_address(smem) + team * team_bytes);
  }

  /// One warp of the first warpgroup for each team; the others only gave their registers.
  static __device__ __forceinline__ void produce(Params const& params, unsigned char* smem) {
    int const team = warp_index();
    if (team >= teams) return;
    DkdvProducerSm90<config, T, Pipe> producer(params.backward, params.tensors, pipe_of(smem, team));
    producer.run(static_cast<int>(blockIdx.x) * teams + team, static_cast<int>(gridDim.x) * teams);
  }

  static __device__ __forceinline__ void consume(Params const& params, unsigned char* smem, int warpgroup) {
    if constexpr (teams == 2) {
      DkdvTeamLoopSm90<config, T> loop(params.backward, params.tensors.grad_k, params.tensors.grad_v,
                                       pipe_of(smem, warpgroup), warpgroup);
      loop.run();
    } else if (warpgroup == 0) {
      DkdvLoopSm90<config, T, KeyGradient::v> loop(params.backward, params.tensors.grad_v, pipe_of(smem, 0));
      loop.run();
    } else {
      DkdvLoopSm90<config, T, KeyGradient::k> loop(params.backward, params.tensors.grad_k, pipe_of(smem, 0));
      loop.run();
    }
  }
};

}  // namespace sparge
