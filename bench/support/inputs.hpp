#pragma once
/// Seeded inputs made on the device, and random block masks made on the host.

#include <driver_types.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include "sparge/core/element.hpp"
#include "sparge/core/problem.hpp"

namespace sparge::bench {

/// Fills x with N(0, 1). T is bfloat16, float16 or float.
template <class T>
void fill_normal(T* x, std::int64_t count, std::uint64_t seed, cudaStream_t stream);

/// Tokens that look alike in runs, as patches of a video do: x = weight * centre + N(0, 1). A head has 64 centres
/// c ~ N(0, 1) and each run of 256 tokens draws one of them; `cluster_seed` decides both, so that queries and keys made
/// with the same one share them. x is contiguous [batch * heads, tokens, head_dim].
struct Clusters {
  std::int64_t tokens = 0;
  std::int32_t head_dim = 0;
  float weight = 1;
  std::uint64_t cluster_seed = 0, noise_seed = 0;
};

template <class T>
void fill_clustered(T* x, std::int64_t heads, Clusters const& clusters, cudaStream_t stream);

/// splitmix64 (Steele, Lea, Flood 2014).
class Random {
public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15ull;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
  }
  /// In [0, n), for n far below 2^32.
  std::int64_t below(std::int64_t n) {
    return static_cast<std::int64_t>((next() >> 32) * static_cast<std::uint64_t>(n) >> 32);
  }

private:
  std::uint64_t state_;
};

/// A block mask on the host and how much it keeps.
struct HostMask {
  std::vector<std::uint32_t> words;
  std::int64_t kept_pairs = 0;        ///< block pairs
  std::int64_t kept_token_pairs = 0;  ///< token pairs: the last block of an axis counts only its tokens

  double density(AttentionProblem const& p) const {
    return static_cast<double>(kept_pairs) /
           static_cast<double>(p.batch * p.heads * p.q_blocks() * p.kv_blocks());
  }
};

/// Keeps ceil(share * kv_blocks) random key blocks in every row.
inline HostMask random_mask(AttentionProblem const& p, double share, std::uint64_t seed) {
  std::int64_t const blocks = p.kv_blocks(), row_words = p.row_words();
  std::int64_t const rows = p.batch * p.heads * p.q_blocks();
  auto const kept =
      std::min(blocks, static_cast<std::int64_t>(std::ceil(share * static_cast<double>(blocks) - 1e-9)));
  HostMask mask;
  mask.words.assign(static_cast<std::size_t>(rows * row_words), 0);
  std::vector<std::int64_t> order(static_cast<std::size_t>(blocks));
  std::iota(order.begin(), order.end(), 0);
  Random random(seed);
  for (std::int64_t row = 0; row < rows; ++row) {
    std::int64_t const q_block = row % p.q_blocks();
    std::int64_t const q_tokens = std::min<std::int64_t>(p.q_block, p.q_tokens - q_block * p.q_block);
    for (std::int64_t i = 0; i < kept; ++i) {
      std::swap(order[i], order[i + random.below(blocks - i)]);
      std::int64_t const j = order[i];
      mask.words[row * row_words + j / 32] |= std::uint32_t{1} << (j % 32);
      mask.kept_token_pairs += q_tokens * std::min<std::int64_t>(p.kv_block, p.kv_tokens - j * p.kv_block);
    }
    mask.kept_pairs += kept;
  }
  return mask;
}

/// Bits set in a mask whose rows are padded with zeros.
inline std::int64_t kept_pairs(std::vector<std::uint32_t> const& words) {
  std::int64_t kept = 0;
  for (std::uint32_t word : words) kept += __builtin_popcount(word);
  return kept;
}

}  // namespace sparge::bench
