#pragma once
/// The mask rule: from the scores of a row to its mask bits. Nothing is sorted.

#include <algorithm>
#include <cstdint>

#include "sparge/core/linkage.hpp"
#include "sparge/kernel/launch.cuh"
#include "sparge/kernel/mask_register_row.cuh"
#include "sparge/kernel/mask_row.cuh"

namespace sparge {

/// Whether the keep rule forces the pair of a row and a block. The rule counts in the whole problem, `q_block` in this one.
class RowKeep {
public:
  __device__ __forceinline__ RowKeep(MaskSelectParams const& params, std::int64_t q_block)
      : keep_(params.rows.rule.keep),
        grid_{params.whole_q_tokens, params.kv_tokens, params.q_block, params.kv_block},
        q_block_(params.first_q_block + q_block),
        dense_(keeps_every_block(keep_, grid_, q_block_)),
        idle_(!dense_ && keep_.kv_front_tokens <= 0 && keep_.kv_back_tokens <= 0 && keep_.band_tokens < 0) {}

  /// Whether it forces no pair of this row.
  __device__ __forceinline__ bool is_idle() const { return idle_; }
  /// `block` exists.
  __device__ __forceinline__ bool forces(int block) const {
    return dense_ || is_forced_pair(keep_, grid_, q_block_, block);
  }

private:
  KeepRule const& keep_;
  BlockGrid grid_;
  std::int64_t q_block_;
  bool dense_, idle_;
};

/// Rows of any length: one warp a row, which is ranked in shared memory or in scratch.
class MaskSelectRanked {
public:
  using Params = MaskSelectParams;
  static constexpr int threads = 32 * RowLayout::row_warps, ctas_per_sm = 6;
  static constexpr std::int64_t most_smem_bytes = RowLayout::most_shared_bytes;

  static __device__ __forceinline__ void run(Params const& params, unsigned char* smem) {
    RowPosition const at = RowPosition::of_warp(params.rows);
    if (!at.exists) return;
    RankedRow const row(params.rows, at, smem);
    RowGoals const goals(params.rows.rule, at.head, row.all());
    write(params, at, row, PrefixWalk(find_prefix_end(row, row.all(), both_goals(goals.top_k, goals.top_p))));
  }

private:
  /// 32 blocks a step: one mask word.
  static __device__ __forceinline__ void write(Params const& params, RowPosition const& at,
                                               RankedRow const& row, PrefixWalk prefix) {
    RowKeep const keep(params, at.q_block);
    std::uint32_t* const words = params.mask + at.row * params.rows.row_words;
    for (int word = 0; word < params.rows.row_words; ++word) {
      int const block = 32 * word + lane_index();
      bool const exists = block < row.blocks();
      bool const chosen = prefix.step(row.key(block), exists);
      bool const kept = chosen || (exists && keep.forces(block));
      unsigned const bits = __ballot_sync(all_lanes, kept);
      if (lane_index() == 0) words[word] = bits;
    }
  }
};

/// Rows of up to 32 * warps * values blocks, in registers. One warp a row, or one thread block where `warps` > 1.
template <int warps, int values>
class MaskSelect {
public:
  using Params = MaskSelectParams;
  using Row = RegisterRow<warps, values>;
  static constexpr int blocks = 32 * warps * values;
  static constexpr int rows = warps == 1 ? RowLayout::row_warps : 1;  ///< of a thread block
  static constexpr int threads = 32 * warps * rows;
  static constexpr int registers = std::min(3 * values + 56, 255);
  static constexpr int ctas_per_sm = std::max(1, 65536 / (threads * registers));

  static __device__ __forceinline__ void run(Params const& params, unsigned char*) {
    __shared__ typename RowTeam<warps>::Storage storage[rows];
    int const row_of_block = warps == 1 ? warp_index() : 0;
    RowPosition const at(params.rows, std::int64_t{blockIdx.x} * rows + row_of_block);
    if (!at.exists) return;
    Row const row(RowTeam<warps>(storage[row_of_block]), params.rows.scores + at.slot * params.rows.pitch,
                  params.rows.kv_blocks);
    RowGoals const goals(params.rows.rule, at.head, row.all());
    write(params, at, row, row.prefix(both_goals(goals.top_k, goals.top_p)));
  }

private:
  /// Lanes collect the words of a warp and write them together.
  static __device__ __forceinline__ void write(Params const& params, RowPosition const& at, Row const& row,
                                               RowPrefix const& prefix) {
    RowKeep const keep(params, at.q_block);
    std::uint32_t* const words = params.mask + at.row * params.rows.row_words;
    typename Row::Share const share = row.share_of(prefix);
#pragma unroll
    for (int first = 0; first < values; first += 32) {
      std::uint32_t mine = 0;
#pragma unroll
      for (int v = first; v < first + 32 && v < values; ++v) {
        unsigned const bits = __ballot_sync(all_lanes, row.holds(share, v));
        if (lane_index() == v - first) mine = bits;
      }
      if (!keep.is_idle()) mine |= forced_words(row, keep, first);
      int const word = row.word(first + lane_index());
      if (first + lane_index() < values && word < params.rows.row_words) words[word] = mine;
    }
  }

  /// The word of each lane; rare, so a loop.
  static __device__ __forceinline__ std::uint32_t forced_words(Row const& row, RowKeep const& keep,
                                                               int first) {
    std::uint32_t mine = 0;
#pragma unroll 1
    for (int v = first; v < first + 32 && v < values; ++v) {
      int const block = row.block(v);
      unsigned const bits = __ballot_sync(all_lanes, block < row.blocks() && keep.forces(block));
      if (lane_index() == v - first) mine = bits;
    }
    return mine;
  }
};

namespace detail {

template <class Kernel, class... Longer>
cudaError_t launch_shortest_select(MaskSelectParams const& params, cudaStream_t stream) noexcept {
  if (params.rows.kv_blocks <= Kernel::blocks)
    return launch<Kernel>(params, params.rows.chunk.tiles * (RowLayout::tile_rows / Kernel::rows), 0, stream);
  if constexpr (sizeof...(Longer) > 0) return launch_shortest_select<Longer...>(params, stream);
  return cudaErrorInvalidValue;  // longer rows are ranked in scratch
}

}  // namespace detail

SPARGE_INLINE cudaError_t launch_mask_select(MaskSelectParams const& params, RowLayout const& layout,
                                             cudaStream_t stream) noexcept {
  if (!layout.in_registers)
    return launch<MaskSelectRanked>(params, row_grid_blocks(params.rows.chunk), layout.shared_bytes(),
                                    stream);
  return detail::launch_shortest_select<MaskSelect<1, 4>, MaskSelect<1, 8>, MaskSelect<1, 16>,
                                        MaskSelect<1, 24>, MaskSelect<1, 40>, MaskSelect<4, 16>,
                                        MaskSelect<8, 16>, MaskSelect<8, 32>, MaskSelect<16, 32>>(params,
                                                                                                  stream);
}

}  // namespace sparge
