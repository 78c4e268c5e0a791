#pragma once
/// Scores as mask_scores.cuh makes them, by wgmma, for capability 9.0.

#include <cstdint>

#include "sparge/device/cp_async.cuh"
#include "sparge/device/dependent_launch.cuh"
#include "sparge/device/fragment.cuh"
#include "sparge/device/math.cuh"
#include "sparge/device/swizzle.cuh"
#include "sparge/device/tma_sm90.cuh"
#include "sparge/device/wgmma_sm90.cuh"
#include "sparge/kernel/launch.cuh"
#include "sparge/kernel/mask_score_operands.cuh"
#include "sparge/kernel/mask_score_step.cuh"
#include "sparge/kernel/mask_scores_plain.cuh"

namespace sparge {

/// Two warpgroups hold the 128 queries of a row tile in registers, both parts of 64 each, and share steps of 64 keys in a ring of
/// asynchronous copies. Products of 16 channels are one group of three wgmma; while one runs, the sums of the group before
/// go to f32 sums by FADD, and while the first of a step runs, the scores of the step before are stored.
///
/// The keys of a step lie in shared memory in an order that leaves a lane four neighbouring columns of a row: see place().
template <int head_dim>
class MaskScoresSm90 {
public:
  using Params = MaskScoresParams;
  static constexpr int columns = 64;  ///< of a step
  static constexpr int threads = 256, ctas_per_sm = 1;
  static constexpr int stages = 4;
  static constexpr std::int64_t most_smem_bytes = stages * 4 * columns * head_dim;

  static __device__ __forceinline__ void run(Params const& params, unsigned char* smem) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL  // code for other targets is empty, and no launch chooses it there
    MaskScoresSm90(params, smem).run();
#endif
  }

  /// Where column c of a step lies: of 16 columns, lane q of the four that share a row gets 2 q and 2 q + 1 of two groups of
  /// eight, which are columns 4 q .. 4 q + 3.
  static constexpr __host__ __device__ int place(int c) {
    return (c & ~15) + (c >> 1 & 1) * 8 + (c >> 2 & 3) * 2 + (c & 1);
  }

private:
  using Step = ScoreStep<columns>;
  using Queries = SplitQueries<head_dim, 1>;
  using Sum = Fragment<columns>;
  using Panel = SwizzledTile<64>;
  static constexpr int panel_bytes = columns * Panel::row_bytes, part_bytes = head_dim / 64 * panel_bytes,
                       stage_bytes = 2 * part_bytes;  ///< high parts, low parts
  static constexpr int batches = head_dim / 16;

  __device__ __forceinline__ MaskScoresSm90(Params const& params, unsigned char* smem)
      : params_(params), keys_(shared_address(smem)), descriptor_(keys_, 0) {}

  __device__ __forceinline__ void run() {
    let_next_kernel_start();
    wait_for_kernel_before();
    ScoreRun const share(params_, columns);
    int const steps = share.end - share.first;
    if (steps == 0) return;
    Step at(params_, share.first, share.steps_of_tile), ahead = at, before = at;
#pragma unroll
    for (int i = 0; i < stages - 1; ++i) {
      if (i < steps) fetch(ahead, i);
      ahead.advance(params_);
      cp_async_commit();
    }
    Queries queries;
    float factor[2];  // of the queries of the step before
    Sum sum, part[2];
    int tile_held = -1;
    for (int step = 0; step < steps; ++step) {
      if (at.chunk_tile != tile_held) load(queries, at);
      tile_held = at.chunk_tile;
      cp_async_wait<stages - 2>();
      fence_shared_for_copies();
      __syncthreads();  // the step's keys are there for all, and those of the last step have been read
      if (step + stages - 1 < steps) fetch(ahead, (step + stages - 1) % stages);
      ahead.advance(params_);
      cp_async_commit();
      start_batch(part[0], queries, 0, step % stages);
      bool const finite = step == 0 || store(before, sum, factor);
      finish(queries, sum, part, step % stages);
      if (!finite) score_plainly(before);
      factor[0] = queries.back_factor[0][0], factor[1] = queries.back_factor[0][1];
      before = at;
      at.advance(params_);
    }
    if (!store(before, sum, factor)) score_plainly(before);
  }

  static __device__ __forceinline__ int warp_row() { return Queries::rows * warp_index(); }

  __device__ __forceinline__ void load(Queries& queries, Step const& at) const {
    std::int64_t const row = at.row + warp_row();
    queries.load(params_.pooled_q + (at.group * params_.group_rows + row) * head_dim,
                 static_cast<int>(params_.group_rows - row),
                 params_.key_size + std::int64_t{at.group} * head_dim, params_.scale);
  }

  /// Columns that do not exist are zeros.
  __device__ __forceinline__ void fetch(Step const& at, int stage) const {
    constexpr int line_chunks = 2 * head_dim / 8, lines = threads / line_chunks;
    int const chunk = static_cast<int>(threadIdx.x) % line_chunks,
              line = static_cast<int>(threadIdx.x) / line_chunks;
    std::uint16_t const* const from =
        params_.split_keys +
        (std::int64_t{at.group} * params_.kv_blocks + at.column + line) * (2 * head_dim) + chunk * 8;
    std::uint32_t const to = keys_ + stage * stage_bytes + chunk / 8 * panel_bytes;
    int const left = params_.kv_blocks - at.column - line;
#pragma unroll
    for (int i = 0; i < columns / lines; ++i)
      cp_async_16(to + Panel::offset(place(line + i * lines), chunk % 8), from + i * lines * 2 * head_dim,
                  i * lines < left);
  }

  /// Sums of products of 16 channels, the small ones first.
  __device__ __forceinline__ void start_batch(Sum& part, Queries const& queries, int batch, int stage) const {
    PanelDescriptor const high = descriptor_.advance(stage * stage_bytes + batch / 4 * panel_bytes +
                                                     batch % 4 * 32),
                          low = high.advance(part_bytes);
    wgmma_fence();
    wgmma_registers_k_major<float16>(part, queries.high[0][batch], low, false);
    wgmma_registers_k_major<float16>(part, queries.low[0][batch], high, true);
    wgmma_registers_k_major<float16>(part, queries.high[0][batch], high, true);
    wgmma_commit();
  }

  /// Makes the sums of a step whose first batch runs.
  __device__ __forceinline__ void finish(Queries const& queries, Sum& sum, Sum (&part)[2], int stage) const {
    sum.clear();
#pragma unroll
    for (int batch = 0; batch < batches; ++batch) {
      if (batch + 1 < batches) {
        start_batch(part[(batch + 1) % 2], queries, batch + 1, stage);
        wgmma_wait<1>();
      } else {
        wgmma_wait<0>();
      }
      Sum& ready = part[batch % 2];
      pin(ready);
#pragma unroll
      for (int j = 0; j < Sum::groups; ++j)
#pragma unroll
        for (int c = 0; c < 4; ++c) sum.value[j][c] += ready.value[j][c];
    }
  }

  __device__ __forceinline__ float* scores_of(Step const& at) const {
    return reinterpret_cast<float*>(params_.scores) + at.column +
           (std::int64_t{at.chunk_tile} * RowLayout::tile_rows + warp_row()) * params_.pitch;
  }

  /// Columns of the step that do not exist score NaN. Whether all scores of this lane are finite.
  __device__ __forceinline__ bool store(Step const& at, Sum const& sum, float const (&factor)[2]) const {
    if (at.row + warp_row() >= params_.group_rows) return true;
    float* const out = scores_of(at) + 4 * (lane_index() % 4);
    int const left = params_.kv_blocks - at.column - 4 * (lane_index() % 4);
    float const nan = __uint_as_float(0x7fffffff);
    float zero = 0;  // NaN as soon as 0 times anything is
#pragma unroll
    for (int r = 0; r < 2; ++r)
#pragma unroll
      for (int j = 0; j < Sum::groups; j += 2) {
        float score[4];
#pragma unroll
        for (int c = 0; c < 4; ++c) {
          score[c] = factor[r] * sum.at(r, j + c / 2, c % 2);
          zero = fmaf(score[c], 0.0f, zero);
          if (8 * j + c >= left) score[c] = nan;
        }
        *reinterpret_cast<float4*>(out + Sum::row(r) * params_.pitch + 8 * j) =
            make_float4(score[0], score[1], score[2], score[3]);
      }
    return zero == 0;
  }

  /// This lane's scores that are not finite, again.
  __device__ __forceinline__ void score_plainly(Step const& at) const {
    float const* const mean = params_.key_mean + std::int64_t{at.group} * head_dim;
#pragma unroll 1
    for (int i = 0; i < 4 * Sum::groups; ++i) {
      int const line = Sum::row(i / (2 * Sum::groups)),
                line_column = i / 4 % (Sum::groups / 2) * 16 + 4 * (lane_index() % 4) + i % 4;
      std::int64_t const row = at.row + warp_row() + line, column = at.column + line_column;
      float* const score = scores_of(at) + line * params_.pitch + line_column;
      if (row >= params_.group_rows || column >= params_.kv_blocks || fabsf(*score) < infinity()) continue;
      *score =
          plain_score(params_.pooled_q + (at.group * params_.group_rows + row) * head_dim,
                      params_.pooled_k + (at.group * std::int64_t{params_.kv_blocks} + column) * head_dim,
                      mean, head_dim, params_.scale);
    }
  }

  Params const& params_;
  std::uint32_t keys_;
  PanelDescriptor descriptor_;
};

}  // namespace sparge
