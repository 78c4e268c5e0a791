// A plan as bytes: what goes in comes out, and equal plans are equal bytes, so that a caller may compare them.

#include <cstring>

#include "c_api/plan_bytes.hpp"
#include "contract/c_structs.hpp"
#include "contract/fake_device.hpp"
#include "support/gpu.hpp"

using namespace sparge;
using namespace sparge::test;

namespace {

AttentionProblem some_problem() { return {3, 6, 2, 301, 2102, 64, 64, 128, 0.3f}; }

PlanOptions some_options() {
  PlanOptions options;
  options.pointer_check = PointerCheck::location;
  return options;
}

template <class Plan>
sparge_plan stored(Plan const& plan) {
  auto out = sized<sparge_plan>();
  c_api::store(plan, &out);
  return out;
}

bool same_bytes(sparge_plan const& a, sparge_plan const& b) { return std::memcmp(&a, &b, sizeof a) == 0; }

/// Sets every value of `to`, and no byte between them.
template <class Plan>
void copy_values(Plan from, Plan* to) {
  unsigned char values[sizeof(Plan)];
  c_api::ValueWriter writer(values);
  c_api::each_value(from, writer);
  c_api::ValueReader reader(values);
  c_api::each_value(*to, reader);
}

template <class Plan>
void check_bytes(Plan const& plan, Plan const& other) {
  sparge_plan const wanted = stored(plan);
  CHECK(same_bytes(stored(c_api::load<Plan>(&wanted)), wanted));
  CHECK_FALSE(same_bytes(stored(other), wanted));
  Plan copy;
  for (int padding : {0x00, 0xAB}) {
    std::memset(static_cast<void*>(&copy), padding, sizeof copy);
    copy_values(plan, &copy);
    CHECK(same_bytes(stored(copy), wanted));
  }
}

template <class Plan>
using MakePlan = Status (*)(AttentionProblem const&, Device const&, PlanOptions const&, Plan*) noexcept;

template <class Plan>
void check_attention_plan(MakePlan<Plan> make) {
  Plan plan, other;
  must(make(some_problem(), big_device(), some_options(), &plan));
  AttentionProblem changed = some_problem();
  changed.q_tokens += 1;
  must(make(changed, big_device(), some_options(), &other));
  check_bytes(plan, other);
  sparge_plan const bytes = stored(plan);
  Plan const back = c_api::load<Plan>(&bytes);
  CHECK(back.problem == plan.problem);
  CHECK(back.device.l2_bytes == big_device().l2_bytes);
  CHECK(back.device.sm_count == big_device().sm_count);
  CHECK(back.options.pointer_check == PointerCheck::location);
  CHECK(back.options.force_kernel == -1);
}

template <class Plan>
void check_distillation_plan(Status (*make)(DistillationProblem const&, Device const&, PlanOptions const&,
                                            Plan*) noexcept) {
  Plan plan, other;
  must(make({3, 1001}, big_device(), some_options(), &plan));
  must(make({3, 1002}, big_device(), some_options(), &other));
  check_bytes(plan, other);
  sparge_plan const bytes = stored(plan);
  Plan const back = c_api::load<Plan>(&bytes);
  CHECK(back.problem == plan.problem);
  CHECK(back.device.l2_bytes == big_device().l2_bytes);
  CHECK(back.options.pointer_check == PointerCheck::location);
}

}  // namespace

TEST_CASE("C plans hold the values of C++ plans and nothing between them") {
  check_attention_plan<PoolPlan<bfloat16>>(plan_pool);
  check_attention_plan<SelectPlan>(plan_select_blocks);
  check_attention_plan<BuildMaskPlan<float16>>(plan_build_mask);
  check_attention_plan<MaskStatsPlan>(plan_mask_stats);
  check_attention_plan<CalibratePlan>(plan_calibrate);
  check_attention_plan<MaskFormPlan>(plan_mask_form);
  check_attention_plan<ForwardPlan<bfloat16>>(plan_forward);
  check_attention_plan<BackwardPlan<float16>>(plan_backward);
  check_attention_plan<MergePlan<bfloat16>>(plan_merge_partials);
  check_attention_plan<MergePlan<float>>(plan_merge_partials);
  check_distillation_plan<DistillationLossPlan<float>>(plan_distillation_loss);
  check_distillation_plan<InterpolatePlan<bfloat16>>(plan_interpolate);
}
