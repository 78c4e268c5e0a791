#pragma once
/// Results of lines that were split, from those of their pieces, in the order of the pieces.

#include <cstdint>

#include "sparge/collective/slot_rows.cuh"
#include "sparge/collective/tile_order.cuh"
#include "sparge/device/dependent_launch.cuh"
#include "sparge/device/global_word.cuh"
#include "sparge/device/math.cuh"
#include "sparge/kernel/launch.cuh"
#include "sparge/kernel/schedule_params.hpp"
#include "sparge/plan/backward_config.hpp"
#include "sparge/plan/forward_config.hpp"
#include "sparge/plan/forward_params.hpp"

namespace sparge {

/// Rows of tiles that were split, as many as a thread block has lanes for, handed to thread blocks in turn.
template <int head_dim, int tile_rows>
class SplitRows {
public:
  static constexpr int threads = 256, lanes_a_row = head_dim / lane_channels;
  static constexpr int rows = threads / lanes_a_row, parts = tile_rows / rows;
  static_assert(tile_rows % rows == 0);

  /// Waits for the kernel before, which has written the pieces. False where there are none: the order was known before that kernel let
  /// this one start, so that all but one thread block leave at once. That one waits, so that what comes next does not pass by
  /// the kernel before.
  static __device__ __forceinline__ bool wait(Schedule const& schedule) {
    let_next_kernel_start();
    bool const is_split = load_uncached(schedule.header + Schedule::splits_end) != 0;
    if (is_split || blockIdx.x == 0) wait_for_kernel_before();
    return is_split;
  }

  /// Calls visit(line, row of the tile, first channel) in each thread.
  template <class Visit>
  static __device__ __forceinline__ void for_each(Schedule const& schedule, Visit visit) {
    std::uint32_t const all = schedule.header[Schedule::splits_end] * parts;
    int const thread = static_cast<int>(threadIdx.x);
    for (std::uint32_t part = blockIdx.x; part < all; part += gridDim.x)
      visit(schedule.splits[part / parts], static_cast<int>(part % parts) * rows + thread / lanes_a_row,
            thread % lanes_a_row * lane_channels);
  }
};

/// O and lse of rows: the sum of O of the pieces by their share of the exponentials.
template <class T, int head_dim>
class MergeRows {
public:
  using Params = MergeRowsParams<T>;
  using Rows = SplitRows<head_dim, 128>;
  static constexpr int threads = Rows::threads, ctas_per_sm = 4;
  static constexpr bool starts_early = true;

  static __device__ __forceinline__ void run(Params const& params, unsigned char*) {
    if (!Rows::wait(params.schedule)) return;
    Rows::for_each(params.schedule, [&](SplitLine const& line, int row, int channel) {
      MergeRows(params, line, row).merge(channel);
    });
  }

private:
  static constexpr int tile_rows = 128, slot_floats = ForwardConfig::slot_floats(tile_rows, head_dim);

  __device__ __forceinline__ MergeRows(Params const& params, SplitLine const& line, int row)
      : params_(params), line_(line), row_(row) {}

  __device__ __forceinline__ void merge(int channel) const {
    TilePosition const at = head_major_tile(line_.tile, params_.q_tiles, params_.heads);
    int const token = at.tile * tile_rows + row_;
    if (token >= params_.q_tokens) return;
    RowWeight const largest = largest_weight();
    float total = 0;  // about 1 or more; 0 where no piece has a finite logit, NaN where one has NaN
    for (int piece = 0; piece < line_.pieces; ++piece) total += share(weight_of(piece), largest);
    float sum[lane_channels] = {};
    for (int piece = 0; piece < line_.pieces; ++piece) {
      RowWeight const weight = weight_of(piece);
      if (weight.rest != -infinity())
        add_slot_row(slot(piece) + row_ * head_dim + channel, share(weight, largest) / total, sum);
    }
    TensorView<T> const& out = params_.out;
    store_lane_channels(
        sum, out.data + at.batch * out.stride[0] + at.head * out.stride[1] + token * out.stride[2] + channel);
    if (params_.lse != nullptr && channel == 0)
      params_.lse[(at.batch * params_.heads + at.head) * params_.q_tokens + token] =
          (largest.reference + (largest.rest + log2f(total))) * ln_2;
  }

  __device__ __forceinline__ float const* slot(int piece) const {
    return params_.schedule.partials + std::int64_t{line_.slot + piece} * slot_floats;
  }

  __device__ __forceinline__ RowWeight weight_of(int piece) const {
    return reinterpret_cast<RowWeight const*>(slot(piece) + tile_rows * head_dim)[row_];
  }

  /// To a unit in the last place of a huge reference, which is enough: shares need not be at most 1.
  __device__ __forceinline__ RowWeight largest_weight() const {
    RowWeight largest = weight_of(0);
    for (int piece = 1; piece < line_.pieces; ++piece) {
      RowWeight const weight = weight_of(piece);
      if (weight.reference + weight.rest > largest.reference + largest.rest) largest = weight;
    }
    return largest;
  }

  /// The difference of -inf and -inf is not taken.
  static __device__ __forceinline__ float share(RowWeight const& weight, RowWeight const& largest) {
    if (weight.rest == -infinity()) return 0;
    return exp2f((weight.reference - largest.reference) + (weight.rest - largest.rest));
  }

  Params const& params_;
  SplitLine line_;
  int row_;
};

/// Tiles of gradients: the sum of those of the pieces.
template <class T, int head_dim>
class SumPieces {
public:
  using Params = SumPiecesParams<T>;
  using Rows = SplitRows<head_dim, 64>;
  static constexpr int threads = Rows::threads, ctas_per_sm = 4;
  static constexpr bool starts_early = true;

  /// A slot holds 128 rows: of a tile of one tensor, or 64 each of tiles of two.
  static __device__ __forceinline__ void run(Params const& params, unsigned char*) {
    if (!Rows::wait(params.schedule)) return;
    Rows::for_each(params.schedule, [&](SplitLine const& line, int row, int channel) {
      sum_row(params, line, row, channel);
      sum_row(params, line, row + slot_rows / 2, channel);
    });
  }

private:
  static constexpr int slot_rows = BackwardConfig::slot_rows;

  static __device__ __forceinline__ void sum_row(Params const& params, SplitLine const& line, int slot_row,
                                                 int channel) {
    TilePosition const at = head_major_tile(line.tile, params.tiles, params.heads);
    int const tensor = slot_row / params.tile_rows,
              token = at.tile * params.tile_rows + slot_row % params.tile_rows;
    if (token >= params.tokens) return;
    float sum[lane_channels] = {};
    for (int piece = 0; piece < line.pieces; ++piece)
      add_slot_row(params.schedule.partials +
                       (std::int64_t{line.slot + piece} * slot_rows + slot_row) * head_dim + channel,
                   1, sum);
#pragma unroll
    for (int c = 0; c < lane_channels; ++c) sum[c] *= params.factors[tensor];
    TensorView<T> const& grad = params.grads[tensor];
    store_lane_channels(sum, grad.data + at.batch * grad.stride[0] + at.head * grad.stride[1] +
                                 token * grad.stride[2] + channel);
  }
};

template <class T>
cudaError_t launch_merge_rows(MergeRowsParams<T> const& params, std::int64_t blocks,
                              cudaStream_t stream) noexcept {
  if (params.head_dim == 64) return launch<MergeRows<T, 64>>(params, blocks, 0, stream);
  if (params.head_dim == 128) return launch<MergeRows<T, 128>>(params, blocks, 0, stream);
  return cudaErrorInvalidValue;  // validate_problem() refuses other head_dims
}

template <class T>
cudaError_t launch_sum_pieces(SumPiecesParams<T> const& params, std::int64_t blocks,
                              cudaStream_t stream) noexcept {
  if (params.head_dim == 64) return launch<SumPieces<T, 64>>(params, blocks, 0, stream);
  if (params.head_dim == 128) return launch<SumPieces<T, 128>>(params, blocks, 0, stream);
  return cudaErrorInvalidValue;  // validate_problem() refuses other head_dims
}

}  // namespace sparge
