#pragma once
/// The mask rule: from the scores of a row to its mask bits. Nothing is sorted.

#include <algorithm>
#include <cstdint>

#include "sparge/core/linkage.hpp"
#include "sparge/device/dependent_launch.cuh"
#include "sparge/kernel/launch.cuh"
#include "sparge/kernel/mask_memory_row.cuh"
#include "sparge/kernel/mask_register_row.cuh"
#include "sparge/kernel/mask_row.cuh"

namespace sparge {

/// Whether the keep rule forces the pair of a row and a block. The rule counts in the whole problem, `q_block` in this one.
class RowKeep {
public:
  __device__ __forceinline__ RowKeep(MaskSelectParams const& params, RowPosition const& at)
      : keep_(params.rows.rule.keep),
        grid_{params.whole_q_tokens, params.kv_tokens, params.q_block, params.kv_block} {
    bool const by_query = keep_.dense_q_front_tokens > 0 || keep_.dense_q_back_tokens > 0;
    bool const by_pair = keep_.kv_front_tokens > 0 || keep_.kv_back_tokens > 0 || keep_.band_tokens >= 0;
    if (by_query || by_pair) q_block_ = params.first_q_block + at.q_block(params.rows);
    dense_ = by_query && keeps_every_block(keep_, grid_, q_block_);
    idle_ = !dense_ && !by_pair;
  }

  /// Whether it forces no pair of this row.
  __device__ __forceinline__ bool is_idle() const { return idle_; }
  /// `block` exists.
  __device__ __forceinline__ bool forces(int block) const {
    return !idle_ && (dense_ || is_forced_pair(keep_, grid_, q_block_, block));
  }

private:
  KeepRule const& keep_;
  BlockGrid grid_;
  std::int64_t q_block_ = 0;
  bool dense_, idle_;
};

/// Finds and writes the mask of a row in the hands of one warp, by one bit of the key a step.
template <class Row>
__device__ __forceinline__ void select_by_bits(MaskSelectParams const& params, RowPosition const& at,
                                               Row const& row) {
  RowGoals const goals(params.rows, at, row.all());
  PrefixWalk prefix(find_prefix_end(row, row.all(), both_goals(goals.top_k, goals.top_p)));
  RowKeep const keep(params, at);
  std::uint32_t* const words = params.mask + at.row * params.rows.row_words;
  for (int word = 0; word < params.rows.row_words; ++word) {
    int const block = 32 * word + lane_index();
    bool const exists = block < row.blocks();
    bool const chosen = prefix.step(row.key(block), exists);
    unsigned const bits = __ballot_sync(all_lanes, chosen || (exists && keep.forces(block)));
    if (lane_index() == 0) words[word] = bits;
  }
}

/// Rows of any length: one warp a row, which is ranked in shared memory or in scratch.
class MaskSelectRanked {
public:
  using Params = MaskSelectParams;
  static constexpr int threads = 32 * RowLayout::row_warps, ctas_per_sm = 6;
  static constexpr std::int64_t most_smem_bytes = RowLayout::most_shared_bytes;

  static __device__ __forceinline__ void run(Params const& params, unsigned char* smem) {
    RowPosition const at = RowPosition::of_warp(params.rows);
    if (at.exists) select_by_bits(params, at, RankedRow(params.rows, at, smem));
  }
};

/// Not inlined, so that what is rare takes no registers from what is not.
struct MemorySelect {
  static __device__ __noinline__ void run(MaskSelectParams const& params, std::int64_t slot) {
    RowPosition const at(params.rows, slot);
    select_by_bits(params, at,
                   MemoryRow(params.rows.scores + slot * params.rows.pitch, params.rows.kv_blocks));
  }
};

/// Rows of up to 32 * warps * values blocks, in registers. One warp a row, or one thread block where `warps` > 1.
template <int warps, int values>
class MaskSelect {
public:
  using Params = MaskSelectParams;
  using Row = RegisterRow<warps, values>;
  using Team = RowTeam<warps>;
  using Lists = CandidateLists<warps, values>;
  static constexpr int blocks = 32 * warps * values;
  static constexpr int rows = warps == 1 ? RowLayout::row_warps : 1;  ///< of a thread block
  static constexpr int threads = 32 * warps * rows;
  static constexpr int registers = values + 56;
  static constexpr std::int64_t most_smem_bytes = rows * Lists::bytes;
  static constexpr int ctas_per_sm = std::max<int>(
      1, std::min<int>({2048 / threads, 65536 / (threads * registers), int(220 * 1024 / most_smem_bytes)}));

  static __device__ __forceinline__ void run(Params const& params, unsigned char* smem) {
    __shared__ typename Team::Storage storage[rows];
    wait_for_kernel_before();
    int const row_of_block = warps == 1 ? warp_index() : 0;
    RowPosition const at(params.rows, std::int64_t{blockIdx.x} * rows + row_of_block);
    if (!at.exists) return;
    std::uint32_t* const words = reinterpret_cast<std::uint32_t*>(smem) + row_of_block * Lists::words;
    Team const team(storage[row_of_block]);
    Row const row(team, params.rows.scores + at.slot * params.rows.pitch, params.rows.kv_blocks);
    Lists lists(words);
    RowGoals const goals(params.rows, at, row.all());
    PrefixGoal const goal = both_goals(goals.top_k, goals.top_p);
    RowPrefix prefix{infinity(), 0};
    bool found = row.is_ordinary();
    if (found && (goal.blocks > 0 || goal.mass > 0)) found = row.find_prefix(goal, lists, prefix);
    if (found)
      write(params, at, row, prefix, words);
    else if (Team::warp() == 0)
      MemorySelect::run(params, at.slot);
  }

private:
  /// Words are collected where the lists were, and written together.
  static __device__ __forceinline__ void write(Params const& params, RowPosition const& at, Row const& row,
                                               RowPrefix const& prefix, std::uint32_t* words) {
    RowKeep const keep(params, at);
    int const row_words = params.rows.row_words;
    Team::synchronize();  // the lists have been read
    collect(row, prefix, row_words, words);
    if (!keep.is_idle()) add_forced(row, keep, row_words, words);
    Team::synchronize();
    std::uint32_t* const out = params.mask + at.row * row_words;
    for (int word = Team::thread(); word < row_words; word += Team::threads) out[word] = words[word];
  }

  static __device__ __forceinline__ void collect(Row const& row, RowPrefix const& prefix, int row_words,
                                                 std::uint32_t* words) {
    int const end = lane_index() == 0 ? row_words : 0;
    auto const put = [&](int v, bool holds) {
      unsigned const bits = __ballot_sync(all_lanes, holds);
      if (row.word(v) < end) words[row.word(v)] = bits;
    };
    if (prefix.tie_end >= row.blocks()) {
#pragma unroll
      for (int v = 0; v < values; ++v) put(v, row.score(v) >= prefix.cut);
    } else {
      int const ties = row.count_before(prefix.tie_end);
#pragma unroll
      for (int v = 0; v < values; ++v)
        put(v, v < ties ? row.score(v) >= prefix.cut : row.score(v) > prefix.cut);
    }
  }

  /// Each word by the lane that wrote it.
  static __device__ __forceinline__ void add_forced(Row const& row, RowKeep const& keep, int row_words,
                                                    std::uint32_t* words) {
#pragma unroll 1
    for (int word = Team::warp(); word < row_words; word += warps) {
      int const block = 32 * word + lane_index();
      unsigned const bits = __ballot_sync(all_lanes, block < row.blocks() && keep.forces(block));
      if (lane_index() == 0) words[word] |= bits;
    }
  }
};

namespace detail {

template <class Kernel, class... Longer>
cudaError_t launch_shortest_select(MaskSelectParams const& params, cudaStream_t stream) noexcept {
  static_assert(Kernel::most_smem_bytes + 2048 <= RowLayout::held_bytes(Kernel::blocks / 2 + 1),
                "a plan counts on no more shared memory than this for the shortest rows of a kernel");
  if (params.rows.kv_blocks <= Kernel::blocks)
    return launch<Kernel>(params, params.rows.chunk.tiles * (RowLayout::tile_rows / Kernel::rows),
                          Kernel::most_smem_bytes, stream, params.code_is_90a);
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
                                        MaskSelect<8, 16>, MaskSelect<8, 32>, MaskSelect<8, 64>>(params,
                                                                                                 stream);
}

}  // namespace sparge
