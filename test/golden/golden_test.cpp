/// The C++ reference against files made by an independent NumPy script, make_golden.py.

#include <cmath>

#include "golden/golden_file.hpp"
#include "sparge/reference/attention.hpp"
#include "sparge/reference/attention_grad.hpp"
#include "sparge/reference/distillation.hpp"
#include "sparge/reference/mask.hpp"
#include "support/catch.hpp"
#include "support/random.hpp"

using namespace sparge;
using namespace sparge::test;

namespace {

/// Largest difference relative to the largest expected value; infinite where sizes or infinities differ.
double relative_difference(std::vector<double> const& actual, std::vector<double> const& expected) {
  if (actual.size() != expected.size()) return std::numeric_limits<double>::infinity();
  double difference = 0, largest = 1e-300;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    if (actual[i] == expected[i]) continue;
    if (!std::isfinite(actual[i]) || !std::isfinite(expected[i]))
      return std::numeric_limits<double>::infinity();
    difference = std::max(difference, std::abs(actual[i] - expected[i]));
  }
  for (double e : expected) largest = std::isfinite(e) ? std::max(largest, std::abs(e)) : largest;
  return difference / largest;
}

/// Golden results are stored in f32.
constexpr double f32_rounding = 1e-7;

MaskWords words_of(AttentionProblem const& p, std::vector<double> const& bytes) {
  return make_mask(p, [&](auto b, auto h, auto i, auto j) {
    return bytes[((b * p.heads + h) * p.q_blocks() + i) * p.kv_blocks() + j] != 0;
  });
}

MaskRule rule_of(std::vector<double> const& rules, int r) {
  double const* const v = rules.data() + 8 * r;
  auto const tokens = [&](int i) { return static_cast<std::int64_t>(v[i]); };
  MaskRule rule;
  rule.top_k = v[0], rule.top_p = v[1], rule.min_blocks = static_cast<std::int32_t>(v[2]);
  rule.keep = {tokens(3), tokens(4), tokens(5), tokens(6), tokens(7)};
  return rule;
}

void check_mask(GoldenFile const& golden, MaskRule const& rule, std::string const& suffix) {
  AttentionProblem const p = golden.problem();
  auto const q = golden.tensor<bfloat16>("q"), k = golden.tensor<bfloat16>("k");
  CAPTURE(suffix);
  CHECK(reference::build_mask(p, rule, q.view(), k.view()) == words_of(p, golden["mask" + suffix]));
  std::vector<float> const pooled_q = reference::to_f32(golden["pooled_q"]);
  std::vector<float> const pooled_k = reference::to_f32(golden["pooled_k"]);
  reference::BlockSelector const selector(p, rule, pooled_q.data(), pooled_k.data());
  std::vector<double> prefixes;
  for (std::int64_t row = 0; row < p.batch * p.heads * p.q_blocks(); ++row) {
    auto const selection =
        selector.row(row / p.q_blocks() / p.heads, row / p.q_blocks() % p.heads, row % p.q_blocks());
    prefixes.push_back(static_cast<double>(selection.n_k));
    prefixes.push_back(static_cast<double>(selection.n_p));
  }
  CHECK(prefixes == golden["prefixes" + suffix]);
}

}  // namespace

TEST_CASE("pooling and masks equal the NumPy ones") {
  std::string const name =
      GENERATE(as<std::string>{}, "mask_tails_gqa.golden", "mask_small_blocks.golden", "mask_ties.golden");
  CAPTURE(name);
  GoldenFile const golden(name);
  AttentionProblem const p = golden.problem();
  auto const q = golden.tensor<float16>("q"), k = golden.tensor<float16>("k");
  CHECK(relative_difference(reference::pool(q.view(), p.q_block), golden["pooled_q"]) < f32_rounding);
  CHECK(relative_difference(reference::pool(k.view(), p.kv_block), golden["pooled_k"]) < f32_rounding);

  int const rules = static_cast<int>(golden.array("rules").shape[0]);
  for (int r = 0; r < rules; ++r) check_mask(golden, rule_of(golden["rules"], r), std::to_string(r));

  std::vector<float> const top_k = reference::to_f32(golden["head_top_k"]);
  std::vector<float> const top_p = reference::to_f32(golden["head_top_p"]);
  MaskRule rule = rule_of(golden["rules"], 0);
  rule.top_k_of_head = top_k.data();
  rule.top_p_of_head = top_p.data();
  check_mask(golden, rule, "_of_heads");
}

TEST_CASE("attention and its gradients equal the NumPy ones") {
  std::string const name =
      GENERATE(as<std::string>{}, "attention_tails_gqa.golden", "attention_few_queries.golden",
               "attention_more_queries.golden", "attention_head_dim_64.golden");
  CAPTURE(name);
  GoldenFile const golden(name);
  AttentionProblem const p = golden.problem();
  auto const q = golden.tensor<bfloat16>("q"), k = golden.tensor<bfloat16>("k");
  auto const v = golden.tensor<bfloat16>("v"), grad_out = golden.tensor<bfloat16>("grad_out");
  MaskWords const mask = words_of(p, golden["mask"]);
  auto const result = reference::attention(p, q.view(), k.view(), v.view(), view_of(mask));
  CHECK(relative_difference(result.out, golden["out"]) < f32_rounding);
  CHECK(relative_difference(result.lse, golden["lse"]) < f32_rounding);

  auto const wide = [&](HostTensor<bfloat16> const& x) {
    HostTensor<double> y(x.shape());
    y.storage() = x.values();
    return y;
  };
  auto const wide_q = wide(q), wide_k = wide(k), wide_v = wide(v), wide_grad_out = wide(grad_out);
  std::vector<double> const grad_lse = golden.eighths("grad_lse");
  reference::AttentionGradArgs<double, double> const args{
      wide_q.view(),
      wide_k.view(),
      wide_v.view(),
      view_of(mask),
      contiguous_bhnd<double const>(result.out.data(), p.batch, p.heads, p.q_tokens, p.head_dim),
      wide_grad_out.view(),
      result.lse.data(),
      grad_lse.data()};
  auto const grad = reference::attention_grad(p, args);
  CHECK(relative_difference(grad.grad_q, golden["grad_q"]) < f32_rounding);
  CHECK(relative_difference(grad.grad_k, golden["grad_k"]) < f32_rounding);
  CHECK(relative_difference(grad.grad_v, golden["grad_v"]) < f32_rounding);
}

TEST_CASE("interpolation and the distillation loss equal the NumPy ones") {
  GoldenFile const golden("distillation.golden");
  std::int64_t const samples = golden.array("x0").shape[0], elements = golden.array("x0").shape[1];
  auto const x0 = golden.eighths("x0"), x1 = golden.eighths("x1");
  CHECK(
      relative_difference(reference::interpolate(x0.data(), x1.data(), golden["t"].data(), samples, elements),
                          golden["xt"]) < 1e-15);
  auto const student = golden.eighths("student"), teacher = golden.eighths("teacher");
  auto const plain = reference::distillation_loss(student.data(), teacher.data(), samples, elements);
  CHECK(relative_difference({plain.loss}, golden["loss"]) < 1e-14);
  CHECK(relative_difference(plain.grad, golden["grad"]) < 1e-14);
  auto const weighted = reference::distillation_loss(student.data(), teacher.data(), samples, elements,
                                                     golden["weight"].data());
  CHECK(relative_difference({weighted.loss}, golden["weighted_loss"]) < 1e-14);
  CHECK(relative_difference(weighted.grad, golden["weighted_grad"]) < 1e-14);
}
