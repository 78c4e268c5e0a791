#pragma once
/// Shards of a forward or backward test, cut on block borders: what a rank of context parallelism has.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "sparge/reference/mask.hpp"
#include "support/gradient_case.hpp"

namespace sparge::test {

/// The blocks of an axis in `shards` nearly equal runs, empty ones included where there are fewer blocks.
inline std::vector<BlockRange> split_blocks(std::int64_t blocks, std::int64_t shards) {
  std::vector<BlockRange> ranges;
  for (std::int64_t i = 0; i < shards; ++i) {
    std::int64_t const first = blocks * i / shards;
    ranges.push_back({first, blocks * (i + 1) / shards - first});
  }
  return ranges;
}

/// The tokens of a range of blocks of `block` tokens each.
inline reference::TokenRange tokens_of(BlockRange range, std::int64_t block, std::int64_t tokens) {
  return {std::min(range.first * block, tokens), std::min((range.first + range.count) * block, tokens)};
}

inline AttentionProblem shard_of(AttentionProblem p, BlockRange q, BlockRange kv) {
  auto const queries = tokens_of(q, p.q_block, p.q_tokens), keys = tokens_of(kv, p.kv_block, p.kv_tokens);
  p.q_offset = q.first * p.q_block, p.all_q_tokens = p.q_tokens;
  p.q_tokens = queries.size(), p.kv_tokens = keys.size();
  return p;
}

template <class T>
HostTensor<T> shard_of(HostTensor<T> const& x, reference::TokenRange tokens) {
  Shape shape = x.shape();
  shape[2] = tokens.size();
  HostTensor<T> shard(shape);
  shard.for_each_index(
      [&](auto b, auto h, auto n, auto c) { shard.at(b, h, n, c) = x.at(b, h, tokens.begin + n, c); });
  return shard;
}

/// One value a query row, contiguous [batch, heads, q_tokens].
inline std::vector<float> shard_of(std::vector<float> const& rows, std::int64_t q_tokens,
                                   reference::TokenRange tokens) {
  std::vector<float> shard;
  for (std::int64_t head = 0; head * q_tokens < static_cast<std::int64_t>(rows.size()); ++head)
    shard.insert(shard.end(), rows.begin() + head * q_tokens + tokens.begin,
                 rows.begin() + head * q_tokens + tokens.end);
  return shard;
}

template <class T>
ForwardInputs<T> shard_of(ForwardInputs<T> const& whole, BlockRange q, BlockRange kv) {
  AttentionProblem const& p = whole.problem;
  auto const queries = tokens_of(q, p.q_block, p.q_tokens), keys = tokens_of(kv, p.kv_block, p.kv_tokens);
  return {shard_of(p, q, kv), shard_of(whole.q, queries), shard_of(whole.k, keys), shard_of(whole.v, keys),
          reference::slice_mask(p, view_of(whole.mask), q, kv)};
}

/// `out` and `lse` are those of the whole problem.
template <class T>
GradientInputs<T> shard_of(GradientInputs<T> const& whole, BlockRange q, BlockRange kv) {
  AttentionProblem const& p = whole.problem();
  auto const queries = tokens_of(q, p.q_block, p.q_tokens);
  return {shard_of(whole.forward, q, kv), shard_of(whole.out, queries), shard_of(whole.grad_out, queries),
          shard_of(whole.lse, p.q_tokens, queries), shard_of(whole.grad_lse, p.q_tokens, queries)};
}

/// Gradients of a whole problem from those of its shards, which are added in f64 as a caller adds them in f32.
struct GradientSum {
  AttentionProblem problem;
  std::vector<double> grad_q, grad_k, grad_v;

  explicit GradientSum(AttentionProblem const& p)
      : problem(p),
        grad_q(static_cast<std::size_t>(p.batch * p.heads * p.q_tokens * p.head_dim), 0.0),
        grad_k(static_cast<std::size_t>(p.batch * p.kv_heads * p.kv_tokens * p.head_dim), 0.0),
        grad_v(grad_k) {}

  /// Contiguous gradients of a shard.
  void add(BlockRange q, BlockRange kv, std::vector<double> const& shard_q,
           std::vector<double> const& shard_k, std::vector<double> const& shard_v) {
    auto const queries = tokens_of(q, problem.q_block, problem.q_tokens);
    auto const keys = tokens_of(kv, problem.kv_block, problem.kv_tokens);
    add_tokens(grad_q, problem.q_tokens, queries, shard_q);
    add_tokens(grad_k, problem.kv_tokens, keys, shard_k);
    add_tokens(grad_v, problem.kv_tokens, keys, shard_v);
  }

private:
  void add_tokens(std::vector<double>& whole, std::int64_t all_tokens, reference::TokenRange tokens,
                  std::vector<double> const& shard) const {
    std::int64_t const run = tokens.size() * problem.head_dim;
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(shard.size()); ++i)
      whole[(i / run * all_tokens + tokens.begin) * problem.head_dim + i % run] += shard[i];
  }
};

}  // namespace sparge::test
