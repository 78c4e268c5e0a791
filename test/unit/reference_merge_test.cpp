/// The reference over shards: merged forward results, gradients that add up, masks cut out of a whole one.

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "sparge/reference/merge.hpp"
#include "support/catch.hpp"
#include "support/shard_case.hpp"

using namespace sparge;
using namespace sparge::test;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// Partial tails on both axes, grouped heads, two mask words a row.
AttentionProblem some_problem() { return {2, 4, 2, 300, 2100, 8, 64, 64}; }

GradientInputs<float> some_inputs(MaskKind mask) {
  ForwardCase c{some_problem()};
  c.mask = mask;
  ForwardInputs<float> inputs = make_inputs<float>(c);
  return make_gradient_inputs(std::move(inputs), 3, 1, true);
}

double largest_difference(std::vector<double> const& a, std::vector<double> const& b) {
  REQUIRE(a.size() == b.size());
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (a[i] != b[i]) largest = max_or_nan(largest, std::abs(a[i] - b[i]));
  return largest;
}

/// A result in f32, as forward stores it.
struct StoredPartial {
  HostTensor<float> out;
  std::vector<float> lse;
};

StoredPartial stored(AttentionProblem const& p, reference::Attention const& result) {
  StoredPartial partial{HostTensor<float>(q_shape(p)), {result.lse.begin(), result.lse.end()}};
  partial.out.storage().assign(result.out.begin(), result.out.end());
  return partial;
}

reference::Attention merged_over(ForwardInputs<float> const& whole, std::int64_t shards) {
  BlockRange const all_q{0, whole.problem.q_blocks()};
  std::vector<StoredPartial> partials;
  for (BlockRange const& kv : split_blocks(whole.problem.kv_blocks(), shards)) {
    ForwardInputs<float> const shard = shard_of(whole, all_q, kv);
    partials.push_back(
        stored(shard.problem, reference::attention(shard.problem, shard.q.const_view(), shard.k.const_view(),
                                                   shard.v.const_view(), view_of(shard.mask))));
  }
  std::vector<Partial<float>> views;
  for (StoredPartial const& partial : partials)
    views.push_back({partial.out.const_view(), partial.lse.data()});
  return reference::merge_partials(whole.problem, views);
}

}  // namespace

TEST_CASE("U91 U92 U93 the reference over key shards merges to the one over all keys") {
  for (MaskKind mask : {MaskKind::full, MaskKind::tenth, MaskKind::uneven, MaskKind::holes, MaskKind::none}) {
    ForwardInputs<float> const whole = some_inputs(mask).forward;
    auto const wanted = reference::attention(whole.problem, whole.q.const_view(), whole.k.const_view(),
                                             whole.v.const_view(), view_of(whole.mask));
    for (std::int64_t shards : {1, 2, 4, 7}) {
      CAPTURE(static_cast<int>(mask), shards);
      auto const merged = merged_over(whole, shards);
      CHECK(largest_difference(merged.out, wanted.out) < 1e-6);
      CHECK(largest_difference(merged.lse, wanted.lse) < 1e-6);
    }
  }
}

TEST_CASE("The reference merges rows without keys, and NaN and infinity, by the stated rules") {
  AttentionProblem const p{1, 1, 1, 1, 64, 2};
  auto const nan = std::nanf("");
  auto const merge = [&](std::vector<float> const& lses, std::vector<float> const& values) {
    std::vector<StoredPartial> parts;
    std::vector<Partial<float>> views;
    for (std::size_t i = 0; i < lses.size(); ++i)
      parts.push_back(stored(p, {{values[i], values[i]}, {lses[i]}}));
    for (StoredPartial const& part : parts) views.push_back({part.out.const_view(), part.lse.data()});
    return reference::merge_partials(p, views);
  };
  float const inf = std::numeric_limits<float>::infinity();
  auto const none = merge({-inf, -inf}, {nan, 5});
  CHECK((none.out == std::vector<double>{0, 0} && none.lse[0] == -infinity));
  auto const one = merge({-inf, 3, -inf}, {nan, 5, inf});
  CHECK((one.out == std::vector<double>{5, 5} && one.lse[0] == 3));
  auto const two = merge({0, static_cast<float>(std::log(3.0))}, {4, 8});
  CHECK(std::abs(two.out[0] - 7) < 1e-6);
  CHECK(std::abs(two.lse[0] - std::log(4.0)) < 1e-6);
  CHECK(std::isnan(merge({0, 0}, {1, nan}).out[0]));
  for (float lse : {nan, inf}) CHECK(std::isnan(merge({lse, 0}, {1, 1}).lse[0]));
  for (float lse : {nan, inf}) CHECK(std::isnan(merge({lse, -inf}, {1, 1}).out[0]));
}

TEST_CASE("Gradients of shards add up where each is given the merged out and lse") {
  for (MaskKind mask : {MaskKind::full, MaskKind::uneven, MaskKind::holes}) {
    GradientInputs<float> const whole = some_inputs(mask);
    AttentionProblem const& p = whole.problem();
    auto const wanted = reference::attention_grad(p, whole.reference_args());
    GradientSum sum(p);
    for (BlockRange const& q : split_blocks(p.q_blocks(), 2))
      for (BlockRange const& kv : split_blocks(p.kv_blocks(), 3)) {
        GradientInputs<float> const shard = shard_of(whole, q, kv);
        auto const grad = reference::attention_grad(shard.problem(), shard.reference_args());
        sum.add(q, kv, grad.grad_q, grad.grad_k, grad.grad_v);
      }
    CHECK(largest_difference(sum.grad_q, wanted.grad_q) < 1e-12);
    CHECK(largest_difference(sum.grad_k, wanted.grad_k) < 1e-12);
    CHECK(largest_difference(sum.grad_v, wanted.grad_v) < 1e-12);
  }
}

TEST_CASE("A mask that is cut in pieces holds each bit once and zeros in its padding") {
  AttentionProblem const p{2, 3, 1, 700, 64 * 70 - 5, 64};
  Random random(5);
  MaskWords const whole = make_mask(p, MaskKind::half, random);
  std::int64_t kept = 0;
  for (BlockRange const& q : split_blocks(p.q_blocks(), 4))
    for (BlockRange const& kv : split_blocks(p.kv_blocks(), 3)) {
      MaskWords const piece = reference::slice_mask(p, view_of(whole), q, kv);
      CHECK(piece.size() == reference::mask_words(shard_of(p, q, kv)));
      kept += count_kept(piece);
    }
  CHECK(kept == count_kept(reference::slice_mask(p, view_of(whole), {0, p.q_blocks()}, {0, p.kv_blocks()})));
}

TEST_CASE("The mask of a shard of queries is the rows of the whole mask in the reference") {
  AttentionProblem p{2, 4, 2, 1000, 2100, 64};
  Random random(9);
  HostTensor<float> q(q_shape(p)), k(kv_shape(p));
  fill_clustered(q, k, random);
  MaskRule rule;
  rule.top_k = 0.05, rule.top_p = 0.2;
  for (KeepRule const& keep : {KeepRule{}, KeepRule{70, 10, 150, 0, 0}, KeepRule{0, 0, 0, 130, 200},
                               KeepRule{1, 1, 64, 1, 1}, KeepRule{0, 0, -1, 129, 873}}) {
    rule.keep = keep;
    MaskWords const whole = reference::build_mask(p, rule, q.const_view(), k.const_view());
    for (std::int64_t shards : {1, 2, 3, 8})
      for (BlockRange const& rows : split_blocks(p.q_blocks(), shards)) {
        AttentionProblem const shard = shard_of(p, rows, {0, p.kv_blocks()});
        HostTensor<float> const part = shard_of(q, tokens_of(rows, p.q_block, p.q_tokens));
        CHECK(reference::build_mask(shard, rule, part.const_view(), k.const_view()) ==
              reference::slice_mask(p, view_of(whole), rows, {0, p.kv_blocks()}));
      }
  }
}
