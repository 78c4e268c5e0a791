/// Wrong arguments of backward(): refused by name before the CUDA runtime is asked for anything. No GPU is needed.

#include <cstdint>
#include <string>

#include "contract/fake_device.hpp"
#include "contract/wrong_backward.hpp"
#include "sparge/sparge.hpp"
#include "support/catch.hpp"

namespace {

using namespace sparge;
using namespace sparge::test;

template <class T>
void check_table() {
  CallSite site{{2, 4, 2, 200, 150, 64}, big_device(), {}, imagined_memory()};
  BackwardCall<T> const right = lay_out_backward<T>(site);
  check_refusals(wrong_backward_calls(right));
}

}  // namespace

TEST_CASE("U16 U46 U68 U70 backward refuses each wrong argument by name in bf16") { check_table<bfloat16>(); }

TEST_CASE("U16 U46 U68 U70 backward refuses each wrong argument by name in f16") { check_table<float16>(); }

TEST_CASE("U96 a GPU with 99 KB of shared memory gets backward kernels that fit it") {
  for (int head_dim : {64, 128}) {
    AttentionProblem const p{1, 1, 1, 300, 300, head_dim};
    BackwardPlan<bfloat16> big, small;
    must(plan_backward(p, big_device(), {}, &big));
    must(plan_backward(p, small_device(), {}, &small));
    CHECK(big.dkdv_kernel != small.dkdv_kernel);
    CHECK(big.dq_kernel != small.dq_kernel);
    CHECK(big.workspace_bytes >= small.workspace_bytes);
    Device tiny = small_device();
    tiny.shared_bytes_per_block = 16384;
    BackwardPlan<bfloat16> none;
    check_refused(plan_backward(p, tiny, {}, &none), not_built("device.shared_bytes_per_block", 16384));
    PlanOptions too_large;
    too_large.force_kernel = big.dkdv_kernel;
    check_refused(plan_backward(p, tiny, too_large, &none),
                  not_built("options.force_kernel", big.dkdv_kernel));
  }
}

TEST_CASE("U17 a GPU without bf16 tensor cores is refused backward before any launch") {
  Device volta = big_device();
  volta.capability_major = 7;
  BackwardPlan<bfloat16> plan;
  check_refused(plan_backward({1, 1, 1, 64, 64, 64}, volta, {}, &plan), not_built("device.capability", 70));
}

TEST_CASE("Each backward kernel can be forced where it serves and leaves the other pass as it was") {
  std::int32_t const kernels = supported_backward_kernels();
  REQUIRE(kernels > 0);
  for (std::int32_t index = 0; index < kernels; ++index) {
    KernelInfo info{};
    if (!supported_backward_kernel(index, &info)) continue;  // this build left it out
    for (int head_dim : {64, 128})
      for (int q_block : {64, 128}) {
        CAPTURE(index, info.name, head_dim, q_block);
        AttentionProblem p{1, 1, 1, 300, 300, head_dim};
        p.q_block = q_block;
        BackwardPlan<bfloat16> chosen, forced;
        must(plan_backward(p, big_device(), {}, &chosen));
        PlanOptions options;
        options.force_kernel = index;
        Status const status = plan_backward(p, big_device(), options, &forced);
        bool const serves =
            info.dtype == ElementType::bf16 && info.head_dim == head_dim && q_block % info.q_tile == 0;
        CHECK(status.ok() == serves);
        if (!serves) {
          check_refused(status, not_built("options.force_kernel", index));
          continue;
        }
        bool const is_dkdv = std::string(info.name).rfind("dkdv", 0) == 0;
        CHECK((is_dkdv ? forced.dkdv_kernel : forced.dq_kernel) == index);
        CHECK((is_dkdv ? forced.dq_kernel : forced.dkdv_kernel) ==
              (is_dkdv ? chosen.dq_kernel : chosen.dkdv_kernel));
      }
  }
}

TEST_CASE("a backward kernel for 9.0 is refused by name on another GPU and for other mask blocks") {
  AttentionProblem const p{1, 1, 1, 300, 300, 128};
  for (std::int32_t index = 0; index < supported_backward_kernels(); ++index) {
    KernelInfo info{};
    if (!supported_backward_kernel(index, &info)) continue;
    if (std::string(info.name).find(" sm90a ") == std::string::npos) continue;
    if (info.dtype != ElementType::bf16 || info.head_dim != p.head_dim) continue;
    CAPTURE(info.name);
    PlanOptions options;
    options.force_kernel = index;
    BackwardPlan<bfloat16> plan;
    must(plan_backward(p, big_device(), options, &plan));
    check_refused(plan_backward(p, small_device(), options, &plan), not_built("options.force_kernel", index));
    Device other = big_device();
    other.capability_major = 10;
    CHECK_FALSE(
        plan_backward(p, other, options, &plan).ok());  // by device.capability in a build for 9.0a alone
    AttentionProblem blocks = p;
    blocks.kv_block = 128;
    check_refused(plan_backward(blocks, big_device(), options, &plan),
                  not_built("options.force_kernel", index));
  }
}

TEST_CASE("An index past the table of backward kernels is refused") {
  std::int32_t const kernels = supported_backward_kernels();
  KernelInfo info{"kept", ElementType::bf16, 1, 2, 3};
  for (std::int32_t index : {-1, kernels, kernels + 1000}) {
    Status const status = supported_backward_kernel(index, &info);
    CHECK(status.code == StatusCode::invalid_argument);
    CHECK(status.given == index);
  }
  CHECK(std::string(info.name) == "kept");
  CHECK(supported_backward_kernel(0, nullptr).code == StatusCode::invalid_argument);
  PlanOptions options;
  options.force_kernel = kernels;
  BackwardPlan<bfloat16> plan;
  check_refused(plan_backward({1, 1, 1, 64, 64, 64}, big_device(), options, &plan),
                invalid("options.force_kernel", kernels, kernels));
}

TEST_CASE("U72 a backward grid that no launch can have is refused") {
  BackwardPlan<bfloat16> plan;
  AttentionProblem const p{65536, 65536, 65536, 1, 1, 64};
  check_refused(plan_backward(p, big_device(), {}, &plan), not_built("problem.batch", 65536));
}
