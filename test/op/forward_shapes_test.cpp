/// forward() on small, odd, partial and empty shapes.

#include <cstdint>
#include <limits>
#include <vector>

#include "sparge/sparge.hpp"
#include "support/attention_case.hpp"
#include "support/catch.hpp"
#include "support/gpu.hpp"

namespace {

using namespace sparge;
using namespace sparge::test;

template <class T>
void check_both_head_dims(ForwardCase c) {
  for (int head_dim : {64, 128}) {
    c.problem.head_dim = head_dim;
    check_case<T>(c);
  }
}

}  // namespace

TEMPLATE_TEST_CASE("U04 U22 one query and one key give the value and the logit as lse", "[gpu]", bfloat16,
                   float16) {
  SKIP_WITHOUT_GPU();
  for (int head_dim : {64, 128}) {
    AttentionProblem const p{1, 1, 1, 1, 1, head_dim};
    ForwardInputs<TestType> inputs = make_inputs<TestType>({p});
    inputs.mask = full_mask(p);
    Random random(3);
    for (HostTensor<TestType>* x : {&inputs.q, &inputs.k, &inputs.v}) fill_gaussian(*x, random, 1, 3);
    ForwardOutput<TestType> const output = run_forward(inputs);
    CHECK(element_bits(output.out) == element_bits(inputs.v));
    check_forward(inputs, output);
  }
}

TEMPLATE_TEST_CASE("U05 empty problems succeed: no query or no batch touches nothing", "[gpu]", bfloat16,
                   float16) {
  SKIP_WITHOUT_GPU();
  Stream const stream;
  for (AttentionProblem const& p :
       {AttentionProblem{0, 2, 1, 100, 100, 64}, AttentionProblem{2, 2, 1, 0, 100, 64},
        AttentionProblem{0, 2, 1, 0, 0, 128}}) {
    ForwardPlan<TestType> plan;
    must(plan_forward(p, test_device(), {}, &plan));
    ForwardArgs<TestType> args;
    args.q = contiguous_bhnd<TestType const>(nullptr, p.batch, p.heads, p.q_tokens, p.head_dim);
    DeviceTensor<TestType> const k(kv_shape(p)), v(kv_shape(p));
    args.k = k.view(), args.v = v.view();
    args.out = contiguous_bhnd<TestType>(nullptr, p.batch, p.heads, p.q_tokens, p.head_dim);
    CHECK(text_of(forward(plan, args, {}, stream)) == text_of(Status{}));
    CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
  }
}

TEMPLATE_TEST_CASE("U05 U92 without keys every row is written as zero with lse of minus infinity", "[gpu]",
                   bfloat16, float16) {
  SKIP_WITHOUT_GPU();
  AttentionProblem const no_keys{2, 4, 2, 200, 0, 64}, none_kept{2, 4, 2, 200, 300, 64};
  for (AttentionProblem const& p : {no_keys, none_kept}) {
    ForwardCase c{p};
    c.mask = MaskKind::none;
    ForwardInputs<TestType> const inputs = make_inputs<TestType>(c);
    ForwardOutput<TestType> const output = run_forward(inputs);
    for (std::uint16_t bits : element_bits(output.out)) REQUIRE((bits & 0x7FFF) == 0);
    for (float lse : output.lse) REQUIRE(lse == -std::numeric_limits<float>::infinity());
  }
}

TEST_CASE("U05 an argument without elements may have any address", "[gpu]") {
  SKIP_WITHOUT_GPU();
  AttentionProblem const p{1, 2, 1, 100, 0, 64};
  ForwardPlan<bfloat16> plan;
  PlanOptions options;
  options.pointer_check = PointerCheck::location;
  must(plan_forward(p, test_device(), options, &plan));
  DeviceTensor<bfloat16> const q({1, 2, 100, 64}), out({1, 2, 100, 64});
  bfloat16 on_the_host;
  ForwardArgs<bfloat16> args;
  args.q = q.view(), args.out = out.view();
  args.k = contiguous_bhnd<bfloat16 const>(out.view().data, 1, 1, 0, 64);
  args.v = contiguous_bhnd<bfloat16 const>(&on_the_host, 1, 1, 0, 64);
  args.mask = {reinterpret_cast<std::uint32_t const*>(out.view().data), 0};
  Stream const stream;
  ScratchBuffer const scratch(plan.workspace_bytes);
  CHECK(text_of(forward(plan, args, scratch.workspace(), stream)) == text_of(Status{}));
  stream.wait();
}

TEMPLATE_TEST_CASE("U36 one query token is attended exactly for every number of keys", "[gpu]", bfloat16,
                   float16) {
  SKIP_WITHOUT_GPU();
  for (std::int64_t kv_tokens = 1; kv_tokens <= 129; ++kv_tokens) {
    ForwardCase c{{1, 2, 1, 1, kv_tokens, kv_tokens % 2 ? 64 : 128}};
    c.mask = MaskKind::full;
    check_case<TestType>(c);
    c.problem.q_tokens = 127;
    if (kv_tokens % 16 <= 1) check_case<TestType>(c);
  }
  ForwardCase c{{1, 2, 1, 1, 75600, 128}};
  c.mask = MaskKind::half;
  check_case<TestType>(c);
  c.problem.q_tokens = 127;
  check_case<TestType>(c);
}

TEMPLATE_TEST_CASE("U37 any number of tokens gives the reference", "[gpu]", bfloat16, float16) {
  SKIP_WITHOUT_GPU();
  for (std::int64_t tokens : {1, 7, 63, 64, 65, 100, 127, 128, 129, 191, 193, 255, 257})
    for (MaskKind mask : {MaskKind::full, MaskKind::uneven}) {
      ForwardCase c{{1, 4, 2, tokens, tokens, 128}};
      c.mask = mask;
      check_both_head_dims<TestType>(c);
    }
}

TEMPLATE_TEST_CASE("U03 every tail of the last block of either axis gives the reference", "[gpu]", bfloat16,
                   float16) {
  SKIP_WITHOUT_GPU();
  for (std::int64_t kv_tail : {1, 2, 7, 15, 16, 17, 31, 33, 48, 63})
    for (std::int64_t q_tail : {1, 16, 63, 64, 65, 127}) {
      AttentionProblem const p{1, 2, 2, 128 * 3 + q_tail, 64 * 7 + kv_tail, 64};
      ForwardInputs<TestType> inputs = make_inputs<TestType>({p});
      Random random(static_cast<std::uint64_t>(128 * kv_tail + q_tail));
      for (HostTensor<TestType>* x : {&inputs.q, &inputs.k, &inputs.v}) fill_gaussian(*x, random, 3);
      inputs.mask = random_mask(p, random, 0.6);
      CAPTURE(kv_tail, q_tail);
      check_forward(inputs, run_forward(inputs));
    }
}

TEMPLATE_TEST_CASE("U38 U49 sequences far below one block give the reference", "[gpu]", bfloat16, float16) {
  SKIP_WITHOUT_GPU();
  for (std::int64_t q_tokens : {1, 2, 5, 6})
    for (std::int64_t kv_tokens : {1, 3, 6})
      for (MaskKind mask : {MaskKind::full, MaskKind::none}) {
        ForwardCase c{{2, 2, 1, q_tokens, kv_tokens, 64}};
        c.mask = mask;
        check_both_head_dims<TestType>(c);
      }
}

TEMPLATE_TEST_CASE("U39 keys that are missing from the last block add nothing to the sum", "[gpu]", bfloat16,
                   float16) {
  SKIP_WITHOUT_GPU();
  for (std::int64_t kv_tokens : {4097, 65, 1}) {
    AttentionProblem const p{1, 1, 1, 200, kv_tokens, 64};
    ForwardInputs<TestType> inputs = make_inputs<TestType>({p});
    inputs.mask = full_mask(p);
    Random random(5);
    fill_gaussian(inputs.q, random, 0.05, 2);  // scaled logits near -30: a zero key would add exp(0) = 1
    fill_gaussian(inputs.k, random, 0.05, -1.875);
    check_forward(inputs, run_forward(inputs));
  }
}

TEMPLATE_TEST_CASE("U41 U42 query and key counts that differ give one output row a query", "[gpu]", bfloat16,
                   float16) {
  SKIP_WITHOUT_GPU();
  ForwardCase c{{1, 2, 2, 2852, 2893, 64}};
  c.mask = MaskKind::tenth;
  check_case<TestType>(c);
  c.problem = {1, 4, 4, 512, 2048, 128};
  check_case<TestType>(c);
  c.problem = {1, 4, 1, 2048, 77, 128};
  c.mask = MaskKind::half;
  check_case<TestType>(c);
}

TEST_CASE("U44 token counts of real resolutions give the reference on sampled rows", "[gpu]") {
  SKIP_WITHOUT_GPU();
  for (std::int64_t tokens : {20160, 57600, 18200, 119056}) {
    CAPTURE(tokens);
    ForwardCase c{{1, 1, 1, tokens, tokens, 64}};
    c.mask = MaskKind::tenth;
    ForwardInputs<bfloat16> const inputs = make_inputs<bfloat16>(c);
    Random random(11);
    ForwardTruth const truth = truth_of(inputs, sample_rows(c.problem, random, 64));
    check_forward(c.problem, truth, run_forward(inputs));
  }
}
