#pragma once
/// The end of a tile's rows in the sm90a forward kernel: verdict, division by the row sum, O by the copy engine, lse.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "sparge/collective/forward_pipe_sm90.cuh"
#include "sparge/collective/slot_rows.cuh"
#include "sparge/collective/store_rows_sm90.cuh"
#include "sparge/device/fragment.cuh"
#include "sparge/device/guarded_softmax.cuh"
#include "sparge/device/online_softmax.cuh"
#include "sparge/device/tma_sm90.cuh"
#include "sparge/device/warp.cuh"
#include "sparge/plan/forward_params.hpp"

namespace sparge {

/// Each warp stores its own 16 rows, which it stages where these rows of Q were.
template <ForwardConfig config, class T>
class ForwardStoreSm90 {
public:
  using Params = ForwardParams<T>;
  using Pipe = ForwardPipe<config>;
  using Out = Fragment<config.head_dim>;

  __device__ __forceinline__ ForwardStoreSm90(Params const& params, CUtensorMap const& out, Pipe pipe,
                                              int warpgroup)
      : params_(params), out_tensor_(out), pipe_(pipe), warp_(4 * warpgroup + warp_index() % 4) {}

  /// Stores the rows, or asks for them once more: where the softmax did not hold, or O is not finite. The latter may be the
  /// fault of a weight above 1 times a V near the end of f32's range.
  __device__ __forceinline__ void store_guarded(ForwardWork work, Out& out, GuardedSoftmax const& softmax) {
    float const sum[2] = {softmax.row_sum(0), softmax.row_sum(1)};
    float const factor[2] = {reciprocal_fast(sum[0]), reciprocal_fast(sum[1])};
    ForwardTile const at = pipe_.read_tile(work.verdict_slot());
    bool const is_piece = uniform(at.slot) >= 0;  // see judge()
    bool const is_finite = is_piece ? store_piece(at.slot, out, factor) : stage(work.q_slot(), out, factor);
    bool const again = !is_finite || softmax.needs_exact(0, sum[0]) || softmax.needs_exact(1, sum[1]);
    if (__any_sync(all_lanes, again)) {
      if (lane_index() == 0) pipe_.ask_redo(work.verdict_slot(), warp_);
    } else if (is_piece) {
#pragma unroll
      for (int r = 0; r < 2; ++r) store_weight(at.slot, r, {softmax.reference(r), log2f(sum[r])});
    } else {
      store_staged(work.q_slot(), at);
      if (params_.lse)
#pragma unroll
        for (int r = 0; r < 2; ++r) store_lse(at, r, softmax.log_sum_exp(r, sum[r]));
    }
    judge(work);
  }

  /// Of the second pass, for those who asked for it. A row that kept no finite logit is 0, with lse = -inf.
  __device__ __forceinline__ void store_exact(ForwardWork work, Out& out, OnlineSoftmax<1> const& softmax) {
    if (work.redo() >> warp_ & 1) {
      ForwardTile const at = pipe_.read_tile(work.verdict_slot());
      float factor[2];
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        float const sum = softmax.row_sum(0, r);
        if (sum == 0) out.clear_row(r);
        factor[r] = sum == 0 ? 0 : 1 / sum;
        if (at.slot >= 0)
          store_weight(at.slot, r, exact_weight(softmax.maximum(0, r), sum));
        else if (params_.lse)
          store_lse(at, r, softmax.log_sum_exp(0, r, params_.scale_log2, sum));
      }
      if (at.slot >= 0) {
        store_piece(at.slot, out, factor);
      } else {
        stage(work.q_slot(), out, factor);
        store_staged(work.q_slot(), at);
      }
    }
    judge(work);
  }

private:
  static constexpr int warp_bytes = 16 * panel_row_bytes;
  static constexpr int slot_floats = ForwardConfig::slot_floats(config.q_tile, config.head_dim);

  /// The last use of the tile's note. Rows are stored behind branches, and ptxas must see that lanes are together again behind them: else it
  /// takes the whole loop for one in which they part, keeps the descriptors of products in each lane's registers, and moves them to uniform
  /// ones before every wgmma, which cost 6 % of all cycles (docs/decisions/forward_sm90.md).
  __device__ __forceinline__ void judge(ForwardWork work) const {
    __syncwarp();
    pipe_.judged(work.verdict_slot()).arrive();
  }

  __device__ __forceinline__ std::uint32_t staged(int q_slot) const {
    return pipe_.q(q_slot) + warp_ * warp_bytes;
  }

  /// Rows times their factors, rounded, to where the tile's Q was. Returns whether all of this lane's are finite.
  __device__ __forceinline__ bool stage(int q_slot, Out const& out, float const (&factor)[2]) const {
    int const lane = reread_lane_index(), row = lane % 16, half = lane / 16;
    std::uint32_t probe[4] = {};  // pairs of T that become NaN, more than one so that none is waited for
#pragma unroll
    for (int i = 0; i < config.head_dim / 16; ++i) {
      std::uint32_t values[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        int const group = 2 * i + j / 2, r = j % 2;
        values[j] = pack<T>(out.at(r, group, 0) * factor[r], out.at(r, group, 1) * factor[r]);
        probe[j] = add_zero_times<T>(probe[j], values[j]);
      }
      stmatrix(chunk_of_step(staged(q_slot), row, half, i, Pipe::q_panel_bytes), values);
    }
    fence_shared_for_copies();  // of O from here, or else of the next Q to here
    return ((probe[0] | probe[1] | probe[2] | probe[3]) & 0x7fff7fffu) == 0;
  }

  __device__ __forceinline__ void store_staged(int q_slot, ForwardTile const& at) const {
    __syncwarp();
    store_staged_rows<config.head_dim>(out_tensor_, {0, first_token(at), at.head, at.batch}, staged(q_slot),
                                       Pipe::q_panel_bytes);
  }

  // ---- Pieces of rows ----------------------------------------------------------------------------------------------------

  /// Rows times their factors to the slot, rows past the last one included. Returns whether all of this lane's are finite.
  __device__ __forceinline__ bool store_piece(int slot, Out& out, float const (&factor)[2]) const {
    float probe[2] = {0, 0};
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      out.scale_row(r, factor[r]);
#pragma unroll
      for (int group = 0; group < Out::groups; ++group)
#pragma unroll
        for (int c = 0; c < 2; ++c) probe[c] = fmaf(out.at(r, group, c), 0, probe[c]);
    }
    store_slot_rows(out, params_.schedule.partials, slot * slot_floats + 16 * warp_ * config.head_dim);
    return probe[0] + probe[1] == 0;
  }

  __device__ __forceinline__ void store_weight(int slot, int r, RowWeight weight) const {
    float* const weights =
        params_.schedule.partials + std::int64_t{slot} * slot_floats + config.q_tile * config.head_dim;
    if (lane_index() % 4 == 0) reinterpret_cast<RowWeight*>(weights)[16 * warp_ + Out::row(r)] = weight;
  }

  /// The rounding of a huge reference is in `rest`, so that it cancels between pieces as it does within one.
  __device__ __forceinline__ RowWeight exact_weight(float maximum, float sum) const {
    if (sum == 0) return {0, -infinity()};
    float const reference = __fmul_rn(maximum, params_.scale_log2);
    return {reference, fmaf(maximum, params_.scale_log2, -reference) + log2f(sum)};
  }

  __device__ __forceinline__ void store_lse(ForwardTile const& at, int r, float lse) const {
    int const token = first_token(at) + Out::row(r);
    if (lane_index() % 4 != 0 || token >= params_.q_tokens) return;
    params_.lse[(std::int64_t{at.batch} * params_.heads + at.head) * params_.q_tokens + token] = lse;
  }

  __device__ __forceinline__ int first_token(ForwardTile const& at) const {
    return at.tile * config.q_tile + 16 * warp_;
  }

  Params const& params_;
  CUtensorMap const& out_tensor_;
  Pipe pipe_;
  int warp_;  ///< of the tile's consumers
};

}  // namespace sparge
