#pragma once
/// What is computed, as shapes alone.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace sparge {

enum class TokenOrder : std::int32_t {
  none,                 ///< every query may attend to every key
  causal_bottom_right,  ///< key j <= i + kv_tokens - q_tokens; not built yet, refused by name
};

/// Shapes and nothing else: comparable and hashable, the key of a caller's plan cache.
///
/// Query head h reads kv head h / (heads / kv_heads). A mask block is `q_block` query tokens by `kv_block` key tokens and
/// means the same on every GPU; the last block of either axis may be partial. batch, q_tokens and kv_tokens may be 0.
///
/// A shard of queries of a larger problem, against all of its keys, says where it lies by q_offset and all_q_tokens, so that the
/// keep rule sees positions in the whole problem and the shard's mask is the whole mask's rows. They have no effect on anything
/// else. A shard of keys needs no position: its mask is cut from the whole one by slice_mask().
struct AttentionProblem {
  std::int64_t batch = 0, heads = 0, kv_heads = 0, q_tokens = 0, kv_tokens = 0;
  std::int32_t head_dim = 0;
  std::int32_t q_block = 128, kv_block = 64;
  float scale = 0;  ///< of the logits; 0 = 1 / sqrt(head_dim), else finite and > 0
  TokenOrder order = TokenOrder::none;
  std::int64_t q_offset = 0;      ///< queries of the whole problem before these; a multiple of q_block
  std::int64_t all_q_tokens = 0;  ///< queries of the whole problem; 0 = q_offset + q_tokens

  constexpr std::int64_t q_blocks() const { return (q_tokens + q_block - 1) / q_block; }
  constexpr std::int64_t kv_blocks() const { return (kv_tokens + kv_block - 1) / kv_block; }
  /// Queries of the whole problem that this one is, or is a shard of.
  constexpr std::int64_t whole_q_tokens() const {
    return all_q_tokens != 0 ? all_q_tokens : q_offset + q_tokens;
  }
  /// 32-bit words of one mask row.
  constexpr std::int64_t row_words() const { return (kv_blocks() + 31) / 32; }
  /// The scale in effect.
  float logit_scale() const { return scale != 0 ? scale : 1.0f / std::sqrt(static_cast<float>(head_dim)); }
};

constexpr bool operator==(AttentionProblem const& a, AttentionProblem const& b) {
  return a.batch == b.batch && a.heads == b.heads && a.kv_heads == b.kv_heads && a.q_tokens == b.q_tokens &&
         a.kv_tokens == b.kv_tokens && a.head_dim == b.head_dim && a.q_block == b.q_block &&
         a.kv_block == b.kv_block && a.scale == b.scale && a.order == b.order && a.q_offset == b.q_offset &&
         a.all_q_tokens == b.all_q_tokens;
}
constexpr bool operator!=(AttentionProblem const& a, AttentionProblem const& b) { return !(a == b); }

}  // namespace sparge

template <>
struct std::hash<sparge::AttentionProblem> {
  std::size_t operator()(sparge::AttentionProblem const& p) const noexcept {
    std::size_t seed = std::hash<float>{}(p.scale);
    for (std::int64_t value : {p.batch, p.heads, p.kv_heads, p.q_tokens, p.kv_tokens, p.q_offset,
                               p.all_q_tokens, std::int64_t{p.head_dim}, std::int64_t{p.q_block},
                               std::int64_t{p.kv_block}, static_cast<std::int64_t>(p.order)})
      seed ^= std::hash<std::int64_t>{}(value) + 0x9e3779b97f4a7c15ull + (seed << 6) + (seed >> 2);
    return seed;
  }
};
