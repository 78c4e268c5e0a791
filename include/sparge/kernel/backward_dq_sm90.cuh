#pragma once
/// Gradient of Q for capability 9.0: persistent thread blocks of one producer warpgroup and two that compute 64 query rows each.

#include <cstdint>

#include "sparge/collective/dq_loop_sm90.cuh"
#include "sparge/collective/dq_pipe_sm90.cuh"
#include "sparge/collective/dq_producer_sm90.cuh"
#include "sparge/kernel/launch.cuh"
#include "sparge/kernel/tensor_map.cuh"

namespace sparge {

template <BackwardConfig config, DqOverlap overlap = DqOverlap::own_product>
class BackwardDqSm90 {
public:
  using T = std::conditional_t<config.dtype == ElementType::bf16, bfloat16, float16>;
  using Pipe = DqPipe<config>;
  static constexpr int threads = config.threads(), ctas_per_sm = config.ctas_per_sm;
  static_assert(threads == 384 && ctas_per_sm == 1);
  static constexpr std::int64_t most_smem_bytes = config.smem_bytes();

  struct Params {
    DqTensors tensors;
    BackwardParams<T> backward;
  };

  static __device__ __forceinline__ void run(Params const& params, unsigned char* smem) {
    Pipe const pipe(shared_address(smem));
    if (threadIdx.x == 0) pipe.init();
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
      DqLoopSm90<config, T, overlap> loop(params.backward, params.tensors.grad_q, pipe, warpgroup - 1);
      loop.run();
    }
  }

  /// Encodes the descriptors, and sets the counter of tiles to 0 in the stream.
  static cudaError_t enqueue(BackwardParams<T> const& backward, std::int64_t blocks,
                             cudaStream_t stream) noexcept {
    if (blocks == 0) return cudaSuccess;
    PendingError const pending;
    Params params{{}, backward};
    cudaError_t error = encode(params);
    if (error == cudaSuccess)
      error = cudaMemsetAsync(backward.tile_counter, 0, sizeof *backward.tile_counter, stream);
    if (error != cudaSuccess) return pending.take_back(error);
    return launch<BackwardDqSm90>(params, blocks, config.smem_bytes(), stream);
  }

private:
  static constexpr int producer_registers = config.producer_registers();
  static constexpr int consumer_registers = config.consumer_registers();

  static cudaError_t encode(Params& params) noexcept {
    BackwardParams<T> const& backward = params.backward;
    TensorMapEncoder encoder;
    cudaError_t error = encoder.find();
    auto const add = [&](auto const& view, int box_tokens, CUtensorMap* map) {
      if (error == cudaSuccess) error = encoder.encode(view, box_tokens, backward.grad_q.data, map);
    };
    add(backward.q, config.q_tile, &params.tensors.q);
    add(backward.grad_out, config.q_tile, &params.tensors.grad_out);
    add(backward.k, 64, &params.tensors.k);
    add(backward.v, 64, &params.tensors.v);
    add(backward.grad_q, 16, &params.tensors.grad_q);
    return error;
  }
};

}  // namespace sparge
