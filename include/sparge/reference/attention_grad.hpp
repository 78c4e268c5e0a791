#pragma once
/// Gradient of block-sparse attention in f64. The mask is a constant: no gradient passes through pooling or selection.
///
/// delta = rowsum(dO * O) - dLSE; P = exp(S - lse), 0 where lse = -inf; dV = P^T dO; dS = P * (dO V^T - delta);
/// dQ = scale * dS K; dK = scale * dS^T Q. With fewer kv heads, dK and dV sum over the query heads of a group.

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "sparge/reference/arithmetic.hpp"
#include "sparge/reference/parallel.hpp"
#include "sparge/reference/token_block.hpp"

namespace sparge::reference {

/// Host memory: q, out and grad_out [batch, heads, q_tokens, head_dim]; k and v [batch, kv_heads, kv_tokens, head_dim];
/// lse and grad_lse contiguous [batch, heads, q_tokens]. `out` and `lse` may be merged ones of several key shards.
template <class T, class Lse>
struct AttentionGradArgs {
  TensorView<T const> q{}, k{}, v{};
  MaskView mask{};
  TensorView<T const> out{}, grad_out{};
  Lse const* lse = nullptr;
  Lse const* grad_lse = nullptr;  ///< optional, 0 where not given
};

/// Contiguous: grad_q [batch, heads, q_tokens, head_dim]; grad_k and grad_v [batch, kv_heads, kv_tokens, head_dim];
/// delta [batch, heads, q_tokens]. Blocks that no one keeps have zero gradients.
struct AttentionGrad {
  std::vector<double> grad_q, grad_k, grad_v, delta;
};

namespace detail {

/// P and dS of one query row against one key block, rounded for the products that follow.
template <class Arithmetic>
class ProbabilityGrad {
public:
  using Real = typename Arithmetic::Real;

  explicit ProbabilityGrad(AttentionProblem const& p)
      : scale_(p.logit_scale()), keys_(p.head_dim, p.kv_block), values_(keys_) {
    p_.resize(keys_.width());
    ds_.resize(keys_.width());
  }

  template <class T, class Lse>
  void load(AttentionGradArgs<T, Lse> const& args, std::int64_t batch, std::int64_t kv_head,
            TokenRange range) {
    tokens_ = range.size();
    keys_.load(args.k, batch, kv_head, range);
    values_.load(args.v, batch, kv_head, range);
  }

  void row(Real const* query, Real const* grad_out, Real lse, Real delta) {
    keys_.dot(query, scale_, p_.data());
    values_.dot(grad_out, Real{1}, ds_.data());
    bool const is_empty = lse == -std::numeric_limits<Real>::infinity();
    for (std::int64_t j = 0; j < tokens_; ++j) {
      Real const probability = is_empty ? 0 : std::exp(p_[j] - lse);
      p_[j] = Arithmetic::narrow(probability);
      ds_[j] = is_empty ? 0 : Arithmetic::narrow(Arithmetic::weight_of_grad(probability) * (ds_[j] - delta));
    }
  }

  std::int64_t tokens() const { return tokens_; }
  Real p(std::int64_t j) const { return p_[j]; }
  Real ds(std::int64_t j) const { return ds_[j]; }

private:
  Real scale_;
  TokenColumns<Real> keys_, values_;
  std::vector<Real> p_, ds_;
  std::int64_t tokens_ = 0;
};

/// One element type T, and views of one (batch, query head) at a time.
template <class Arithmetic, class T, class Lse>
class GradWorker {
public:
  using Real = typename Arithmetic::Real;

  GradWorker(AttentionProblem const& p, AttentionGradArgs<T, Lse> const& args, AttentionGrad& result)
      : p_(p),
        args_(args),
        result_(result),
        pair_(p),
        queries_(p.head_dim),
        grad_out_(p.head_dim),
        keys_(p.head_dim),
        grad_q_(p.head_dim),
        grad_k_(p.head_dim),
        grad_v_(p.head_dim) {}

  /// Delta of the rows of a query block.
  void delta(std::int64_t batch, std::int64_t head, std::int64_t q_block) {
    TokenRange const range = block_tokens(q_block, p_.q_block, p_.q_tokens);
    for (std::int64_t token = range.begin; token < range.end; ++token) {
      T const* const out = token_row(args_.out, batch, head, token);
      T const* const grad_out = token_row(args_.grad_out, batch, head, token);
      Real sum = 0;
      for (std::int64_t c = 0; c < p_.head_dim; ++c)
        sum += static_cast<Real>(to_double(grad_out[c])) * static_cast<Real>(to_double(out[c]));
      std::int64_t const row = row_of(batch, head, token);
      result_.delta[row] = args_.grad_lse ? sum - static_cast<Real>(args_.grad_lse[row]) : sum;
    }
  }

  /// grad_q of a query block: walks its row of the mask.
  void grad_q(std::int64_t batch, std::int64_t head, std::int64_t q_block) {
    load_queries(batch, head, q_block);
    grad_q_.resize(queries_in_block_.size());
    std::uint32_t const* const kept = mask_row(p_, args_.mask, batch, head, q_block);
    for (std::int64_t j = 0; j < p_.kv_blocks(); ++j) {
      if (!keeps(kept, j)) continue;
      TokenRange const range = block_tokens(j, p_.kv_block, p_.kv_tokens);
      pair_.load(args_, batch, kv_head_of(p_, head), range);
      keys_.load(args_.k, batch, kv_head_of(p_, head), range);
      for (std::int64_t i = 0; i < queries_in_block_.size(); ++i) {
        differentiate(batch, head, i);
        for (std::int64_t t = 0; t < pair_.tokens(); ++t)
          add_scaled(grad_q_.row(i), pair_.ds(t), keys_.row(t), keys_.stride());
      }
    }
    for (std::int64_t i = 0; i < queries_in_block_.size(); ++i)
      store(grad_q_.row(i), p_.logit_scale(),
            result_.grad_q.data() + row_of(batch, head, queries_in_block_.begin + i) * p_.head_dim);
  }

  /// grad_k and grad_v of a key block: walks its column of the mask in every head of the group.
  void grad_kv(std::int64_t batch, std::int64_t kv_head, std::int64_t kv_block) {
    TokenRange const range = block_tokens(kv_block, p_.kv_block, p_.kv_tokens);
    pair_.load(args_, batch, kv_head, range);
    grad_k_.resize(range.size());
    grad_v_.resize(range.size());
    std::int64_t const group = p_.heads / p_.kv_heads;
    for (std::int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head)
      for (std::int64_t i = 0; i < p_.q_blocks(); ++i)
        if (keeps(mask_row(p_, args_.mask, batch, head, i), kv_block)) add_to_grad_kv(batch, head, i);
    for (std::int64_t t = 0; t < range.size(); ++t) {
      std::int64_t const token = (batch * p_.kv_heads + kv_head) * p_.kv_tokens + range.begin + t;
      store(grad_k_.row(t), p_.logit_scale(), result_.grad_k.data() + token * p_.head_dim);
      store(grad_v_.row(t), Real{1}, result_.grad_v.data() + token * p_.head_dim);
    }
  }

private:
  std::int64_t row_of(std::int64_t batch, std::int64_t head, std::int64_t token) const {
    return (batch * p_.heads + head) * p_.q_tokens + token;
  }

  void load_queries(std::int64_t batch, std::int64_t head, std::int64_t q_block) {
    queries_in_block_ = block_tokens(q_block, p_.q_block, p_.q_tokens);
    queries_.load(args_.q, batch, head, queries_in_block_);
    grad_out_.load(args_.grad_out, batch, head, queries_in_block_);
  }

  void differentiate(std::int64_t batch, std::int64_t head, std::int64_t i) {
    std::int64_t const row = row_of(batch, head, queries_in_block_.begin + i);
    pair_.row(queries_.row(i), grad_out_.row(i), static_cast<Real>(args_.lse[row]),
              static_cast<Real>(result_.delta[row]));
  }

  void add_to_grad_kv(std::int64_t batch, std::int64_t head, std::int64_t q_block) {
    load_queries(batch, head, q_block);
    for (std::int64_t i = 0; i < queries_in_block_.size(); ++i) {
      differentiate(batch, head, i);
      for (std::int64_t t = 0; t < pair_.tokens(); ++t) {
        add_scaled(grad_v_.row(t), pair_.p(t), grad_out_.row(i), grad_out_.stride());
        add_scaled(grad_k_.row(t), pair_.ds(t), queries_.row(i), queries_.stride());
      }
    }
  }

  void store(Real const* sum, Real scale, double* out) const {
    for (std::int64_t c = 0; c < p_.head_dim; ++c) out[c] = Arithmetic::narrow(scale * sum[c]);
  }

  AttentionProblem const& p_;
  AttentionGradArgs<T, Lse> const& args_;
  AttentionGrad& result_;
  ProbabilityGrad<Arithmetic> pair_;
  TokenRows<Real> queries_, grad_out_, keys_, grad_q_, grad_k_, grad_v_;
  TokenRange queries_in_block_{0, 0};
};

template <class Arithmetic, class T, class Lse>
AttentionGrad attention_grad(AttentionProblem const& p, AttentionGradArgs<T, Lse> const& args,
                             RunOptions const& options) {
  std::vector<double> const q_zeros(p.batch * p.heads * p.q_tokens * p.head_dim);
  std::vector<double> const kv_zeros(p.batch * p.kv_heads * p.kv_tokens * p.head_dim);
  AttentionGrad result{q_zeros, kv_zeros, kv_zeros, std::vector<double>(p.batch * p.heads * p.q_tokens)};
  auto const over_blocks = [&](std::int64_t heads, std::int64_t blocks, auto visit) {
    for_each_piece(p.batch * heads * blocks, options, [&] {
      return [&, worker = GradWorker<Arithmetic, T, Lse>(p, args, result)](std::int64_t piece) mutable {
        visit(worker, piece / blocks / heads, piece / blocks % heads, piece % blocks);
      };
    });
  };
  over_blocks(p.heads, p.q_blocks(), [](auto& worker, auto batch, auto head, auto block) {
    worker.delta(batch, head, block);
    worker.grad_q(batch, head, block);
  });
  over_blocks(p.kv_heads, p.kv_blocks(), [](auto& worker, auto batch, auto kv_head, auto block) {
    worker.grad_kv(batch, kv_head, block);
  });
  return result;
}

}  // namespace detail

template <class T, class Lse>
AttentionGrad attention_grad(AttentionProblem const& p, AttentionGradArgs<T, Lse> const& args,
                             RunOptions const& options = {}) {
  return detail::attention_grad<Exact>(p, args, options);
}

}  // namespace sparge::reference
