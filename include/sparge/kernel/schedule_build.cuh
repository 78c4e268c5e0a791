#pragma once
/// The order of work as a launch of its own, before kernels that need it from their first tile on.

#include <cstdint>

#include "sparge/device/dependent_launch.cuh"
#include "sparge/kernel/order_lines.cuh"
#include "sparge/kernel/schedule_params.hpp"

namespace sparge {

/// One thread block a pass, after ScheduleCount.
class ScheduleBuild {
  using Crew = WholeBlock<32>;
  using Order = OrderLines<Crew>;

public:
  using Params = ScheduleParams;
  static constexpr int threads = Crew::threads, ctas_per_sm = 1;
  static constexpr bool starts_early = true;

  static __device__ __forceinline__ void run(Params const& params, unsigned char*) {
    let_next_kernel_start();
    wait_for_kernel_before();
    __shared__ Order::Shared shared;
    SchedulePass const& pass = params.passes[blockIdx.x];
    ScheduleMask const mask{params.mask, params.kv_blocks, params.row_words};
    std::uint64_t const kept = Order::count_kept(pass, shared);
    std::uint32_t const splits = Order::list(pass, kept, shared);
    if (splits == 0) return;
    __syncthreads();
    for (std::uint32_t split = warp_index(); split < splits; split += Crew::warps)
      Order::cut(mask, pass, split);
  }
};

}  // namespace sparge
