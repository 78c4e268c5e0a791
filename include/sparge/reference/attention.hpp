#pragma once
/// Block-sparse attention forward in f64: S = scale * Q K^T on kept block pairs, softmax over the kept keys, O = P V.
/// Runs on host memory; fast enough to be the path that serves where there is no GPU.

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "sparge/reference/key_block.hpp"
#include "sparge/reference/parallel.hpp"
#include "sparge/reference/query_rows.hpp"

namespace sparge::reference {

/// `out` [rows, head_dim] and `lse` [rows], the natural logarithm of the sum of exp of scaled logits.
/// A row whose kept logits are all -inf, or that keeps no key, has out = 0 and lse = -inf.
struct Attention {
  std::vector<double> out, lse;
};

namespace detail {

/// Softmax and its product with the values, one key block after another: `sum` and `out` are relative to exp(max).
struct OnlineRow {
  double max = -std::numeric_limits<double>::infinity();
  double sum = 0;

  /// Adds `block`'s keys; `logits` is overwritten by their unnormalised probabilities.
  void absorb(KeyBlock<double> const& block, double* logits, double* out, std::int64_t out_size) {
    double new_max = max;
    for (std::int64_t j = 0; j < block.tokens(); ++j) new_max = logits[j] > new_max ? logits[j] : new_max;
    double const base = base_of(new_max);
    double const shrink = std::exp(max - base);
    if (shrink != 1) {
      sum *= shrink;
      for (std::int64_t c = 0; c < out_size; ++c) out[c] *= shrink;
    }
    max = new_max;
    for (std::int64_t j = 0; j < block.tokens(); ++j) {
      double const weight = std::exp(logits[j] - base);
      sum += weight;
      add_scaled(out, weight, block.value(j), out_size);
    }
  }

  double lse() const {
    return sum == 0 ? -std::numeric_limits<double>::infinity() : base_of(max) + std::log(sum);
  }

  /// exp(-inf - 0) is 0 where exp(-inf - -inf) is NaN.
  static double base_of(double max) { return max == -std::numeric_limits<double>::infinity() ? 0 : max; }
};

/// Everything that a thread needs to compute one group of rows after another.
template <class Q, class K, class V>
class ForwardWorker {
public:
  ForwardWorker(AttentionProblem const& p, TensorView<Q> const& q, TensorView<K> const& k,
                TensorView<V> const& v, MaskView mask, std::vector<QueryRow> const& rows, Attention& result)
      : p_(p),
        q_(q),
        k_(k),
        v_(v),
        mask_(mask),
        rows_(rows),
        result_(result),
        dim_(round_up_to_lanes(p.head_dim)),
        block_(p),
        logits_(block_.width()) {}

  void operator()(RowGroup const& group) {
    open(group);
    std::uint32_t const* const kept = mask_row(p_, mask_, group.batch, group.head, group.q_block);
    for (std::int64_t j = 0; j < p_.kv_blocks(); ++j) {
      if (!keeps(kept, j)) continue;
      block_.load(k_, v_, group.batch, kv_head_of(p_, group.head),
                  block_tokens(j, p_.kv_block, p_.kv_tokens));
      for (std::size_t i = 0; i < group.slots.size(); ++i) {
        block_.logits(queries_.data() + i * dim_, static_cast<double>(p_.logit_scale()), logits_.data());
        state_[i].absorb(block_, logits_.data(), out_.data() + i * dim_, dim_);
      }
    }
    close(group);
  }

private:
  void open(RowGroup const& group) {
    state_.assign(group.slots.size(), {});
    out_.assign(group.slots.size() * dim_, 0.0);
    queries_.resize(group.slots.size() * dim_);
    for (std::size_t i = 0; i < group.slots.size(); ++i)
      widen_row(token_row(q_, group.batch, group.head, rows_[group.slots[i]].token), p_.head_dim,
                queries_.data() + i * dim_);
  }

  void close(RowGroup const& group) {
    for (std::size_t i = 0; i < group.slots.size(); ++i) {
      std::int64_t const slot = group.slots[i];
      double const sum = state_[i].sum;
      result_.lse[slot] = state_[i].lse();
      for (std::int64_t c = 0; c < p_.head_dim; ++c)
        result_.out[slot * p_.head_dim + c] = sum == 0 ? 0 : out_[i * dim_ + c] / sum;
    }
  }

  AttentionProblem const& p_;
  TensorView<Q> const& q_;
  TensorView<K> const& k_;
  TensorView<V> const& v_;
  MaskView mask_;
  std::vector<QueryRow> const& rows_;
  Attention& result_;
  std::int64_t dim_;  // channels padded to whole lanes
  KeyBlock<double> block_;
  std::vector<double> logits_, queries_, out_;  // [width], [rows, dim], [rows, dim]
  std::vector<OnlineRow> state_;
};

}  // namespace detail

/// Attention of chosen rows only. Values of key blocks that a row's mask drops are never read.
///
/// Views are of host memory, shaped as the problem says: q [batch, heads, q_tokens, head_dim], k and v
/// [batch, kv_heads, kv_tokens, head_dim], with any strides.
template <class Q, class K, class V>
Attention attention_rows(AttentionProblem const& p, TensorView<Q> const& q, TensorView<K> const& k,
                         TensorView<V> const& v, MaskView mask, std::vector<QueryRow> const& rows,
                         RunOptions const& options = {}) {
  Attention result{std::vector<double>(rows.size() * p.head_dim), std::vector<double>(rows.size())};
  std::vector<RowGroup> const groups = group_rows(p, rows);
  for_each_piece(static_cast<std::int64_t>(groups.size()), options, [&] {
    return [&, worker = detail::ForwardWorker<Q, K, V>(p, q, k, v, mask, rows, result)](
               std::int64_t piece) mutable { worker(groups[piece]); };
  });
  return result;
}

/// Attention of every row: out is contiguous [batch, heads, q_tokens, head_dim], lse [batch, heads, q_tokens].
template <class Q, class K, class V>
Attention attention(AttentionProblem const& p, TensorView<Q> const& q, TensorView<K> const& k,
                    TensorView<V> const& v, MaskView mask, RunOptions const& options = {}) {
  return attention_rows(p, q, k, v, mask, all_rows(p), options);
}

}  // namespace sparge::reference
