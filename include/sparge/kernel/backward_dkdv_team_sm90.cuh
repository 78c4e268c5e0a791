#pragma once
/// Gradients of K and V for capability 9.0 and short rows: two teams of a producer warp and a warpgroup, which computes both
/// gradients of 64 keys at a time.

#include <cstdint>

#include "sparge/collective/dkdv_team_loop_sm90.cuh"
#include "sparge/kernel/backward_dkdv_sm90.cuh"

namespace sparge {

template <BackwardConfig config, int block_groups = 8>
class BackwardDkdvTeamSm90 {
public:
  using T = std::conditional_t<config.dtype == ElementType::bf16, bfloat16, float16>;
  using Pipe = DkdvTeamPipe<config>;
  static constexpr int threads = config.threads(), ctas_per_sm = config.ctas_per_sm, teams = 2;
  static_assert(threads == 384 && ctas_per_sm == 1);
  static constexpr std::int64_t most_smem_bytes = teams * Pipe::bytes;

  struct Params {
    DkdvTensors tensors;
    BackwardParams<T> backward;
  };

  static __device__ __forceinline__ void run(Params const& params, unsigned char* smem) {
    if (threadIdx.x == 0)
      for (int team = 0; team < teams; ++team) pipe_of(smem, team).init();
    __syncthreads();
    // The same for all lanes, which the compiler cannot see.
    int const warpgroup = __shfl_sync(all_lanes, static_cast<int>(threadIdx.x) / 128, 0);
    if (warpgroup == 0) {
      give_registers<producer_registers>();
      int const team = warp_index();
      if (team >= teams) return;
      DkdvProducerSm90<config, T, Pipe> producer(params.backward, params.tensors, pipe_of(smem, team));
      producer.run(static_cast<int>(blockIdx.x) * teams + team, static_cast<int>(gridDim.x) * teams);
    } else {
      take_registers<consumer_registers>();
      int const team = warpgroup - 1;
      DkdvTeamLoopSm90<config, T, block_groups> loop(params.backward, params.tensors.grad_k,
                                                     params.tensors.grad_v, pipe_of(smem, team), team);
      loop.run();
    }
  }

  /// Encodes the descriptors, and sets the counter of tiles to 0 in the stream.
  static cudaError_t enqueue(BackwardParams<T> const& backward, std::int64_t blocks,
                             cudaStream_t stream) noexcept {
    if (blocks == 0) return cudaSuccess;
    PendingError const pending;
    Params params{{}, backward};
    cudaError_t error = encode_dkdv_tensors(backward, config.q_tile, config.kv_tile, params.tensors);
    if (error == cudaSuccess)
      error = cudaMemsetAsync(backward.tile_counter, 0, sizeof *backward.tile_counter, stream);
    if (error != cudaSuccess) return pending.take_back(error);
    return launch<BackwardDkdvTeamSm90>(params, blocks, most_smem_bytes, stream);
  }

private:
  static constexpr int producer_registers = config.producer_registers();
  static constexpr int consumer_registers = config.consumer_registers();

  static __device__ __forceinline__ Pipe pipe_of(unsigned char* smem, int team) {
    return Pipe(shared_address(smem) + team * Pipe::bytes);
  }
};

}  // namespace sparge
