#pragma once
/// Copies of tiles that lie in shared memory in panels of 64 channels (PanelDescriptor): a box a panel. By one lane.

#include <cstdint>

#include "sparge/device/mbarrier.cuh"
#include "sparge/device/tma_sm90.cuh"

namespace sparge {

inline constexpr int panel_channels = 64;

/// Has the first `panels` panels of the rows from `at` on copied to `tile`, where panels lie `panel_bytes` apart.
template <int panels>
__device__ __forceinline__ void load_panels(std::uint32_t tile, int panel_bytes, CUtensorMap const& tensor,
                                            BoxOrigin at, Mbarrier full) {
#pragma unroll
  for (int panel = 0; panel < panels; ++panel)
    load_box(tile + panel * panel_bytes, tensor, {panel * panel_channels, at.token, at.head, at.batch}, full);
}

/// The other way, as one group of stores.
template <int panels>
__device__ __forceinline__ void store_panels(CUtensorMap const& tensor, BoxOrigin at, std::uint32_t tile,
                                             int panel_bytes) {
#pragma unroll
  for (int panel = 0; panel < panels; ++panel)
    store_box(tensor, {panel * panel_channels, at.token, at.head, at.batch}, tile + panel * panel_bytes);
  commit_stores();
}

}  // namespace sparge
