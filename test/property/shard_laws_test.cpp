/// Laws of context parallelism: shards of one problem, each a problem of its own, give together what the whole gives.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "op/mask_band.hpp"
#include "op/mask_runs.hpp"
#include "support/catch.hpp"
#include "support/merge_case.hpp"
#include "support/shard_case.hpp"

using namespace sparge;
using namespace sparge::test;

namespace {

/// Partial tails on both axes, grouped heads, rows of two mask words.
std::vector<AttentionProblem> problems() {
  return {{1, 4, 2, 300, 2100, 64}, {2, 2, 1, 257, 515, 128}, {1, 2, 2, 200, 4100, 128, 64, 128}};
}

template <class T>
MergeInputs<T> run_key_shards(ForwardInputs<T> const& whole, BlockRange q, std::int64_t shards) {
  MergeInputs<T> results{whole.problem, {}, {}};
  results.problem = shard_of(whole.problem, q, {0, whole.problem.kv_blocks()});
  for (BlockRange const& kv : split_blocks(whole.problem.kv_blocks(), shards)) {
    ForwardOutput<T> const part = run_forward(shard_of(whole, q, kv));
    results.partials.push_back({part.out, part.lse});
  }
  return results;
}

/// How far apart weights of partial results may be, since their lse are f32: half a unit in the last place of each, relative.
template <class T>
double weight_error(MergeInputs<T> const& results) {
  double largest = 0;
  for (auto const& partial : results.partials)
    for (float lse : partial.lse)
      if (std::isfinite(lse)) largest = std::max(largest, std::abs(static_cast<double>(lse)));
  return std::ldexp(largest, -23);
}

template <class T>
void check_merged_forward(ForwardCase const& c, std::int64_t shards) {
  CAPTURE(c.problem.q_tokens, c.problem.kv_tokens, c.problem.head_dim, static_cast<int>(c.mask), shards);
  ForwardInputs<T> const whole = make_inputs<T>(c);
  BlockRange const all{0, c.problem.q_blocks()};
  MergeInputs<T> const results = run_key_shards(whole, all, shards);
  MergeOutput<T> const merged = run_merge(results);
  double largest_v = 0;
  for (double v : whole.v.values()) largest_v = std::max(largest_v, std::abs(v));
  check_forward(whole, ForwardOutput<T>{merged.out, merged.lse}, weight_error(results) * largest_v);
}

/// Gradients of 2 x `shards` shards, each given the out and lse that forward and merging made on the device.
template <class T>
GradientSum sharded_gradients(GradientInputs<T> const& whole, std::int64_t shards) {
  AttentionProblem const& p = whole.problem();
  GradientSum sum(p);
  for (BlockRange const& q : split_blocks(p.q_blocks(), 2)) {
    MergeOutput<T> const merged = run_merge(run_key_shards(whole.forward, q, shards));
    for (BlockRange const& kv : split_blocks(p.kv_blocks(), shards)) {
      GradientInputs<T> shard = shard_of(whole, q, kv);
      shard.out = merged.out, shard.lse = merged.lse;
      GradientOutput<T> const part = run_backward(shard);
      sum.add(q, kv, part.grad_q.values(), part.grad_k.values(), part.grad_v.values());
    }
  }
  return sum;
}

/// Each shard rounds its gradient to T before it is added: half a step for each beyond the one of a single run, at the magnitude of
/// the largest part, which may exceed that of the sum.
template <class T>
void check_sharded_backward(GradientCase const& c, std::int64_t shards) {
  AttentionProblem const& p = c.forward.problem;
  CAPTURE(p.q_tokens, p.kv_tokens, p.head_dim, static_cast<int>(c.forward.mask), shards);
  GradientInputs<T> const whole = make_gradient_inputs<T>(c);
  GradientTruth const truth = truth_of(whole);
  GradientSum const sum = sharded_gradients(whole, shards);
  auto const check = [&](std::vector<double> const& actual, std::vector<double> const& exact,
                         std::vector<double> const& naive, std::int64_t parts) {
    double largest = 0;
    for (double x : exact) largest = max_or_nan(largest, std::abs(x));
    double const floor = static_cast<double>(parts) * unit_in_last_place<T>(2 * largest) / 2;
    CHECK(compare<T>(actual, exact, naive, floor));
  };
  check(sum.grad_q, truth.exact.grad_q, truth.naive.grad_q, shards);
  check(sum.grad_k, truth.exact.grad_k, truth.naive.grad_k, 2);
  check(sum.grad_v, truth.exact.grad_v, truth.naive.grad_v, 2);
}

}  // namespace

TEMPLATE_TEST_CASE("U91 U93 key shards merge to the result over all keys", "[gpu]", bfloat16, float16) {
  SKIP_WITHOUT_GPU();
  for (AttentionProblem const& p : problems())
    for (MaskKind mask : {MaskKind::full, MaskKind::uneven, MaskKind::tenth, MaskKind::holes, MaskKind::none})
      for (std::int64_t shards : {2, 4, 5}) {
        ForwardCase c{p};
        c.mask = mask;
        check_merged_forward<TestType>(c, shards);
      }
}

TEMPLATE_TEST_CASE("U91 key shards merge where logits are huge or shared by all keys", "[gpu]", bfloat16,
                   float16) {
  SKIP_WITHOUT_GPU();
  for (Inputs kind : every_inputs) {
    ForwardCase c{{1, 2, 1, 200, 700, 64}};
    c.inputs = kind, c.mask = MaskKind::half;
    check_merged_forward<TestType>(c, 3);
  }
}

TEMPLATE_TEST_CASE("U91 gradients of key and query shards add up to those of the whole", "[gpu]", bfloat16,
                   float16) {
  SKIP_WITHOUT_GPU();
  for (AttentionProblem const& p : problems())
    for (MaskKind mask : {MaskKind::full, MaskKind::uneven, MaskKind::holes})
      for (std::int64_t shards : {2, 3}) {
        GradientCase c{{p}};
        c.forward.mask = mask, c.with_grad_lse = true;
        check_sharded_backward<TestType>(c, shards);
      }
}

TEST_CASE("Two disjoint masks of the same keys merge to their union", "[gpu]") {
  SKIP_WITHOUT_GPU();
  ForwardInputs<bfloat16> whole = make_inputs<bfloat16>({{1, 4, 2, 300, 2100, 64}});
  MergeInputs<bfloat16> parts{whole.problem, {}, {}};
  for (std::uint32_t pattern : {0x55555555u, 0xAAAAAAAAu}) {
    ForwardInputs<bfloat16> part = whole;
    for (std::uint32_t& word : part.mask) word &= pattern;
    ForwardOutput<bfloat16> const output = run_forward(part);
    parts.partials.push_back({output.out, output.lse});
  }
  MergeOutput<bfloat16> const merged = run_merge(parts);
  check_forward(whole, ForwardOutput<bfloat16>{merged.out, merged.lse});
}

TEST_CASE("The mask of a shard of queries is the rows of the whole mask", "[gpu]") {
  SKIP_WITHOUT_GPU();
  for (AttentionProblem const& p :
       {AttentionProblem{2, 4, 2, 1000, 2100, 64}, AttentionProblem{1, 3, 3, 700, 700, 128, 64, 64}}) {
    PooledInputs const x = make_pooled(p, PooledKind::clustered, 3);
    MaskRule rule = rule_of(0.05, 0.2);
    for (KeepRule const& keep : {KeepRule{}, KeepRule{70, 10, 150, 0, 0}, KeepRule{0, 0, 0, 130, 200},
                                 KeepRule{1, 1, 64, 1, 1}, KeepRule{0, 0, -1, 129, 600}}) {
      rule.keep = keep;
      MaskWords const whole = run_select(x, rule);
      for (std::int64_t shards : {2, 3})
        for (BlockRange const& rows : split_blocks(p.q_blocks(), shards)) {
          BlockRange const columns{0, p.kv_blocks()};
          PooledInputs part(shard_of(p, rows, columns));
          part.q = shard_of(x.q, {rows.first, rows.first + rows.count}), part.k = x.k;
          MaskWords const mask = run_select(part, rule);
          CHECK(mask == reference::slice_mask(p, view_of(whole), rows, columns));
          check_rows(part, rule, mask);
        }
    }
  }
}

TEST_CASE("A mask that build_mask makes of a shard of queries is the rows of the whole one", "[gpu]") {
  SKIP_WITHOUT_GPU();
  AttentionProblem const p{1, 2, 1, 1000, 2100, 64};
  Random random(5);
  HostTensor<bfloat16> q(q_shape(p)), k(kv_shape(p));
  fill_clustered(q, k, random);
  MaskRule rule = rule_of(0.05, 0.2);
  rule.keep = {1, 1, 200, 10, 300};
  MaskWords const whole = run_build_mask(p, q, k, rule);
  for (BlockRange const& rows : split_blocks(p.q_blocks(), 3)) {
    BlockRange const columns{0, p.kv_blocks()};
    HostTensor<bfloat16> const part = shard_of(q, tokens_of(rows, p.q_block, p.q_tokens));
    CHECK(run_build_mask(shard_of(p, rows, columns), part, k, rule) == run_slice(p, whole, rows, columns));
  }
}
