/// U45: random shapes, strides, masks, rules, inputs and kernels against the reference. A failure shows its seed; run
/// it again by --rng-seed with the number that is shown first.

#include <cstdint>
#include <string>

#include "op/mask_band.hpp"
#include "op/mask_runs.hpp"
#include "sparge/sparge.hpp"
#include "support/attention_case.hpp"
#include "support/catch.hpp"
#include "support/gpu.hpp"

namespace {

using namespace sparge;
using namespace sparge::test;

/// What --rng-seed gave; chosen by Catch2 otherwise.
std::uint64_t run_seed() {
#if __has_include(<catch2/catch_all.hpp>)
  return Catch::getSeed();
#else
  return Catch::rngSeed();
#endif
}

template <class Value, std::size_t count>
Value pick(Random& random, Value const (&values)[count]) {
  return values[random.below(static_cast<std::int64_t>(count))];
}

/// Mostly small counts, often next to a multiple of 64, sometimes none.
std::int64_t random_tokens(Random& random, std::int64_t most) {
  if (random.chance(0.03)) return 0;
  if (random.chance(0.4))
    return std::max<std::int64_t>(1, 64 * random.below(most / 64) + random.below(3) - 1);
  return 1 + random.below(random.chance(0.3) ? 130 : most);
}

AttentionProblem random_problem(Random& random) {
  AttentionProblem p;
  p.batch = 1 + random.below(3);
  p.kv_heads = 1 + random.below(3);
  p.heads = p.kv_heads * (1 + random.below(3));
  p.q_tokens = random_tokens(random, 500);
  p.kv_tokens = random_tokens(random, random.chance(0.1) ? 5000 : 900);
  p.head_dim = random.chance(0.5) ? 64 : 128;
  p.q_block = random.chance(0.5) ? 64 : 128;
  p.kv_block = random.chance(0.5) ? 64 : 128;
  if (random.chance(0.3)) p.scale = static_cast<float>(0.01 + random.uniform());
  return p;
}

MaskRule random_rule(AttentionProblem const& p, Random& random) {
  MaskRule rule = rule_of(pick(random, {0.0, 0.03, 0.1, 0.5, 1.0}), pick(random, {0.0, 0.2, 0.5, 0.95, 1.0}),
                          static_cast<std::int32_t>(random.below(4)));
  if (random.chance(0.3)) rule.keep.kv_front_tokens = random.below(p.kv_tokens + 100);
  if (random.chance(0.3)) rule.keep.kv_back_tokens = random.below(200);
  if (random.chance(0.3)) rule.keep.band_tokens = random.below(300);
  if (random.chance(0.2)) rule.keep.dense_q_front_tokens = random.below(200);
  if (random.chance(0.2)) rule.keep.dense_q_back_tokens = random.below(200);
  return rule;
}

ForwardCase random_case(Random& random) {
  constexpr Layout layouts[] = {Layout::bhnd, Layout::bnhd, Layout::padded_rows, Layout::fused_qkv};
  ForwardCase c{random_problem(random)};
  c.inputs = pick(random, every_inputs);
  if (c.inputs == Inputs::heavy_tailed) c.problem.scale = 0;  // else logits of 1e5 meet near ties
  c.mask = pick(random, every_mask_kind);
  c.seed = random.next();
  c.q_layout = pick(random, layouts), c.k_layout = pick(random, layouts), c.v_layout = pick(random, layouts);
  return c;
}

/// build_mask on the inputs, against the reference on the vectors that the device pools; then forward with that mask
/// or with one of any kind.
template <class T>
void check_seed(std::uint64_t seed) {
  Random random(seed);
  ForwardCase const c = random_case(random);
  AttentionProblem const& p = c.problem;
  ForwardInputs<T> inputs = make_inputs<T>(c);
  MaskRule const rule = random_rule(p, random);
  MaskWords const built = run_build_mask(p, inputs.q, inputs.k, rule);
  check_rows(run_pool(p, inputs.q, inputs.k), rule, built);
  if (random.chance(0.5)) inputs.mask = built;
  ForwardChoices choices;
  choices.out_layout = random.chance(0.5) ? Layout::bnhd : Layout::padded_rows;
  choices.with_lse = random.chance(0.7);
  std::vector<std::int32_t> const kernels = kernels_for(element_type_of<T>, p, test_device());
  REQUIRE_FALSE(kernels.empty());
  if (random.chance(0.5))
    choices.options.force_kernel =
        kernels[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(kernels.size())))];
  CAPTURE(p.batch, p.heads, p.kv_heads, p.q_tokens, p.kv_tokens, p.head_dim, p.q_block, p.kv_block, p.scale);
  CAPTURE(static_cast<int>(c.inputs), static_cast<int>(c.mask), choices.options.force_kernel);
  check_forward(inputs, run_forward(inputs, choices));
}

}  // namespace

TEMPLATE_TEST_CASE("U45 random cases give the reference", "[gpu][fuzz]", bfloat16, float16) {
  SKIP_WITHOUT_GPU();
  std::uint64_t const rng_seed = run_seed();
  for (std::uint64_t i = 0; i < 250; ++i) {
    CAPTURE(rng_seed, i);
    check_seed<TestType>(rng_seed * 1000 + i);
  }
}
