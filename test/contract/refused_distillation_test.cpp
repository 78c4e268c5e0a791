/// Wrong plans and arguments of velocity distillation: refused by name before the CUDA runtime is asked for anything. No GPU is
/// needed.

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "contract/fake_device.hpp"
#include "contract/wrong_distillation.hpp"
#include "sparge/sparge.hpp"
#include "support/catch.hpp"

namespace {

using namespace sparge;
using namespace sparge::test;

struct PlanInputs {
  DistillationProblem problem{3, 1001};
  Device device = big_device();
  PlanOptions options;
};

/// Refused, and the caller's plan is as it was.
template <class Plan, class Make>
void check_plan_refused(Make make, PlanInputs const& in, Refusal const& wanted) {
  Plan plan{};
  plan.problem.samples = 77, plan.device.ordinal = 78;
  check_refused(make(in.problem, in.device, in.options, &plan), wanted);
  CHECK(plan.problem.samples == 77);
  CHECK(plan.device.ordinal == 78);
}

void check_plans_refused(PlanInputs const& in, Refusal const& wanted) {
  check_plan_refused<DistillationLossPlan<bfloat16>>(plan_distillation_loss<bfloat16>, in, wanted);
  check_plan_refused<DistillationLossPlan<float16>>(plan_distillation_loss<float16>, in, wanted);
  check_plan_refused<DistillationLossPlan<float>>(plan_distillation_loss<float>, in, wanted);
  check_plan_refused<InterpolatePlan<bfloat16>>(plan_interpolate<bfloat16>, in, wanted);
  check_plan_refused<InterpolatePlan<float16>>(plan_interpolate<float16>, in, wanted);
  check_plan_refused<InterpolatePlan<float>>(plan_interpolate<float>, in, wanted);
}

CallSite imagined_site() { return {{2, 4, 2, 200, 150, 64}, big_device(), {}, imagined_memory()}; }

}  // namespace

TEMPLATE_TEST_CASE("U68 U70 distillation_loss refuses each wrong argument by name", "", bfloat16, float16,
                   float) {
  CallSite site = imagined_site();
  check_refusals(wrong_distillation_calls(lay_out_distillation_loss<TestType>(site)));
}

TEMPLATE_TEST_CASE("U68 U70 interpolate refuses each wrong argument by name", "", bfloat16, float16, float) {
  CallSite site = imagined_site();
  check_refusals(wrong_interpolate_calls(lay_out_interpolate<TestType>(site)));
}

TEST_CASE("Counts of a distillation problem that are negative or do not fit are refused") {
  constexpr std::int64_t huge = std::numeric_limits<std::int64_t>::max();
  auto const refuse = [](std::int64_t samples, std::int64_t elements, Refusal const& wanted) {
    CAPTURE(samples, elements);
    PlanInputs inputs;
    inputs.problem = {samples, elements};
    check_plans_refused(inputs, wanted);
  };
  refuse(-1, 5, invalid("problem.samples", -1));
  refuse(std::numeric_limits<std::int64_t>::min(), 0, invalid("problem.samples"));
  refuse(5, -1, invalid("problem.sample_elements", -1));
  refuse(huge, 1, invalid("problem.samples", huge));
  refuse(1, huge / 3, invalid("problem.samples", 1));
  refuse(0, huge, invalid("problem.samples", 0));
  refuse(std::int64_t{1} << 32, std::int64_t{1} << 32, invalid("problem.samples", std::int64_t{1} << 32));
  DistillationLossPlan<float> plan;
  CHECK(plan_distillation_loss({1, huge / 4}, big_device(), {}, &plan).ok());
}

TEST_CASE("U17 U64 plans of distillation refuse devices and options as others do") {
  PlanInputs old, nowhere, forced, negative, check;
  old.device.capability_major = 7;
  check_plans_refused(old, not_built("device.capability", 70));
  nowhere.device.ordinal = -1;
  check_plans_refused(nowhere, invalid("device.ordinal", -1));
  forced.options.force_kernel = 0;
  check_plans_refused(forced, not_built("options.force_kernel", 0));
  negative.options.force_kernel = -2;
  check_plans_refused(negative, invalid("options.force_kernel", -2));
  check.options.pointer_check = static_cast<PointerCheck>(7);
  check_plans_refused(check, invalid("options.pointer_check", 7));
}

TEST_CASE("A null plan of distillation is refused by name") {
  PlanInputs const in;
  check_refused(plan_distillation_loss<float>(in.problem, in.device, in.options, nullptr), invalid("plan"));
  check_refused(plan_interpolate<bfloat16>(in.problem, in.device, in.options, nullptr), invalid("plan"));
}

TEST_CASE("U05 the place of the loss is needed even where there are no elements") {
  DistillationLossPlan<bfloat16> plan;
  must(plan_distillation_loss({0, 9}, big_device(), {}, &plan));
  check_refused(distillation_loss(plan, {}, {}, nullptr), invalid("loss"));
}
