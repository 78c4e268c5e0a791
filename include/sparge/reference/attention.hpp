#pragma once
/// Block-sparse attention forward: S = scale * Q K^T on kept block pairs, softmax over the kept keys, O = P V.
/// Runs on host memory, in f64; fast enough to be the path that serves where there is no GPU.

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "sparge/reference/arithmetic.hpp"
#include "sparge/reference/parallel.hpp"
#include "sparge/reference/query_rows.hpp"
#include "sparge/reference/token_block.hpp"

namespace sparge::reference {

/// `out` [rows, head_dim] and `lse` [rows], the natural logarithm of the sum of exp of scaled logits.
/// A row whose kept logits are all -inf, or that keeps no key, has out = 0 and lse = -inf.
struct Attention {
  std::vector<double> out, lse;
};

namespace detail {

/// Softmax and its product with the values, one key block after another; `sum` and `out` are relative to exp(max).
template <class Arithmetic>
struct OnlineRow {
  using Real = typename Arithmetic::Real;
  static constexpr Real minus_infinity = -std::numeric_limits<Real>::infinity();

  Real max = minus_infinity;
  Real sum = 0;

  void absorb(Real const* logits, std::int64_t tokens, TokenRows<Real> const& values, Real* out) {
    Real new_max = max;
    for (std::int64_t j = 0; j < tokens; ++j) new_max = logits[j] > new_max ? logits[j] : new_max;
    Real const shrink = std::exp(max - base_of(new_max));
    if (shrink != 1) {
      sum *= shrink;
      for (std::int64_t c = 0; c < values.stride(); ++c) out[c] *= shrink;
    }
    max = new_max;
    for (std::int64_t j = 0; j < tokens; ++j) {
      Real const weight = std::exp(logits[j] - base_of(max));
      sum += weight;
      add_scaled(out, Arithmetic::narrow(weight), values.row(j), values.stride());
    }
  }

  Real lse() const { return sum == 0 ? minus_infinity : base_of(max) + std::log(sum); }

  /// exp(-inf - 0) is 0 where exp(-inf - -inf) is NaN.
  static Real base_of(Real max) { return max == minus_infinity ? 0 : max; }
};

/// What a thread needs to compute one group of rows after another.
template <class Arithmetic, class Q, class K, class V>
class ForwardWorker {
public:
  using Real = typename Arithmetic::Real;

  ForwardWorker(AttentionProblem const& p, TensorView<Q> const& q, TensorView<K> const& k,
                TensorView<V> const& v, MaskView mask, std::vector<QueryRow> const& rows, Attention& result)
      : p_(p),
        q_(q),
        k_(k),
        v_(v),
        mask_(mask),
        rows_(rows),
        result_(result),
        keys_(p.head_dim, p.kv_block),
        values_(p.head_dim),
        queries_(p.head_dim),
        out_(p.head_dim),
        logits_(keys_.width()) {}

  void operator()(RowGroup const& group) {
    open(group);
    std::int64_t const kv_head = kv_head_of(p_, group.head);
    std::uint32_t const* const kept = mask_row(p_, mask_, group.batch, group.head, group.q_block);
    for (std::int64_t j = 0; j < p_.kv_blocks(); ++j) {
      if (!keeps(kept, j)) continue;
      TokenRange const range = block_tokens(j, p_.kv_block, p_.kv_tokens);
      keys_.load(k_, group.batch, kv_head, range);
      values_.load(v_, group.batch, kv_head, range);
      for (std::size_t i = 0; i < group.slots.size(); ++i) {
        keys_.dot(queries_.row(i), p_.logit_scale(), logits_.data());
        state_[i].absorb(logits_.data(), range.size(), values_, out_.row(i));
      }
    }
    close(group);
  }

private:
  void open(RowGroup const& group) {
    state_.assign(group.slots.size(), {});
    out_.resize(group.slots.size());
    queries_.resize(group.slots.size());
    for (std::size_t i = 0; i < group.slots.size(); ++i)
      queries_.set(i, token_row(q_, group.batch, group.head, rows_[group.slots[i]].token));
  }

  void close(RowGroup const& group) {
    for (std::size_t i = 0; i < group.slots.size(); ++i) {
      std::int64_t const slot = group.slots[i];
      Real const sum = state_[i].sum;
      result_.lse[slot] = state_[i].lse();
      for (std::int64_t c = 0; c < p_.head_dim; ++c)
        result_.out[slot * p_.head_dim + c] = sum == 0 ? 0 : Arithmetic::narrow(out_.row(i)[c] / sum);
    }
  }

  AttentionProblem const& p_;
  TensorView<Q> const& q_;
  TensorView<K> const& k_;
  TensorView<V> const& v_;
  MaskView mask_;
  std::vector<QueryRow> const& rows_;
  Attention& result_;
  TokenColumns<Real> keys_;
  TokenRows<Real> values_, queries_, out_;
  std::vector<Real> logits_;
  std::vector<OnlineRow<Arithmetic>> state_;
};

template <class Arithmetic, class Q, class K, class V>
Attention attention_rows(AttentionProblem const& p, TensorView<Q> const& q, TensorView<K> const& k,
                         TensorView<V> const& v, MaskView mask, std::vector<QueryRow> const& rows,
                         RunOptions const& options) {
  Attention result{std::vector<double>(rows.size() * p.head_dim), std::vector<double>(rows.size())};
  std::vector<RowGroup> const groups = group_rows(p, rows);
  for_each_piece(static_cast<std::int64_t>(groups.size()), options, [&] {
    return [&, worker = ForwardWorker<Arithmetic, Q, K, V>(p, q, k, v, mask, rows, result)](
               std::int64_t piece) mutable { worker(groups[piece]); };
  });
  return result;
}

}  // namespace detail

/// Attention of chosen rows only. Values of key blocks that a row's mask drops are never read.
///
/// Views are of host memory, shaped as the problem says: q [batch, heads, q_tokens, head_dim], k and v
/// [batch, kv_heads, kv_tokens, head_dim], with any strides.
template <class Q, class K, class V>
Attention attention_rows(AttentionProblem const& p, TensorView<Q> const& q, TensorView<K> const& k,
                         TensorView<V> const& v, MaskView mask, std::vector<QueryRow> const& rows,
                         RunOptions const& options = {}) {
  return detail::attention_rows<Exact>(p, q, k, v, mask, rows, options);
}

/// Attention of every row: out is contiguous [batch, heads, q_tokens, head_dim], lse [batch, heads, q_tokens].
template <class Q, class K, class V>
Attention attention(AttentionProblem const& p, TensorView<Q> const& q, TensorView<K> const& k,
                    TensorView<V> const& v, MaskView mask, RunOptions const& options = {}) {
  return attention_rows(p, q, k, v, mask, all_rows(p), options);
}

}  // namespace sparge::reference
