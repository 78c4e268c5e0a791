#pragma once
/// What the pooling and mask kernels are given, and their launches. Host code sees only this.

#include <driver_types.h>

#include <cstdint>

#include "sparge/core/mask_rule.hpp"
#include "sparge/core/mask_view.hpp"
#include "sparge/core/tensor_view.hpp"
#include "sparge/plan/mask_config.hpp"

namespace sparge {

// ---- Pooling -------------------------------------------------------------------------------------------------------

/// One tensor to pool.
template <class T>
struct PoolInput {
  TensorView<T const> x;
  float* pooled = nullptr;  ///< [batch, heads, blocks, head_dim]
  std::int32_t block_tokens = 0;
  std::int64_t blocks = 0;  ///< of one head

  std::int64_t all_blocks() const { return x.shape[0] * x.shape[1] * blocks; }
  std::int64_t bytes() const {
    return x.shape[0] * x.shape[1] * x.shape[2] * x.shape[3] * static_cast<std::int64_t>(sizeof(T));
  }
};

template <class T>
struct PoolParams {
  PoolInput<T> q, k;
  std::int64_t q_blocks = 0, k_blocks = 0;  ///< of all heads
  bool streams = false;  ///< Q and K exceed the L2 cache: nothing of them is worth keeping there
};

/// Enqueues pooling of q and of k as one kernel. Defined in kernel/pool.cuh; T is bfloat16 or float16.
template <class T>
cudaError_t launch_pool(PoolParams<T> const& params, std::int32_t head_dim, cudaStream_t stream) noexcept;

/// Warps of a thread block of pooling: each takes one block of tokens.
inline constexpr std::int32_t pool_warps = 4;

// ---- Scores --------------------------------------------------------------------------------------------------------

struct MaskKeysParams {
  float const* pooled_k = nullptr;  ///< [batch, kv_heads, kv_blocks, head_dim]
  KeySum* sums = nullptr;           ///< scratch, [batch, kv_heads, segments, head_dim]
  float* key_mean = nullptr;        ///< out, [batch, kv_heads, head_dim]
  float* key_size = nullptr;  ///< out, [batch, kv_heads, head_dim]: a power of two, see launch_mask_keys
  std::uint16_t* split_keys =
      nullptr;  ///< out, [batch, kv_heads, kv_blocks, 2, head_dim]: high and low parts, f16
  std::int32_t kv_blocks = 0, head_dim = 0;
  std::int32_t segments = 0, segment_blocks = 0;  ///< of one head
  bool code_is_90a = false;                       ///< see MaskScoresParams
};

/// Enqueues two kernels: the mean of the keys and, for each channel, the largest power of two that is at most the largest
/// |key - mean|; and the keys less their mean, scaled by those powers and split into two f16 values.
cudaError_t launch_mask_keys(MaskKeysParams const& params, std::int64_t kv_heads,
                             cudaStream_t stream) noexcept;

/// A run of row tiles, see RowLayout.
struct RowChunk {
  std::int64_t first_tile = 0, tiles = 0;
};

struct MaskScoresParams {
  float const* pooled_q = nullptr;            ///< [batch, heads, q_blocks, head_dim]
  float const* pooled_k = nullptr;            ///< [batch, kv_heads, kv_blocks, head_dim]
  float const* key_mean = nullptr;            ///< [batch, kv_heads, head_dim]
  float const* key_size = nullptr;            ///< [batch, kv_heads, head_dim]
  std::uint16_t const* split_keys = nullptr;  ///< [batch, kv_heads, kv_blocks, 2, head_dim]
  std::uint32_t* scores =
      nullptr;  ///< out, [chunk rows, pitch], bits of f32; NaN up to the end of a row's last step
  RowChunk chunk;
  std::int64_t group_rows = 0, group_tiles = 0, pitch = 0;
  std::int32_t kv_blocks = 0, head_dim = 0;
  std::int32_t sm_count = 0;  ///< of the device
  /// Whether the device runs code for 9.0a, which is never translated: it has wgmma, and waits where a kernel started early.
  bool code_is_90a = false;
  float scale = 0;
};

cudaError_t launch_mask_scores(MaskScoresParams const& params, cudaStream_t stream) noexcept;

// ---- Rows ----------------------------------------------------------------------------------------------------------

/// What a kernel over scored rows needs to know.
struct MaskRowsParams {
  std::uint32_t* scores = nullptr;  ///< [chunk rows, pitch]; replaced by ranking keys where `mass` is given
  std::uint32_t* mass = nullptr;    ///< [chunk rows, pitch], or null where ranked rows live in shared memory
  RowChunk chunk;
  std::int64_t group_rows = 0, group_tiles = 0, pitch = 0;
  std::int64_t heads = 0, q_blocks = 0;
  std::int32_t kv_blocks = 0, row_words = 0;
  MaskRule rule;
};

/// The keep rule counts query blocks and tokens in the whole problem: block i here is block first_q_block + i there.
struct MaskSelectParams {
  MaskRowsParams rows;
  std::int64_t whole_q_tokens = 0, kv_tokens = 0, first_q_block = 0;
  std::int32_t q_block = 0, kv_block = 0;
  std::uint32_t* mask = nullptr;  ///< out, [batch, heads, q_blocks, row_words]
  bool code_is_90a = false;       ///< see MaskScoresParams
};

cudaError_t launch_mask_select(MaskSelectParams const& params, RowLayout const& layout,
                               cudaStream_t stream) noexcept;

struct MaskRowStatsParams {
  MaskRowsParams rows;
  std::uint32_t const* mask = nullptr;  ///< [batch, heads, q_blocks, row_words]
  RowStats* stats = nullptr;            ///< out, [batch, heads, q_blocks]
};

cudaError_t launch_mask_row_stats(MaskRowStatsParams const& params, RowLayout const& layout,
                                  cudaStream_t stream) noexcept;

struct MaskStatsSumParams {
  RowStats const* rows = nullptr;  ///< [batch * heads, rows_per_head]
  MaskStats* stats = nullptr;      ///< out, [batch * heads]
  std::int64_t rows_per_head = 0, kv_blocks = 0;
};

cudaError_t launch_mask_stats_sum(MaskStatsSumParams const& params, std::int64_t heads,
                                  cudaStream_t stream) noexcept;

// ---- Forms of a mask -----------------------------------------------------------------------------------------------

struct MaskTransposeParams {
  std::uint32_t const* mask = nullptr;                  ///< [heads, q_blocks, row_words]
  std::uint32_t* transposed = nullptr;                  ///< out, [heads, kv_blocks, column_words]
  std::int64_t heads = 0, q_blocks = 0, kv_blocks = 0;  ///< heads of all batch items
  std::int64_t row_words = 0, column_words = 0;
};

cudaError_t launch_mask_transpose(MaskTransposeParams const& params, cudaStream_t stream) noexcept;

/// One mask row and its other forms. Which pointers are read and written depends on the launch.
struct MaskFormParams {
  std::int64_t rows = 0;  ///< batch * heads * q_blocks
  std::int64_t kv_blocks = 0, row_words = 0;
};

cudaError_t launch_mask_to_bytes(MaskFormParams const& params, std::uint32_t const* mask, std::uint8_t* bytes,
                                 cudaStream_t stream) noexcept;
cudaError_t launch_mask_from_bytes(MaskFormParams const& params, std::uint8_t const* bytes,
                                   std::uint32_t* mask, cudaStream_t stream) noexcept;
cudaError_t launch_mask_to_lists(MaskFormParams const& params, std::uint32_t const* mask, BlockListsOut lists,
                                 cudaStream_t stream) noexcept;
cudaError_t launch_mask_from_lists(MaskFormParams const& params, BlockListsView lists, std::uint32_t* mask,
                                   cudaStream_t stream) noexcept;

struct MaskSliceParams {
  std::uint32_t const* mask = nullptr;  ///< [heads, q_blocks, row_words]
  std::uint32_t* shard = nullptr;       ///< out, [heads, q.count, shard_words]
  std::int64_t heads = 0;               ///< of all batch items
  std::int64_t q_blocks = 0, row_words = 0, shard_words = 0;
  BlockRange q, kv;
};

cudaError_t launch_mask_slice(MaskSliceParams const& params, cudaStream_t stream) noexcept;

/// Threads of a thread block of slicing: each makes one word.
inline constexpr std::int32_t slice_threads = 256;

/// Warps of a thread block of transposing and of conversions: each takes a bit tile, a word, or a row.
inline constexpr std::int32_t form_warps = 8;

}  // namespace sparge
