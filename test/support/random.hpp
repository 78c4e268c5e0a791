#pragma once
/// Seeded inputs that are the same bits on every platform: own generator, no transcendental function.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "sparge/core/mask_view.hpp"
#include "sparge/core/problem.hpp"
#include "sparge/reference/element.hpp"
#include "sparge/reference/query_rows.hpp"
#include "support/host_tensor.hpp"

namespace sparge::test {

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
  /// In [0, 1).
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }
  /// In [0, n).
  std::int64_t below(std::int64_t n) {
    return static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(n));
  }
  bool chance(double probability) { return uniform() < probability; }
  /// Mean 0, variance 1, within +-6: the sum of twelve uniforms.
  double gaussian() {
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += uniform();
    return sum;
  }

private:
  std::uint64_t state_;
};

// ---- Tensors -------------------------------------------------------------------------------------------------------

template <class T>
void set(HostTensor<T>& x, std::int64_t b, std::int64_t h, std::int64_t n, std::int64_t c, double value) {
  x.at(b, h, n, c) = reference::round_to<T>(static_cast<float>(value));
}

/// Every element from value(batch, head, token, channel).
template <class T, class Value>
void fill(HostTensor<T>& x, Value value) {
  x.for_each_index([&](auto... index) { set(x, index..., value(index...)); });
}

template <class T>
void fill_constant(HostTensor<T>& x, double constant) {
  fill(x, [&](auto...) { return constant; });
}

template <class T>
void fill_gaussian(HostTensor<T>& x, Random& random, double sigma = 1, double mean = 0) {
  fill(x, [&](auto...) { return mean + sigma * random.gaussian(); });
}

/// What real activations have: five channels 20 times larger, one token in a hundred 10 times larger, and an offset
/// common to all tokens of a head.
template <class T>
void fill_heavy_tailed(HostTensor<T>& x, Random& random) {
  Shape const s = x.shape();
  std::vector<double> channel_scale(s[3], 1.0), offset(s[1] * s[3]);
  for (int i = 0; i < 5; ++i) channel_scale[random.below(s[3])] = 20;
  for (double& o : offset) o = random.gaussian();
  std::vector<double> token_scale(s[2], 1.0);
  for (double& t : token_scale) t = random.chance(0.01) ? 10 : 1;
  fill(x, [&](auto, auto h, auto n, auto c) {
    return 0.2 * channel_scale[c] * token_scale[n] * (random.gaussian() + offset[h * s[3] + c]);
  });
}

/// Gaussian around a vector that all tokens of a head share, `strength` times as large: near ties in f32.
template <class T>
void fill_common_offset(HostTensor<T>& x, Random& random, double strength = 10) {
  Shape const s = x.shape();
  std::vector<double> offset(s[0] * s[1] * s[3]);
  for (double& o : offset) o = strength * random.gaussian();
  fill(x,
       [&](auto b, auto h, auto, auto c) { return random.gaussian() + offset[(b * s[1] + h) * s[3] + c]; });
}

/// Runs of tokens around shared centres, the structure that makes masks sparse: 64 centres a head, each run of
/// `run` tokens draws one; k = centre + noise, q = 2 centre + noise.
template <class T>
void fill_clustered(HostTensor<T>& q, HostTensor<T>& k, Random& random, std::int64_t run = 256) {
  std::int64_t const centres = 64, heads = k.shape()[1], channels = k.shape()[3];
  std::int64_t const heads_per_kv_head = q.shape()[1] / heads;
  std::vector<double> centre(heads * centres * channels);
  for (double& c : centre) c = random.gaussian();
  std::uint64_t const seed = random.next();
  auto const centre_of = [&](auto b, auto kv_head, auto n, auto c) {
    Random draw(seed ^ static_cast<std::uint64_t>((b * heads + kv_head) * 0x100000 + n / run));
    return centre[(kv_head * centres + draw.below(centres)) * channels + c];
  };
  fill(k, [&](auto b, auto h, auto n, auto c) { return centre_of(b, h, n, c) + random.gaussian(); });
  fill(q, [&](auto b, auto h, auto n, auto c) {
    return 2 * centre_of(b, h / heads_per_kv_head, n, c) + random.gaussian();
  });
}

/// Each token is one value in all its channels.
template <class T>
void fill_constant_rows(HostTensor<T>& x, Random& random) {
  double row = 0;
  fill(x, [&](auto, auto, auto, auto c) { return c == 0 ? row = random.gaussian() : row; });
}

/// Queries and keys whose scaled logits are near `sign` * 1e6 at head_dim 128: 300 in every channel, opposite signs
/// for negative logits, and noise that makes a winner.
template <class T>
void fill_huge_logits(HostTensor<T>& q, HostTensor<T>& k, Random& random, double sign) {
  fill(q, [&](auto...) { return 300 + 2 * random.gaussian(); });
  fill(k, [&](auto...) { return sign * (300 + 2 * random.gaussian()); });
}

// ---- Masks ---------------------------------------------------------------------------------------------------------

using MaskWords = std::vector<std::uint32_t>;

inline MaskView view_of(MaskWords const& words) { return {words.data(), words.size()}; }

/// One bit per block pair from keep(batch, head, q_block, kv_block); padding bits zero.
template <class Keep>
MaskWords make_mask(AttentionProblem const& p, Keep keep) {
  MaskWords words(reference::mask_words(p), 0);
  for (std::int64_t b = 0; b < p.batch; ++b)
    for (std::int64_t h = 0; h < p.heads; ++h)
      for (std::int64_t i = 0; i < p.q_blocks(); ++i) {
        std::uint32_t* const row = reference::mask_row(p, MaskOut{words.data(), words.size()}, b, h, i);
        for (std::int64_t j = 0; j < p.kv_blocks(); ++j)
          if (keep(b, h, i, j)) row[j / 32] |= 1u << (j % 32);
      }
  return words;
}

inline MaskWords full_mask(AttentionProblem const& p) {
  return make_mask(p, [](auto...) { return true; });
}

/// Each pair kept by chance: rows of near equal length.
inline MaskWords random_mask(AttentionProblem const& p, Random& random, double density) {
  return make_mask(p, [&](auto...) { return random.chance(density); });
}

/// Row lengths that differ as much as they can between neighbours: 0, 1, all, 2, all but one, then a random length.
inline MaskWords uneven_mask(AttentionProblem const& p, Random& random) {
  std::int64_t const all = p.kv_blocks();
  std::int64_t row = 0, wanted = 0, left = 0;
  return make_mask(p, [&](auto, auto, auto, std::int64_t j) {
    if (j == 0) {
      std::int64_t const lengths[] = {0, 1, all, 2, all - 1, random.below(all + 1)};
      wanted = std::min(std::max<std::int64_t>(lengths[row++ % 6], 0), all);
      left = all;
    }
    bool const keep = random.below(left) < wanted;  // each choice of `wanted` blocks equally likely
    --left;
    wanted -= keep;
    return keep;
  });
}

/// Clears some whole rows, at least one where there is a row.
inline void clear_some_rows(AttentionProblem const& p, MaskWords& words, Random& random) {
  std::int64_t const rows = p.batch * p.heads * p.q_blocks();
  for (std::int64_t count = 0; count < rows; count += 4) {
    std::int64_t const row = random.below(rows);
    for (std::int64_t w = 0; w < p.row_words(); ++w) words[row * p.row_words() + w] = 0;
  }
}

/// Sets every padding bit: readers must not see them.
inline void dirty_padding(AttentionProblem const& p, MaskWords& words) {
  std::int64_t const used = p.kv_blocks() % 32;
  if (used == 0) return;
  for (std::size_t last = p.row_words() - 1; last < words.size(); last += p.row_words())
    words[last] |= ~0u << used;
}

inline std::int64_t count_kept(MaskWords const& words) {
  std::int64_t kept = 0;
  for (std::uint32_t word : words)
    for (; word != 0; word &= word - 1) ++kept;
  return kept;
}

// ---- Rows ----------------------------------------------------------------------------------------------------------

/// Rows to check where all would take too long: the first and last of the tensor, and random ones.
inline std::vector<reference::QueryRow> sample_rows(AttentionProblem const& p, Random& random,
                                                    std::int64_t count) {
  std::vector<reference::QueryRow> rows{{0, 0, 0}, {p.batch - 1, p.heads - 1, p.q_tokens - 1}};
  while (static_cast<std::int64_t>(rows.size()) < count)
    rows.push_back({random.below(p.batch), random.below(p.heads), random.below(p.q_tokens)});
  return rows;
}

}  // namespace sparge::test
