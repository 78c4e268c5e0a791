/// Plans of merge_partials: no GPU is asked.

#include <string>

#include "contract/fake_device.hpp"
#include "sparge/plan/partial_names.hpp"
#include "sparge/sparge.hpp"
#include "support/catch.hpp"
#include "support/gpu.hpp"

using namespace sparge;
using namespace sparge::test;

TEST_CASE("A plan of merge_partials holds what it was made from") {
  AttentionProblem const p{2, 4, 2, 300, 2100, 64};
  PlanOptions options;
  options.pointer_check = PointerCheck::location;
  MergePlan<float> plan;
  must(plan_merge_partials(p, big_device(), options, &plan));
  CHECK(plan.problem == p);
  CHECK(plan.device.sm_count == big_device().sm_count);
  CHECK(plan.options.pointer_check == PointerCheck::location);
}

TEST_CASE("Messages name each partial result") {
  CHECK(std::string(partial_names[0].data) == "partials[0].out.data");
  CHECK(std::string(partial_names[7].shape) == "partials[7].out.shape");
  CHECK(std::string(partial_names[10].stride) == "partials[10].out.stride");
  CHECK(std::string(partial_names[15].lse) == "partials[15].lse");
}

TEST_CASE("A problem knows the whole that it is a shard of") {
  AttentionProblem p{1, 1, 1, 300, 2100, 64};
  CHECK(p.whole_q_tokens() == 300);
  p.q_offset = 256;
  CHECK(p.whole_q_tokens() == 556);
  p.q_tokens = 256, p.all_q_tokens = 1000;
  CHECK(p.whole_q_tokens() == 1000);
}
