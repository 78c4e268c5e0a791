#pragma once
/// The launches that schedule uneven rows, and those that merge what was split. Host code sees only this.

#include <driver_types.h>

#include <cstdint>

#include "sparge/core/device.hpp"
#include "sparge/core/tensor_view.hpp"
#include "sparge/plan/schedule.hpp"

namespace sparge {

/// What a line of the mask is: what a tile of queries keeps, or all that keeps a tile of keys.
enum class ScheduleLines : std::int32_t { rows, columns };

/// The tiles of one kernel.
struct SchedulePass {
  Schedule schedule = {};
  ScheduleShape shape = {};
  ScheduleLines lines = ScheduleLines::rows;
  std::uint32_t first_tiles = 0;  ///< of these, workers start where ScheduleRule::starts_first()
  std::int32_t count_blocks = 0;  ///< thread blocks that count it
};

struct ScheduleParams {
  static constexpr std::int32_t most_passes = 2;

  SchedulePass passes[most_passes] = {};
  std::int32_t count = 0;               ///< passes
  std::uint32_t const* mask = nullptr;  ///< [batch, heads, q_blocks, row_words]
  std::int32_t kv_blocks = 0, row_words = 0;
};

/// Counts the kept blocks of every line; then, in a launch of one thread block a pass, orders the lines and sets the counter of
/// what was asked for to 0. The first launch starts when all before it in the stream has
/// ended, so the kernel that follows may read what came before without waiting. Defined in kernel/schedule.cuh.
cudaError_t launch_schedule(ScheduleParams const& params, cudaStream_t stream) noexcept;

/// Of the rows of O that were split.
template <class T>
struct MergeRowsParams {
  Schedule schedule = {};
  TensorView<T> out = {};
  float* lse = nullptr;  ///< may be null
  std::int64_t heads = 0;
  std::int32_t q_tokens = 0, q_tiles = 0, head_dim = 0;
};

/// Of the tiles of gradients that were split: one tensor, or two whose tiles lie one after the other in a slot.
template <class T>
struct SumPiecesParams {
  static constexpr std::int32_t most_tensors = 2;

  Schedule schedule = {};
  TensorView<T> grads[most_tensors] = {};
  float factors[most_tensors] = {1, 1};  ///< of what lies in slots
  std::int64_t heads = 0;
  std::int32_t tokens = 0, tiles = 0, tile_rows = 0, head_dim = 0;
};

/// Thread blocks that merge: no more than there could be work for.
constexpr std::int64_t merging_blocks(ScheduleShape const& shape, Device const& device) {
  constexpr std::int64_t parts = 8, blocks_an_sm = 2;
  std::int64_t const needed = parts * ScheduleBounds::splits(shape),
                     most = blocks_an_sm * (device.sm_count > 0 ? device.sm_count : 1);
  return needed < most ? needed : most;
}

/// Both launch so many thread blocks, which do nothing where nothing was split. Defined in kernel/merge_pieces.cuh; T is bfloat16 or
/// float16.
template <class T>
cudaError_t launch_merge_rows(MergeRowsParams<T> const& params, std::int64_t blocks,
                              cudaStream_t stream) noexcept;
template <class T>
cudaError_t launch_sum_pieces(SumPiecesParams<T> const& params, std::int64_t blocks,
                              cudaStream_t stream) noexcept;

}  // namespace sparge
