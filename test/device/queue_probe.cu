#include "probe.hpp"
#include "probe_run.cuh"
#include "sparge/collective/work_queue.cuh"
#include "sparge/kernel/schedule_inside.cuh"

namespace sparge::probe {

/// `taken`: how many, then tile and slot of each.
__global__ void take_all_kernel(Schedule const schedule, int tiles, int blocks, int* taken) {
  WorkQueue queue(schedule, tiles, blocks, static_cast<int>(blockIdx.x), static_cast<int>(gridDim.x));
  for (WorkItem item = queue.find(); item.tile < tiles; queue.ask(), item = queue.find()) {
    if (threadIdx.x != 0) continue;
    int const place = atomicAdd(taken, 1);
    taken[1 + 2 * place] = static_cast<int>(item.tile);
    taken[2 + 2 * place] = item.slot;
  }
}

std::vector<int> take_all(Schedule const& schedule, int tiles, int blocks, int producers) {
  std::size_t const most = static_cast<std::size_t>(tiles) * 100 + 1000;
  Array<int> const taken(std::vector<int>(1 + 2 * most, 0));
  take_all_kernel<<<producers, 32>>>(schedule, tiles, blocks, taken.data());
  std::vector<int> all = taken.download();
  all.resize(1 + 2 * static_cast<std::size_t>(all[0]));
  all.erase(all.begin());
  return all;
}

template <int crew_warps>
__global__ void order_inside_kernel(SchedulePass const pass, ScheduleMask const mask) {
  constexpr int first = 4 - crew_warps, barrier = 1;
  using Order = ScheduleInside<SomeWarps<first, crew_warps, barrier>>;
  __shared__ typename Order::Shared shared;
  if (warp_index() >= first) Order::run(mask, pass, shared);
}

void order_inside(Schedule const& schedule, ScheduleShape const& shape, std::uint32_t const* mask,
                  int crew_warps, int thread_blocks) {
  SchedulePass pass{schedule, shape, ScheduleLines::rows};
  pass.first_tiles = static_cast<std::uint32_t>(ScheduleBounds::first_tiles(shape));
  auto const blocks = static_cast<std::int32_t>(shape.blocks);
  ScheduleMask const words{mask, blocks, (blocks + 31) / 32};
  check(cudaMemset(schedule.header, 0, Schedule::fields * sizeof *schedule.header));
  if (crew_warps == 3)
    order_inside_kernel<3><<<thread_blocks, 128>>>(pass, words);
  else
    order_inside_kernel<2><<<thread_blocks, 128>>>(pass, words);
  check(cudaGetLastError());
  check(cudaDeviceSynchronize());
}

}  // namespace sparge::probe
