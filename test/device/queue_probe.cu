#include "probe.hpp"
#include "probe_run.cuh"
#include "sparge/collective/work_queue.cuh"

namespace sparge::probe {

/// `taken`: how many, then tile and slot of each.
__global__ void take_all_kernel(Schedule const schedule, int tiles, int blocks, int* taken) {
  WorkQueue queue(schedule, tiles, blocks, static_cast<int>(blockIdx.x), static_cast<int>(gridDim.x));
  for (WorkItem item = queue.next(); item.tile < tiles; item = queue.next()) {
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

}  // namespace sparge::probe
