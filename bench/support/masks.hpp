#pragma once
/// Seeded block masks made on the host, and even masks of equal work to set uneven ones against.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "sparge/core/problem.hpp"
#include "support/inputs.hpp"

namespace sparge::bench {

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

/// Bits set in a mask whose rows are padded with zeros.
inline std::int64_t kept_pairs(std::vector<std::uint32_t> const& words) {
  std::int64_t kept = 0;
  for (std::uint32_t word : words) kept += __builtin_popcount(word);
  return kept;
}

/// Counts what the words keep.
inline HostMask counted(AttentionProblem const& p, std::vector<std::uint32_t> words) {
  HostMask mask;
  mask.words = std::move(words);
  mask.kept_pairs = kept_pairs(mask.words);
  std::int64_t const row_words = p.row_words(), last = p.kv_blocks() - 1;
  std::int64_t const missing = p.kv_blocks() * p.kv_block - p.kv_tokens;  // of the last key block
  for (std::int64_t row = 0; row < p.batch * p.heads * p.q_blocks(); ++row) {
    std::uint32_t const* const of_row = mask.words.data() + row * row_words;
    std::int64_t kept = 0;
    for (std::int64_t w = 0; w < row_words; ++w) kept += __builtin_popcount(of_row[w]);
    std::int64_t const keys = kept * p.kv_block - (of_row[last / 32] >> (last % 32) & 1u) * missing;
    std::int64_t const q_block = row % p.q_blocks();
    mask.kept_token_pairs += keys * std::min<std::int64_t>(p.q_block, p.q_tokens - q_block * p.q_block);
  }
  return mask;
}

/// A mask in the making. Rows are numbered over batch, heads and query blocks.
class MaskDraft {
public:
  MaskDraft(AttentionProblem const& p, std::uint64_t seed)
      : random(seed), problem_(p), order_(static_cast<std::size_t>(p.kv_blocks())) {
    words_.assign(static_cast<std::size_t>(rows() * p.row_words()), 0);
    std::iota(order_.begin(), order_.end(), 0);
  }

  std::int64_t rows() const { return problem_.batch * problem_.heads * problem_.q_blocks(); }
  void keep(std::int64_t row, std::int64_t kv_block) {
    words_[row * problem_.row_words() + kv_block / 32] |= std::uint32_t{1} << (kv_block % 32);
  }
  bool keeps(std::int64_t row, std::int64_t kv_block) const {
    return words_[row * problem_.row_words() + kv_block / 32] >> (kv_block % 32) & 1u;
  }
  void keep_row(std::int64_t row) {
    for (std::int64_t j = 0; j < problem_.kv_blocks(); ++j) keep(row, j);
  }
  /// Random key blocks, `count` more of those that the row does not keep yet.
  void keep_random(std::int64_t row, std::int64_t count) {
    auto const blocks = static_cast<std::int64_t>(order_.size());
    for (std::int64_t i = 0; i < blocks && count > 0; ++i) {
      std::swap(order_[i], order_[i + random.below(blocks - i)]);
      if (keeps(row, order_[i])) continue;
      keep(row, order_[i]);
      --count;
    }
  }
  HostMask finish() { return counted(problem_, std::move(words_)); }

  Random random;

private:
  AttentionProblem problem_;
  std::vector<std::int64_t> order_;
  std::vector<std::uint32_t> words_;
};

/// ceil(share * kv_blocks), whatever the rounding of the share.
inline std::int64_t keep_count(AttentionProblem const& p, double share) {
  return std::min(p.kv_blocks(),
                  static_cast<std::int64_t>(std::ceil(share * static_cast<double>(p.kv_blocks()) - 1e-9)));
}

/// Keeps ceil(share * kv_blocks) random key blocks in every row.
inline HostMask random_mask(AttentionProblem const& p, double share, std::uint64_t seed) {
  MaskDraft draft(p, seed);
  for (std::int64_t row = 0; row < draft.rows(); ++row) draft.keep_random(row, keep_count(p, share));
  return draft.finish();
}

/// Random key blocks, their number uniform in 2..20 % of all, row by row.
inline HostMask uneven_mask(AttentionProblem const& p, std::uint64_t seed) {
  auto const blocks = static_cast<double>(p.kv_blocks());
  std::int64_t const least = std::max<std::int64_t>(1, keep_count(p, 0.02));
  auto const most = std::max(least, static_cast<std::int64_t>(std::floor(0.20 * blocks + 1e-9)));
  MaskDraft draft(p, seed);
  for (std::int64_t row = 0; row < draft.rows(); ++row)
    draft.keep_random(row, least + draft.random.below(most - least + 1));
  return draft.finish();
}

/// Several different numbers below n.
inline std::vector<std::int64_t> drawn(Random& random, std::int64_t count, std::int64_t n) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(n));
  std::iota(all.begin(), all.end(), 0);
  count = std::min(count, n);
  for (std::int64_t i = 0; i < count; ++i) std::swap(all[i], all[i + random.below(n - i)]);
  all.resize(static_cast<std::size_t>(count));
  return all;
}

/// 5 % in every row, and whole rows and columns of each head on top, at random places.
inline HostMask lines_mask(AttentionProblem const& p, std::int64_t rows, std::int64_t columns,
                           std::uint64_t seed) {
  MaskDraft draft(p, seed);
  for (std::int64_t row = 0; row < draft.rows(); ++row) draft.keep_random(row, keep_count(p, 0.05));
  for (std::int64_t first = 0; first < draft.rows(); first += p.q_blocks()) {
    for (std::int64_t i : drawn(draft.random, rows, p.q_blocks())) draft.keep_row(first + i);
    for (std::int64_t j : drawn(draft.random, columns, p.kv_blocks()))
      for (std::int64_t i = 0; i < p.q_blocks(); ++i) draft.keep(first + i, j);
  }
  return draft.finish();
}

/// 5 % in every row: half of it next to the diagonal, a quarter random for eight rows together, the rest for each alone.
inline HostMask band_mask(AttentionProblem const& p, std::uint64_t seed) {
  constexpr std::int64_t alike_rows = 8;
  std::int64_t const count = keep_count(p, 0.05), near = count / 2, together = count / 4;
  std::vector<std::int64_t> common;
  MaskDraft draft(p, seed);
  for (std::int64_t row = 0; row < draft.rows(); ++row) {
    std::int64_t const i = row % p.q_blocks();
    std::int64_t const centre = (i * p.q_block + p.q_block / 2) / p.kv_block;
    std::int64_t const first = std::clamp<std::int64_t>(centre - near / 2, 0, p.kv_blocks() - near);
    for (std::int64_t j = first; j < first + near; ++j) draft.keep(row, j);
    if (i % alike_rows == 0) common = drawn(draft.random, together, p.kv_blocks());
    std::int64_t kept = near;
    for (std::int64_t j : common) {
      kept += !draft.keeps(row, j);
      draft.keep(row, j);
    }
    draft.keep_random(row, count - kept);
  }
  return draft.finish();
}

/// Random key blocks, as many in all as another mask has, and in no row more than one above another.
inline HostMask even_mask(AttentionProblem const& p, std::int64_t pairs, std::uint64_t seed) {
  MaskDraft draft(p, seed);
  std::int64_t const rows = draft.rows();
  for (std::int64_t row = 0; row < rows; ++row)
    draft.keep_random(row, (row + 1) * pairs / rows - row * pairs / rows);
  return draft.finish();
}

/// A mask by its name in the benchmarks.
struct NamedMask {
  char const* name;
  HostMask (*make)(AttentionProblem const& p, std::uint64_t seed);
};

inline HostMask dense4_mask(AttentionProblem const& p, std::uint64_t seed) {
  return lines_mask(p, 4, 4, seed);
}
inline HostMask columns4_mask(AttentionProblem const& p, std::uint64_t seed) {
  return lines_mask(p, 0, 4, seed);
}
template <HostMask (*other)(AttentionProblem const&, std::uint64_t)>
HostMask even_as(AttentionProblem const& p, std::uint64_t seed) {
  return even_mask(p, other(p, seed).kept_pairs, seed + 1);
}
template <int percent>
HostMask keep_percent_mask(AttentionProblem const& p, std::uint64_t seed) {
  return random_mask(p, percent / 100.0, seed);
}

inline constexpr NamedMask even_masks[] = {{"keep_5", keep_percent_mask<5>},
                                           {"keep_10", keep_percent_mask<10>},
                                           {"keep_20", keep_percent_mask<20>},
                                           {"keep_50", keep_percent_mask<50>},
                                           {"keep_100", keep_percent_mask<100>}};

inline constexpr NamedMask uneven_masks[] = {
    {"uneven", uneven_mask},     {"even11", even_as<uneven_mask>},
    {"dense4", dense4_mask},     {"dense4_even", even_as<dense4_mask>},
    {"columns4", columns4_mask}, {"columns4_even", even_as<columns4_mask>},
    {"band", band_mask}};

}  // namespace sparge::bench
