#pragma once
/// What the backward kernels are told of their problem.

#include <cstdint>

#include "sparge/core/tensor_view.hpp"
#include "sparge/plan/schedule.hpp"

namespace sparge {

/// For what both passes need of every query row.
template <class T>
struct BackwardDeltaParams {
  TensorView<T const> out, grad_out;
  float const* lse = nullptr;       ///< [batch, heads, q_tokens]
  float const* grad_lse = nullptr;  ///< likewise, or null for zeros
  float* delta = nullptr;           ///< out, [batch, heads, padded_rows]
  float* row_lse = nullptr;  ///< out, likewise: lse, with +inf where a row keeps no key and past the last row
  std::int64_t heads = 0, all_heads = 0;
  std::int32_t q_tokens = 0, padded_rows = 0, head_dim = 0;
};

/// For either pass.
template <class T>
struct BackwardParams {
  TensorView<T const> q, k, v, grad_out;
  TensorView<T> grad_q, grad_k, grad_v;
  float const* delta = nullptr;         ///< [batch, heads, padded_rows]
  float const* row_lse = nullptr;       ///< likewise, natural logarithm
  std::uint32_t const* mask = nullptr;  ///< [batch, heads, q_blocks, row_words]
  float scale = 0;
  std::int32_t q_tokens = 0, kv_tokens = 0, padded_rows = 0;
  std::int32_t q_blocks = 0, kv_blocks = 0, row_words = 0;
  std::int32_t heads = 0, kv_heads = 0, heads_per_kv_head = 0;
  std::int32_t q_tiles = 0, kv_tiles = 0, q_tiles_per_block = 0,
               kv_tiles_per_block = 0;  ///< of the pass's row
  std::uint32_t all_tiles = 0;          ///< of all heads, of the axis that the pass writes
  Schedule schedule = {};               ///< sm90a: the order of work
};

}  // namespace sparge
