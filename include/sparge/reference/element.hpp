#pragma once
/// Elements as real numbers, and indices into views and bit masks.

#include <cstdint>

#include "sparge/core/element.hpp"
#include "sparge/core/mask_view.hpp"
#include "sparge/core/problem.hpp"
#include "sparge/core/tensor_view.hpp"

namespace sparge::reference {

inline float to_float(bfloat16 x) { return __bfloat162float(x); }
inline float to_float(float16 x) { return __half2float(x); }
inline float to_float(float x) { return x; }
inline double to_double(bfloat16 x) { return to_float(x); }
inline double to_double(float16 x) { return to_float(x); }
inline double to_double(float x) { return x; }
inline double to_double(double x) { return x; }

/// The nearest T, ties to even.
template <class T>
T round_to(float x);
template <>
inline bfloat16 round_to<bfloat16>(float x) {
  return __float2bfloat16(x);
}
template <>
inline float16 round_to<float16>(float x) {
  return __float2half(x);
}
template <>
inline float round_to<float>(float x) {
  return x;
}

/// The channels of one token.
template <class T>
T* token_row(TensorView<T> const& view, std::int64_t batch, std::int64_t head, std::int64_t token) {
  return view.data + batch * view.stride[0] + head * view.stride[1] + token * view.stride[2];
}

/// The bits of one query block of one (batch, query head).
template <class Word>
Word* mask_row(AttentionProblem const& p, MaskBits<Word> const& mask, std::int64_t batch, std::int64_t head,
               std::int64_t q_block) {
  return mask.data + ((batch * p.heads + head) * p.q_blocks() + q_block) * p.row_words();
}

inline bool keeps(std::uint32_t const* row, std::int64_t kv_block) {
  return row[kv_block / 32] >> (kv_block % 32) & 1;
}

/// The kv head that a query head reads.
inline std::int64_t kv_head_of(AttentionProblem const& p, std::int64_t head) {
  return head / (p.heads / p.kv_heads);
}

/// Length of `MaskBits` for a problem.
inline std::size_t mask_words(AttentionProblem const& p) {
  return static_cast<std::size_t>(p.batch * p.heads * p.q_blocks() * p.row_words());
}

/// Half-open range of tokens.
struct TokenRange {
  std::int64_t begin, end;
  std::int64_t size() const { return end - begin; }
};

inline TokenRange block_tokens(std::int64_t block, std::int64_t block_size, std::int64_t tokens) {
  std::int64_t const begin = block * block_size;
  return {begin, begin + block_size < tokens ? begin + block_size : tokens};
}

}  // namespace sparge::reference
