#pragma once
/// What the forward kernel is given, and its launch. Host code sees only this.

#include <driver_types.h>

#include <cstdint>
#include <type_traits>

#include "sparge/core/element.hpp"
#include "sparge/core/mask_view.hpp"
#include "sparge/core/status.hpp"
#include "sparge/core/tensor_view.hpp"
#include "sparge/plan/forward_config.hpp"

namespace sparge {

template <class T>
struct ForwardParams {
  TensorView<T const> q, k, v;
  TensorView<T> out;
  float* lse = nullptr;                 ///< [batch, heads, q_tokens] or null
  std::uint32_t const* mask = nullptr;  ///< [batch, heads, q_blocks, row_words]
  float scale_log2 = 0;                 ///< logit scale times log2(e)
  std::int32_t q_tokens = 0, kv_tokens = 0;
  std::int32_t q_tiles = 0, q_blocks = 0, kv_blocks = 0, row_words = 0;
  std::int32_t heads = 0, heads_per_kv_head = 0;
  std::int32_t q_tiles_per_block = 0, kv_tiles_per_block = 0;
  std::uint32_t all_tiles = 0;            ///< sm90a: query tiles of all heads
  std::uint32_t* tile_counter = nullptr;  ///< sm90a: in the workspace
};

template <int row>
using row_element = std::conditional_t<forward_table[row].dtype == ElementType::bf16, bfloat16, float16>;

/// Enqueues row `row` of the table over `blocks` thread blocks. Defined in kernel/forward.cuh, one instance a translation unit.
template <int row>
Status launch_forward(ForwardParams<row_element<row>> const& params, std::int64_t blocks,
                      cudaStream_t stream) noexcept;

}  // namespace sparge
