#pragma once
/// Tiles that lie in shared memory in panels of 64 channels (PanelDescriptor): where a chunk is, and copies, a box a panel.

#include <cstdint>

#include "sparge/device/mbarrier.cuh"
#include "sparge/device/swizzle.cuh"
#include "sparge/device/tma_sm90.cuh"

namespace sparge {

inline constexpr int panel_channels = 64, panel_row_bytes = 128;

/// Where the first or second `half` of channels 16 step .. 16 step + 15 is, in row `row` of those that begin at `rows`. A lane l of
/// ldmatrix or stmatrix names row l mod 16 and half l / 16. Panels lie `panel_bytes` apart.
__device__ __forceinline__ std::uint32_t chunk_of_step(std::uint32_t rows, int row, int half, int step,
                                                       int panel_bytes) {
  return rows + step / 4 * panel_bytes + SwizzledTile<panel_channels>::offset(row, 2 * (step % 4) + half);
}

/// By one lane: has the first `panels` panels of the rows from `at` on copied to `tile`, where panels lie `panel_bytes` apart.
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
