#pragma once
/// The hybrid Top-k + Top-p block mask in f64: from pooled queries and keys to bits, with everything in between.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "sparge/core/mask_rule.hpp"
#include "sparge/reference/element.hpp"
#include "sparge/reference/parallel.hpp"
#include "sparge/reference/pool.hpp"

namespace sparge::reference {

/// The choice of one query block of one head. `scores`, `probabilities` and `forced` are by key block; `cumulative`
/// and `order` by rank.
struct RowSelection {
  std::vector<double> scores;
  std::vector<std::int64_t> order;    ///< key blocks, best first: score descending, index ascending, NaN last
  std::vector<double> probabilities;  ///< softmax of the scores; 0 for NaN
  std::vector<double> cumulative;     ///< mass of the first r + 1 blocks of the order
  std::vector<bool> forced;           ///< kept whatever their score
  std::int64_t n_k = 0, n_p = 0;      ///< prefixes of the order that top_k and top_p ask for
  double score_error =
      0;  ///< bound on the rounding of f32-accurate scores: 2^-20 * scale * max over blocks of sum |q||c|

  std::int64_t cut() const { return std::max(n_k, n_p); }

  std::vector<bool> kept() const {
    std::vector<bool> kept = forced;
    for (std::int64_t rank = 0; rank < cut(); ++rank) kept[order[rank]] = true;
    return kept;
  }
};

/// Ranks: NaN last, -0 = +0, ties to the lower index. A total order.
inline std::vector<std::int64_t> order_of(std::vector<double> const& scores) {
  std::vector<std::int64_t> order(scores.size());
  std::iota(order.begin(), order.end(), std::int64_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    if (std::isnan(scores[a]) || std::isnan(scores[b]))
      return !std::isnan(scores[a]) && std::isnan(scores[b]);
    return scores[a] > scores[b];
  });
  return order;
}

/// Softmax over the scores that are not NaN. Where the maximum is infinite, the blocks that attain it share equally.
inline std::vector<double> softmax_of(std::vector<double> const& scores) {
  double max = -std::numeric_limits<double>::infinity();
  for (double score : scores) max = score > max ? score : max;
  std::vector<double> mass(scores.size());
  for (std::size_t j = 0; j < scores.size(); ++j) {
    if (std::isnan(scores[j])) continue;
    mass[j] = scores[j] == max ? 1 : std::exp(scores[j] - max);
  }
  double const sum = std::accumulate(mass.begin(), mass.end(), 0.0);
  for (double& m : mass) m = sum > 0 ? m / sum : 0;
  return mass;
}

/// n_k: `ceil`, so that a share never keeps less than asked; 1e-3 absorbs the rounding of a float share. With one rounding, so
/// that it does not depend on what a compiler fuses.
inline std::int64_t count_top_k(double top_k, std::int64_t min_blocks, std::int64_t candidates) {
  auto const share =
      static_cast<std::int64_t>(std::ceil(std::fma(top_k, static_cast<double>(candidates), -1e-3)));
  return std::min(std::max(share, min_blocks), candidates);
}

/// n_p: the shortest prefix whose mass reaches top_p, the block that crosses included.
inline std::int64_t count_top_p(double top_p, std::vector<double> const& cumulative) {
  auto const candidates = static_cast<std::int64_t>(cumulative.size());
  if (candidates == 0 || top_p <= 0 || cumulative.back() == 0) return 0;
  if (top_p >= 1) return candidates;
  auto const crossing = std::lower_bound(cumulative.begin(), cumulative.end(), top_p);
  return std::min<std::int64_t>(crossing - cumulative.begin() + 1, candidates);
}

/// Whether the keep rule forces a block pair. Queries count in the whole problem, of which `p` may be a shard.
inline bool is_forced(AttentionProblem const& p, KeepRule const& keep, std::int64_t q_block,
                      std::int64_t kv_block) {
  TokenRange const shard = block_tokens(q_block, p.q_block, p.q_tokens);
  TokenRange const q{p.q_offset + shard.begin, p.q_offset + shard.end};
  TokenRange const k = block_tokens(kv_block, p.kv_block, p.kv_tokens);
  if (k.begin < keep.kv_front_tokens || k.end > p.kv_tokens - keep.kv_back_tokens) return true;
  if (q.begin < keep.dense_q_front_tokens || q.end > p.whole_q_tokens() - keep.dense_q_back_tokens)
    return true;
  if (keep.band_tokens < 0) return false;
  std::int64_t const diagonal = p.kv_tokens - p.whole_q_tokens();
  std::int64_t const least = k.begin - (q.end - 1) - diagonal, most = (k.end - 1) - q.begin - diagonal;
  return least <= keep.band_tokens && most >= -keep.band_tokens;
}

/// Selects rows from pooled vectors: contiguous pooled_q [batch, heads, q_blocks, head_dim] and pooled_k
/// [batch, kv_heads, kv_blocks, head_dim]. The rule's per-head shares are read as host arrays.
class BlockSelector {
public:
  template <class Pooled>
  BlockSelector(AttentionProblem const& p, MaskRule const& rule, Pooled const* pooled_q,
                Pooled const* pooled_k)
      : p_(p),
        rule_(rule),
        pooled_q_(pooled_q, pooled_q + p.batch * p.heads * p.q_blocks() * p.head_dim),
        centred_k_(pooled_k, pooled_k + p.batch * p.kv_heads * p.kv_blocks() * p.head_dim) {
    for (std::int64_t head = 0; head < p.batch * p.kv_heads; ++head) centre(head);
  }

  RowSelection row(std::int64_t batch, std::int64_t head, std::int64_t q_block) const {
    RowSelection row;
    score(batch, head, q_block, row);
    row.order = order_of(row.scores);
    row.probabilities = softmax_of(row.scores);
    double mass = 0;
    for (std::int64_t j : row.order) row.cumulative.push_back(mass += row.probabilities[j]);
    row.n_k = count_top_k(top_k(head), rule_.min_blocks, p_.kv_blocks());
    row.n_p = count_top_p(top_p(head), row.cumulative);
    for (std::int64_t j = 0; j < p_.kv_blocks(); ++j)
      row.forced.push_back(is_forced(p_, rule_.keep, q_block, j));
    return row;
  }

  /// The shares in effect for a head.
  double top_k(std::int64_t head) const { return share(rule_.top_k_of_head, head, rule_.top_k); }
  double top_p(std::int64_t head) const { return share(rule_.top_p_of_head, head, rule_.top_p); }

private:
  static double share(float const* of_head, std::int64_t head, double scalar) {
    if (of_head == nullptr || std::isnan(of_head[head])) return scalar;
    return std::min(std::max(static_cast<double>(of_head[head]), 0.0), 1.0);
  }

  /// Subtracts the mean over a head's key blocks: shifts a row of scores by a constant.
  void centre(std::int64_t head) {
    double* const keys = centred_k_.data() + head * p_.kv_blocks() * p_.head_dim;
    for (std::int64_t c = 0; c < p_.head_dim; ++c) {
      double mean = 0;
      for (std::int64_t j = 0; j < p_.kv_blocks(); ++j) mean += keys[j * p_.head_dim + c];
      mean /= static_cast<double>(p_.kv_blocks());
      for (std::int64_t j = 0; j < p_.kv_blocks(); ++j) keys[j * p_.head_dim + c] -= mean;
    }
  }

  void score(std::int64_t batch, std::int64_t head, std::int64_t q_block, RowSelection& row) const {
    double const scale = p_.logit_scale();
    double const* const query =
        pooled_q_.data() + ((batch * p_.heads + head) * p_.q_blocks() + q_block) * p_.head_dim;
    double const* key =
        centred_k_.data() + (batch * p_.kv_heads + kv_head_of(p_, head)) * p_.kv_blocks() * p_.head_dim;
    double largest = 0;
    for (std::int64_t j = 0; j < p_.kv_blocks(); ++j, key += p_.head_dim) {
      double dot = 0, magnitude = 0;
      for (std::int64_t c = 0; c < p_.head_dim; ++c) {
        dot += query[c] * key[c];
        magnitude += std::abs(query[c] * key[c]);
      }
      row.scores.push_back(scale * dot);
      largest = std::max(largest, magnitude);
    }
    row.score_error = std::ldexp(scale * largest, -20);
  }

  AttentionProblem p_;
  MaskRule rule_;
  std::vector<double> pooled_q_, centred_k_;
};

/// Calls visit(row index, batch, head, q_block) for every mask row, in threads.
template <class Visit>
void for_each_mask_row(AttentionProblem const& p, RunOptions const& options, Visit visit) {
  for_each_piece(p.batch * p.heads * p.q_blocks(), options, [&] {
    return [&](std::int64_t row) {
      visit(row, row / p.q_blocks() / p.heads, row / p.q_blocks() % p.heads, row % p.q_blocks());
    };
  });
}

/// Mask bits from pooled vectors; padding bits are zero.
template <class Pooled>
std::vector<std::uint32_t> select_blocks(AttentionProblem const& p, MaskRule const& rule,
                                         Pooled const* pooled_q, Pooled const* pooled_k,
                                         RunOptions const& options = {}) {
  std::vector<std::uint32_t> words(mask_words(p), 0);
  BlockSelector const selector(p, rule, pooled_q, pooled_k);
  for_each_mask_row(p, options, [&](std::int64_t row, auto batch, auto head, auto q_block) {
    std::vector<bool> const kept = selector.row(batch, head, q_block).kept();
    for (std::int64_t j = 0; j < p.kv_blocks(); ++j)
      if (kept[j]) words[row * p.row_words() + j / 32] |= 1u << (j % 32);
  });
  return words;
}

/// Mask bits from queries and keys, through pooled vectors rounded to f32 as the library stores them.
template <class Q, class K>
std::vector<std::uint32_t> build_mask(AttentionProblem const& p, MaskRule const& rule, TensorView<Q> const& q,
                                      TensorView<K> const& k, RunOptions const& options = {}) {
  std::vector<float> const pooled_q = to_f32(pool(q, p.q_block, options));
  std::vector<float> const pooled_k = to_f32(pool(k, p.kv_block, options));
  return select_blocks(p, rule, pooled_q.data(), pooled_k.data(), options);
}

/// The mask that keeps everything: full attention.
inline std::vector<std::uint32_t> full_mask(AttentionProblem const& p) {
  std::vector<std::uint32_t> words(mask_words(p), ~0u);
  if (p.kv_blocks() % 32 != 0)
    for (std::size_t last = p.row_words() - 1; last < words.size(); last += p.row_words())
      words[last] = (1u << (p.kv_blocks() % 32)) - 1;
  return words;
}

/// The part of a mask that a shard has: its blocks of both axes, rows padded with zeros to whole words.
inline std::vector<std::uint32_t> slice_mask(AttentionProblem const& p, MaskView mask, BlockRange q,
                                             BlockRange kv) {
  std::int64_t const words = (kv.count + 31) / 32;
  std::vector<std::uint32_t> shard(static_cast<std::size_t>(p.batch * p.heads * q.count * words), 0);
  for (std::int64_t head = 0; head < p.batch * p.heads; ++head)
    for (std::int64_t i = 0; i < q.count; ++i)
      for (std::int64_t j = 0; j < kv.count; ++j)
        if (keeps(mask_row(p, mask, head / p.heads, head % p.heads, q.first + i), kv.first + j))
          shard[(head * q.count + i) * words + j / 32] |= 1u << (j % 32);
  return shard;
}

/// What any mask keeps and which part of the rule asks for it, per (batch, head). Only kept pairs are counted, so the
/// four owed_to_* sum to kept_pairs.
template <class Pooled>
std::vector<MaskStats> mask_stats(AttentionProblem const& p, MaskRule const& rule, Pooled const* pooled_q,
                                  Pooled const* pooled_k, MaskView mask, RunOptions const& options = {}) {
  std::vector<MaskStats> stats(static_cast<std::size_t>(p.batch * p.heads));
  BlockSelector const selector(p, rule, pooled_q, pooled_k);
  for_each_piece(p.batch * p.heads, options, [&] {
    return [&](std::int64_t index) {
      MaskStats& total = stats[index];
      total.all_pairs = p.q_blocks() * p.kv_blocks();
      for (std::int64_t i = 0; i < p.q_blocks(); ++i) {
        std::uint32_t const* const kept = mask_row(p, mask, index / p.heads, index % p.heads, i);
        RowSelection const row = selector.row(index / p.heads, index % p.heads, i);
        for (std::int64_t rank = 0; rank < p.kv_blocks(); ++rank) {
          if (!keeps(kept, row.order[rank])) continue;
          bool const by_k = rank < row.n_k, by_p = rank < row.n_p;
          ++total.kept_pairs;
          ++(by_k && by_p ? total.owed_to_both
             : by_k       ? total.owed_to_top_k
             : by_p       ? total.owed_to_top_p
                          : total.owed_to_force);
          total.pooled_mass += row.probabilities[row.order[rank]];
        }
      }
      total.pooled_mass /= static_cast<double>(std::max<std::int64_t>(p.q_blocks(), 1));
    };
  });
  return stats;
}

}  // namespace sparge::reference
