#pragma once
/// What a forward kernel is told of its problem.

#include <cstdint>

#include "sparge/core/tensor_view.hpp"
#include "sparge/plan/schedule.hpp"

namespace sparge {

/// log2 of a row's sum of exponentials in two parts, so that those of rows with huge logits can be told apart.
struct RowWeight {
  float reference;  ///< log2 of what the exponentials are multiples of
  float rest;       ///< log2 of their sum in those units
};

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
  std::uint32_t all_tiles = 0;    ///< sm90a: query tiles of all heads
  std::uint32_t first_tiles = 0;  ///< sm90a: of these, what workers may start with before the order is known
  std::int32_t workers = 0;       ///< sm90a: what the order is made for
  Schedule schedule = {};         ///< sm90a: in the workspace. A slot holds O, then RowWeight
};

}  // namespace sparge
