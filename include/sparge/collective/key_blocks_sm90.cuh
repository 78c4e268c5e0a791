#pragma once
/// A tile of keys that is made of kept key blocks, wherever in their row these are. By a warp that walks rows and has tiles copied.

#include <cstdint>

#include "sparge/collective/panels_sm90.cuh"
#include "sparge/collective/row_walk.cuh"
#include "sparge/device/tma_sm90.cuh"
#include "sparge/device/warp.cuh"

namespace sparge {

/// The blocks of one tile, in the order of the walk. `Pipe` says how tiles of keys lie in shared memory.
template <class Pipe>
class KeyBlocks {
public:
  /// The next tile of a walk whose next block is `block`, -1 after its last; both move on. Where the walk ends within the tile,
  /// the rest is blocks `kv_blocks`: outside the tensor, which reads as zeros.
  static __device__ __forceinline__ KeyBlocks gather(RowWalk& walk, int& block, int kv_blocks) {
    KeyBlocks gathered;
    gathered.kept_ = 0;
#pragma unroll
    for (int i = 0; i < most; ++i) {
      gathered.block_[i] = block >= 0 ? block : kv_blocks;
      gathered.kept_ += block >= 0;
      if (block >= 0) block = walk.next();
    }
    return gathered;
  }

  /// How many of the tile's keys are among the `kv_tokens`. Only the last of a row's blocks may be short.
  __device__ __forceinline__ int count_keys(int kv_tokens) const {
    int last = block_[0];
#pragma unroll
    for (int i = 1; i < most; ++i) last = i < kept_ ? block_[i] : last;
    return (kept_ - 1) * block_tokens + min(block_tokens, kv_tokens - last * block_tokens);
  }

  /// Has them copied from the head of K or V that `at` names to `tile`. `note` is called by the lane that asks, before it does.
  template <class Note>
  __device__ __forceinline__ void load(std::uint32_t tile, CUtensorMap const& tensor, BoxOrigin at,
                                       Mbarrier full, Note note) const {
    int token[most];
#pragma unroll
    for (int i = 0; i < most; ++i) token[i] = uniform(block_[i]) * block_tokens;
    int const head = uniform(at.head), batch = uniform(at.batch);
    if (elect_lane()) {
      note();
      full.arrive_expecting(Pipe::kv_bytes);
#pragma unroll
      for (int i = 0; i < most; ++i)
        load_panels<Pipe::panels>(tile + i * block_panel_bytes, Pipe::kv_panel_bytes, tensor,
                                  {0, token[i], head, batch}, full);
    }
    __syncwarp();
  }

private:
  static constexpr int block_tokens = 64;
  static constexpr int block_panel_bytes = block_tokens * panel_row_bytes;
  static constexpr int most = Pipe::kv_panel_bytes / block_panel_bytes;  ///< blocks of a tile

  int block_[most];
  int kept_;  ///< how many of them the walk had
};

}  // namespace sparge
