#pragma once
/// Gradients of K and V for capability 9.0: persistent thread blocks of a producer warpgroup, a warpgroup that computes dV and
/// one that computes dK, of 64 keys at a time.

#include <cstdint>

#include "sparge/collective/dkdv_loop_sm90.cuh"
#include "sparge/collective/dkdv_pipe_sm90.cuh"
#include "sparge/collective/dkdv_producer_sm90.cuh"
#include "sparge/kernel/launch.cuh"
#include "sparge/kernel/tensor_map.cuh"

namespace sparge {

template <class T>
cudaError_t encode_dkdv_tensors(BackwardParams<T> const& params, int q_tile, int kv_tile,
                                DkdvTensors& tensors) noexcept {
  TensorMapEncoder encoder;
  cudaError_t error = encoder.find();
  auto const add = [&](auto const& view, int box_tokens, CUtensorMap* map) {
    if (error == cudaSuccess) error = encoder.encode(view, box_tokens, params.grad_k.data, map);
  };
  add(params.q, q_tile, &tensors.q);
  add(params.grad_out, q_tile, &tensors.grad_out);
  add(params.k, kv_tile, &tensors.k);
  add(params.v, kv_tile, &tensors.v);
  add(params.grad_k, 16, &tensors.grad_k);
  add(params.grad_v, 16, &tensors.grad_v);
  return error;
}

template <BackwardConfig config, DkdvTuning tuning = DkdvTuning{}>
class BackwardDkdvSm90 {
public:
  using T = std::conditional_t<config.dtype == ElementType::bf16, bfloat16, float16>;
  using Pipe = DkdvPipe<config>;
  static constexpr int threads = config.threads(), ctas_per_sm = config.ctas_per_sm;
  static_assert(threads == 384 && ctas_per_sm == 1);
  static constexpr std::int64_t most_smem_bytes = config.smem_bytes();

  struct Params {
    DkdvTensors tensors;
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
      DkdvProducerSm90<config, T, Pipe> producer(params.backward, params.tensors, pipe);
      producer.run(static_cast<int>(blockIdx.x), static_cast<int>(gridDim.x));
    } else if (warpgroup == 1) {
      take_registers<consumer_registers>();
      DkdvLoopSm90<config, T, tuning, KeyGradient::v> loop(params.backward, params.tensors.grad_v, pipe);
      loop.run();
    } else {
      take_registers<consumer_registers>();
      DkdvLoopSm90<config, T, tuning, KeyGradient::k> loop(params.backward, params.tensors.grad_k, pipe);
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
    return launch<BackwardDkdvSm90>(params, blocks, config.smem_bytes(), stream);
  }

private:
  static constexpr int producer_registers = config.producer_registers();
  static constexpr int consumer_registers = config.consumer_registers();
};

}  // namespace sparge
