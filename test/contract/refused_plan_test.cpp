/// Wrong problems, devices and options: every plan_* refuses them by name. No GPU is asked.

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "contract/fake_device.hpp"
#include "contract/refusal.hpp"
#include "sparge/throwing.hpp"
#include "support/catch.hpp"

namespace {

using namespace sparge;
using namespace sparge::test;

struct PlanInputs {
  AttentionProblem problem{2, 12, 4, 200, 150, 64};
  Device device = big_device();
  PlanOptions options;
};

/// A plan call, and whether a refusal left the caller's plan as it was.
struct PlanCall {
  char const* name;
  Status (*plan)(PlanInputs const&, bool* untouched);
  Status (*plan_into_null)(PlanInputs const&);
};

template <class Plan,
          Status (*make)(AttentionProblem const&, Device const&, PlanOptions const&, Plan*) noexcept>
PlanCall plan_call(char const* name) {
  return {name,
          [](PlanInputs const& in, bool* untouched) {
            Plan plan{};
            plan.problem.batch = 77;
            plan.device.ordinal = 78;
            Status const status = make(in.problem, in.device, in.options, &plan);
            *untouched = plan.problem.batch == 77 && plan.problem.heads == 0 && plan.device.ordinal == 78;
            return status;
          },
          [](PlanInputs const& in) { return make(in.problem, in.device, in.options, nullptr); }};
}

std::vector<PlanCall> every_plan_call() {
  return {plan_call<PoolPlan<bfloat16>, plan_pool<bfloat16>>("plan_pool bf16"),
          plan_call<PoolPlan<float16>, plan_pool<float16>>("plan_pool f16"),
          plan_call<SelectPlan, plan_select_blocks>("plan_select_blocks"),
          plan_call<BuildMaskPlan<bfloat16>, plan_build_mask<bfloat16>>("plan_build_mask bf16"),
          plan_call<BuildMaskPlan<float16>, plan_build_mask<float16>>("plan_build_mask f16"),
          plan_call<MaskStatsPlan, plan_mask_stats>("plan_mask_stats"),
          plan_call<CalibratePlan, plan_calibrate>("plan_calibrate"),
          plan_call<MaskFormPlan, plan_mask_form>("plan_mask_form"),
          plan_call<ForwardPlan<bfloat16>, plan_forward<bfloat16>>("plan_forward bf16"),
          plan_call<ForwardPlan<float16>, plan_forward<float16>>("plan_forward f16"),
          plan_call<MergePlan<bfloat16>, plan_merge_partials<bfloat16>>("plan_merge_partials bf16"),
          plan_call<MergePlan<float>, plan_merge_partials<float>>("plan_merge_partials f32")};
}

void check_all_refuse(PlanInputs const& inputs, Refusal const& wanted) {
  for (PlanCall const& call : every_plan_call()) {
    CAPTURE(call.name);
    bool untouched = false;
    check_refused(call.plan(inputs, &untouched), wanted);
    CHECK(untouched);
  }
}

template <class Spoil>
void check_all_refuse_problem(Spoil spoil, Refusal const& wanted) {
  PlanInputs inputs;
  spoil(inputs.problem);
  check_all_refuse(inputs, wanted);
}

constexpr std::int64_t huge = std::numeric_limits<std::int64_t>::max();

}  // namespace

TEST_CASE("Every plan call accepts the problem that the refusals spoil") {
  for (PlanCall const& call : every_plan_call()) {
    CAPTURE(call.name);
    bool untouched = true;
    Status const status = call.plan({}, &untouched);
    CHECK(text_of(status) == text_of(Status{}));
    CHECK_FALSE(untouched);
  }
}

TEST_CASE("A null plan is refused by name") {
  for (PlanCall const& call : every_plan_call()) {
    CAPTURE(call.name);
    check_refused(call.plan_into_null({}), invalid("plan"));
  }
}

TEST_CASE("U09 head counts that do not divide and counts below their least are refused") {
  using P = AttentionProblem;
  check_all_refuse_problem([](P& p) { p.batch = -1; }, invalid("problem.batch", -1));
  check_all_refuse_problem([](P& p) { p.heads = 0; }, invalid("problem.heads", 0));
  check_all_refuse_problem([](P& p) { p.heads = -3; }, invalid("problem.heads", -3));
  check_all_refuse_problem([](P& p) { p.kv_heads = 0; }, invalid("problem.kv_heads", 0));
  check_all_refuse_problem([](P& p) { p.kv_heads = -4; }, invalid("problem.kv_heads", -4));
  check_all_refuse_problem([](P& p) { p.kv_heads = 5; }, invalid("problem.kv_heads", 5, 12));
  check_all_refuse_problem([](P& p) { p.kv_heads = 24; }, invalid("problem.kv_heads", 24, 12));
  check_all_refuse_problem([](P& p) { p.q_tokens = -1; }, invalid("problem.q_tokens", -1));
  check_all_refuse_problem([](P& p) { p.kv_tokens = -64; }, invalid("problem.kv_tokens", -64));
}

TEST_CASE("U42 U67 a head_dim that is not built is refused whatever it is") {
  for (int head_dim : {1,   8,   16,  32,  40,  46,  63,  65,  72,  80,  88,     96,
                       100, 112, 127, 129, 136, 160, 192, 256, 264, 512, 1 << 30}) {
    CAPTURE(head_dim);
    check_all_refuse_problem([&](AttentionProblem& p) { p.head_dim = head_dim; },
                             not_built("problem.head_dim", head_dim));
  }
  for (int head_dim : {0, -1, -64})
    check_all_refuse_problem([&](AttentionProblem& p) { p.head_dim = head_dim; },
                             invalid("problem.head_dim", head_dim));
}

TEST_CASE("U48 U67 the refusal of a head_dim or a mask block lists the built ones") {
  PlanInputs wrong_head_dim, wrong_q_block, wrong_kv_block;
  wrong_head_dim.problem.head_dim = 96;
  wrong_q_block.problem.q_block = wrong_kv_block.problem.kv_block = 96;
  for (PlanCall const& call : every_plan_call())
    for (PlanInputs const& inputs : {wrong_head_dim, wrong_q_block, wrong_kv_block}) {
      bool untouched = false;
      std::string const text = text_of(call.plan(inputs, &untouched));
      CAPTURE(call.name, text);
      CHECK(text.find("64 and 128") != std::string::npos);
    }
}

TEST_CASE("U48 U49 mask block sizes that are not built are refused") {
  for (int block : {-128, 0, 1, 2, 3, 16, 32, 63, 96, 100, 127, 129, 192, 256, 1 << 30}) {
    CAPTURE(block);
    check_all_refuse_problem([&](AttentionProblem& p) { p.q_block = block; },
                             not_built("problem.q_block", block));
    check_all_refuse_problem([&](AttentionProblem& p) { p.kv_block = block; },
                             not_built("problem.kv_block", block));
  }
}

TEST_CASE("U57 a scale that is not finite and positive is refused") {
  float const infinity = std::numeric_limits<float>::infinity();
  for (float scale : {-1.0f, -1e-30f, infinity, -infinity, std::nanf(""), 3e38f}) {
    CAPTURE(scale);
    check_all_refuse_problem([&](AttentionProblem& p) { p.scale = scale; }, invalid("problem.scale"));
  }
}

TEST_CASE("U43 U64 causal order is refused until it is built") {
  check_all_refuse_problem([](AttentionProblem& p) { p.order = TokenOrder::causal_bottom_right; },
                           not_built("problem.order", 1));
  check_all_refuse_problem([](AttentionProblem& p) { p.order = static_cast<TokenOrder>(9); },
                           not_built("problem.order", 9));
}

TEST_CASE("U64 shards of queries that are not whole blocks of the whole problem are refused") {
  using P = AttentionProblem;
  check_all_refuse_problem([](P& p) { p.q_offset = -128; }, invalid("problem.q_offset", -128));
  check_all_refuse_problem([](P& p) { p.q_offset = 64; }, invalid("problem.q_offset", 64, 128));
  check_all_refuse_problem([](P& p) { p.q_block = 64, p.q_offset = 100; },
                           invalid("problem.q_offset", 100, 64));
  std::int64_t const far = huge / 128 * 128;
  check_all_refuse_problem([&](P& p) { p.q_offset = far; }, not_built("problem.q_offset", far));
  check_all_refuse_problem([&](P& p) { p.all_q_tokens = huge; }, not_built("problem.all_q_tokens", huge));
  check_all_refuse_problem([](P& p) { p.q_offset = 128, p.all_q_tokens = 327; },
                           invalid("problem.all_q_tokens", 327, 328));
  check_all_refuse_problem([](P& p) { p.all_q_tokens = -1; }, invalid("problem.all_q_tokens", -1, 200));
  check_all_refuse_problem([](P& p) { p.all_q_tokens = 201; }, invalid("problem.q_tokens", 200, 128));
}

TEST_CASE("Shards of queries are accepted by every plan call") {
  for (auto const& [offset, tokens, all] : {std::array<std::int64_t, 3>{0, 128, 1000},
                                            {128, 256, 1000},
                                            {896, 104, 1000},
                                            {896, 104, 0},
                                            {256, 0, 1000},
                                            {1024, 0, 1000}}) {
    PlanInputs inputs;
    inputs.problem.q_offset = offset, inputs.problem.q_tokens = tokens, inputs.problem.all_q_tokens = all;
    for (PlanCall const& call : every_plan_call()) {
      CAPTURE(call.name, offset, tokens, all);
      bool untouched = true;
      CHECK(text_of(call.plan(inputs, &untouched)) == text_of(Status{}));
    }
  }
}

TEST_CASE("Sizes that do not fit are refused instead of wrapping") {
  using P = AttentionProblem;
  std::int64_t const past_int = std::int64_t{1} << 31;
  check_all_refuse_problem([&](P& p) { p.q_tokens = past_int; }, not_built("problem.q_tokens", past_int));
  check_all_refuse_problem([&](P& p) { p.kv_tokens = past_int; }, not_built("problem.kv_tokens", past_int));
  check_all_refuse_problem([&](P& p) { p.q_tokens = huge; }, not_built("problem.q_tokens", huge));
  check_all_refuse_problem([&](P& p) { p.batch = huge; }, invalid("problem.batch", huge));
  check_all_refuse_problem([&](P& p) { p.batch = huge / 64; }, invalid("problem.batch", huge / 64));
  check_all_refuse_problem([&](P& p) { p.batch = 1 << 20, p.heads = p.kv_heads = std::int64_t{1} << 40; },
                           invalid("problem.batch", 1 << 20));
  check_all_refuse_problem(  // the tensors fit, the mask does not
      [&](P& p) {
        p.batch = 1 << 12, p.heads = 1 << 10, p.kv_heads = 1;
        p.q_tokens = p.kv_tokens = std::int64_t{1} << 30;
      },
      invalid("problem.batch", 1 << 12));
}

TEST_CASE("U17 U95 a GPU without a kernel is refused with its capability") {
  for (int capability : {0, 52, 70, 75}) {
    CAPTURE(capability);
    PlanInputs inputs;
    inputs.device.capability_major = capability / 10;
    inputs.device.capability_minor = capability % 10;
    check_all_refuse(inputs, not_built("device.capability", capability));
  }
  PlanInputs inputs;
  inputs.device.ordinal = -1;
  check_all_refuse(inputs, invalid("device.ordinal", -1));
}

TEST_CASE("Options that mean nothing are refused") {
  PlanInputs inputs;
  inputs.options.force_kernel = -2;
  check_all_refuse(inputs, invalid("options.force_kernel", -2));
  inputs.options.force_kernel = -1;
  inputs.options.pointer_check = static_cast<PointerCheck>(7);
  check_all_refuse(inputs, invalid("options.pointer_check", 7));
}

TEST_CASE("A forced kernel is refused where there is no choice of kernels") {
  PlanInputs inputs;
  inputs.options.force_kernel = 0;
  for (PlanCall const& call : every_plan_call()) {
    CAPTURE(call.name);
    bool untouched = false;
    Status const status = call.plan(inputs, &untouched);
    if (std::string(call.name).find("forward") != std::string::npos) continue;
    check_refused(status, not_built("options.force_kernel", 0));
    CHECK(untouched);
  }
}

TEST_CASE("The size functions refuse what plans refuse and leave the caller's number alone") {
  std::size_t words = 99;
  PlanInputs inputs;
  check_refused(mask_words(inputs.problem, nullptr), invalid("words"));
  check_refused(transposed_mask_words(inputs.problem, nullptr), invalid("words"));
  inputs.problem.kv_block = 96;
  check_refused(mask_words(inputs.problem, &words), not_built("problem.kv_block", 96));
  check_refused(transposed_mask_words(inputs.problem, &words), not_built("problem.kv_block", 96));
  CHECK(words == 99);
  check_refused(query_device(0, nullptr), invalid("device"));
}

TEST_CASE("check throws what a call refuses, with its text and its status, and nothing else") {
  CHECK_NOTHROW(check(Status{}));
  std::size_t words = 0;
  AttentionProblem wrong = PlanInputs{}.problem;
  wrong.kv_block = 96;
  Status const refused = mask_words(wrong, &words);
  try {
    check(refused);
    FAIL("check() let a refusal pass");
  } catch (Error const& error) {
    CHECK(error.what() == text_of(refused));
    check_refused(error.status(), not_built("problem.kv_block", 96));
  }
}

TEST_CASE("describe always terminates and reports the length of the whole line") {
  PlanInputs inputs;
  inputs.problem.head_dim = 96;
  ForwardPlan<bfloat16> plan;
  Status const status = plan_forward(inputs.problem, inputs.device, inputs.options, &plan);
  std::size_t const length = describe(status, nullptr, 0);
  REQUIRE(length > 20);
  std::vector<char> text(length + 8, '?');
  for (std::size_t size = 1; size < text.size(); ++size) {
    CHECK(describe(status, text.data(), size) == length);
    CHECK(std::strlen(text.data()) == std::min(size - 1, length));
    CHECK(text[size] == '?');
    text.assign(text.size(), '?');
    if (size + 1 == text.size()) break;
  }
}
