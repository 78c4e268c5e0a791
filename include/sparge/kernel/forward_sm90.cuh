#pragma once
/// Block-sparse attention, forward, for capability 9.0: persistent thread blocks of one producer warpgroup and one or two teams
/// of consumer warpgroups. A team computes one tile of `q_tile` query rows at a time.

#include <cstdint>

#include "sparge/collective/forward_loop_sm90.cuh"
#include "sparge/collective/forward_pipe_sm90.cuh"
#include "sparge/collective/forward_producer_sm90.cuh"
#include "sparge/device/swizzle.cuh"
#include "sparge/device/tma_sm90.cuh"
#include "sparge/device/warp.cuh"
#include "sparge/kernel/forward_params.hpp"
#include "sparge/kernel/launch.cuh"
#include "sparge/kernel/schedule_inside.cuh"
#include "sparge/kernel/tensor_map.cuh"
#include "sparge/plan/forward_config.hpp"
#include "sparge/plan/refuse.hpp"

namespace sparge {

template <ForwardConfig config>
class ForwardSm90 {
public:
  using T = std::conditional_t<config.dtype == ElementType::bf16, bfloat16, float16>;
  using Pipe = ForwardPipe<config>;
  static constexpr int threads = config.threads(), ctas_per_sm = config.ctas_per_sm;
  static constexpr std::int64_t most_smem_bytes = config.smem_bytes();

  struct Params {
    ForwardTensors tensors;
    ForwardParams<T> forward;
  };

  static __device__ __forceinline__ void run(Params const& params, unsigned char* smem) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL  // code for other targets is empty, and no plan chooses it there
    if (threadIdx.x == 0)
      for (int team = 0; team < teams; ++team) pipe_of(smem, team).init();
    if (threadIdx.x == threads - 1) prefetch_descriptors(params.tensors);
    __syncthreads();
    // The same for all lanes, which the compiler cannot see.
    int const warpgroup = __shfl_sync(all_lanes, static_cast<int>(threadIdx.x) / 128, 0);
    if (warpgroup == 0) {
      give_registers<producer_registers>();
      produce(params, smem);
    } else {
      take_registers<consumer_registers>();
      int const team = (warpgroup - 1) / 2;
      ForwardLoopSm90<config, T> loop(params.forward, params.tensors.out, pipe_of(smem, team), team,
                                      (warpgroup - 1) % 2);
      loop.run();
    }
#endif
  }

  static Status enqueue(ForwardParams<T> const& forward, std::int64_t blocks, cudaStream_t stream) noexcept {
    if (blocks == 0) return {};
    Params params{{}, forward};
    TensorMaps maps(forward.out.data);
    maps.add("q", forward.q, config.q_tile, &params.tensors.q);
    maps.add("k", forward.k, 64, &params.tensors.k);
    maps.add("v", forward.v, 64, &params.tensors.v);
    maps.add("out", forward.out, 16, &params.tensors.out);
    if (!maps.status().ok()) return maps.status();
    PendingError const pending;
    cudaError_t const error = cudaMemsetAsync(forward.schedule.header, 0,
                                              Schedule::fields * sizeof *forward.schedule.header, stream);
    if (error != cudaSuccess) return cuda_failure("workspace.data", pending.take_back(error));
    return launch_result("forward kernel", launch<ForwardSm90>(params, blocks, config.smem_bytes(), stream));
  }

private:
  static constexpr int teams = config.teams();
  static constexpr int team_bytes = static_cast<int>(config.smem_bytes() - config.order_bytes()) / teams;
  static constexpr int producer_registers = config.producer_registers();
  static constexpr int consumer_registers = config.consumer_registers();

  static __device__ __forceinline__ Pipe pipe_of(unsigned char* smem, int team) {
    return Pipe(shared_address(smem) + team * team_bytes);
  }

  /// One warp of the first warpgroup for each team; the others order the tiles.
  static __device__ __forceinline__ void produce(Params const& params, unsigned char* smem) {
    int const team = warp_index();
    if (team >= teams) {
      order_tiles(params.forward, smem);
      return;
    }
    ForwardProducerSm90<config, T> producer(params.forward, params.tensors, pipe_of(smem, team));
    producer.run(static_cast<int>(blockIdx.x) * teams + team, static_cast<int>(gridDim.x) * teams);
  }

  static __device__ __forceinline__ void order_tiles(ForwardParams<T> const& params, unsigned char* smem) {
    constexpr int barrier = 1 + 2 * teams;  // behind those of the consumer warpgroups
    using Order = ScheduleInside<SomeWarps<teams, 4 - teams, barrier>>;
    using Shared = typename Order::Shared;
    constexpr int offset = (teams - 1) * team_bytes + Pipe::end_offset;  // up to the end
    static_assert(offset + static_cast<int>(sizeof(Shared)) <= most_smem_bytes);
    SchedulePass const pass{params.schedule,
                            {params.all_tiles, params.kv_blocks, params.workers},
                            ScheduleLines::rows,
                            params.first_tiles};
    Order::run({params.mask, params.kv_blocks, params.row_words}, pass,
               *reinterpret_cast<Shared*>(smem + offset));
  }
};

}  // namespace sparge
