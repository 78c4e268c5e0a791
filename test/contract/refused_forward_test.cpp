/// Wrong arguments of forward(): refused by name before the CUDA runtime is asked for anything. No GPU is needed.

#include <cstdint>
#include <stdexcept>
#include <string>

#include "contract/fake_device.hpp"
#include "contract/wrong_forward.hpp"
#include "sparge/sparge.hpp"
#include "support/catch.hpp"

namespace {

using namespace sparge;
using namespace sparge::test;

template <class T>
void check_table() {
  CallSite site{{2, 4, 2, 200, 150, 64}, big_device(), {}, imagined_memory()};
  ForwardCall<T> const right = lay_out_forward<T>(site);
  check_refusals(wrong_forward_calls(right));
}

/// Of those for bf16 that have run everywhere since 8.0.
std::int32_t largest_portable_kernel(AttentionProblem const& p) {
  for (std::int32_t index = 0; index < supported_kernels(); ++index) {
    KernelInfo info{};
    if (!supported_kernel(index, &info) || std::string(info.name).rfind("sm80", 0) != 0) continue;
    if (info.dtype == ElementType::bf16 && info.head_dim == p.head_dim) return index;
  }
  throw std::runtime_error("no portable kernel is built");
}

}  // namespace

TEST_CASE("U16 U46 U68 U70 forward refuses each wrong argument by name in bf16") { check_table<bfloat16>(); }

TEST_CASE("U16 U46 U68 U70 forward refuses each wrong argument by name in f16") { check_table<float16>(); }

TEST_CASE("U96 a GPU with 99 KB of shared memory gets a kernel that fits it") {
  AttentionProblem const p{1, 1, 1, 300, 300, 128};
  ForwardPlan<bfloat16> big, small;
  must(plan_forward(p, big_device(), {}, &big));
  must(plan_forward(p, small_device(), {}, &small));
  CHECK(big.kernel != small.kernel);
  std::int32_t const portable = largest_portable_kernel(p);
  Device tiny = small_device();
  tiny.shared_bytes_per_block = 16384;
  ForwardPlan<bfloat16> none;
  check_refused(plan_forward(p, tiny, {}, &none), not_built("device.shared_bytes_per_block", 16384));
  PlanOptions too_large;
  too_large.force_kernel = portable;
  // One thread block of it fits 99 KB, so whoever asks for it gets it; none fits 64 KB.
  CHECK(plan_forward(p, small_device(), too_large, &none).ok());
  CHECK(none.kernel == portable);
  Device half = small_device();
  half.shared_bytes_per_block = 65536;
  check_refused(plan_forward(p, half, too_large, &none), not_built("options.force_kernel", portable));
}

TEST_CASE("a kernel for 9.0 is refused by name on another GPU and for other mask blocks") {
  AttentionProblem const p{1, 1, 1, 300, 300, 128};
  for (std::int32_t index = 0; index < supported_kernels(); ++index) {
    KernelInfo info{};
    if (!supported_kernel(index, &info) || std::string(info.name).rfind("sm90a", 0) != 0) continue;
    if (info.dtype != ElementType::bf16 || info.head_dim != p.head_dim) continue;
    PlanOptions options;
    options.force_kernel = index;
    ForwardPlan<bfloat16> plan;
    must(plan_forward(p, big_device(), options, &plan));
    CHECK(plan.workspace_bytes == 4 * 256);  // counters, counts, items, bits: no row is long
    check_refused(plan_forward(p, small_device(), options, &plan), not_built("options.force_kernel", index));
    Device other = big_device();
    other.capability_major = 10;
    CHECK_FALSE(
        plan_forward(p, other, options, &plan).ok());  // by device.capability in a build for 9.0a alone
    AttentionProblem blocks = p;
    blocks.kv_block = 128;
    check_refused(plan_forward(blocks, big_device(), options, &plan),
                  not_built("options.force_kernel", index));
  }
}

TEST_CASE("U64 each kernel of the table can be forced where it serves and is refused where it does not") {
  std::int32_t const kernels = supported_kernels();
  REQUIRE(kernels > 0);
  for (std::int32_t index = 0; index < kernels; ++index) {
    KernelInfo info{};
    if (!supported_kernel(index, &info)) continue;  // this build left it out
    for (int head_dim : {64, 128}) {
      for (int q_block : {64, 128}) {
        CAPTURE(index, info.name, head_dim, q_block);
        AttentionProblem p{1, 1, 1, 300, 300, head_dim};
        p.q_block = q_block;
        PlanOptions options;
        options.force_kernel = index;
        ForwardPlan<bfloat16> bf16;
        ForwardPlan<float16> f16;
        bool const serves = info.head_dim == head_dim && q_block % info.q_tile == 0;
        Status const as_bf16 = plan_forward(p, big_device(), options, &bf16);
        Status const as_f16 = plan_forward(p, big_device(), options, &f16);
        CHECK(as_bf16.ok() == (serves && info.dtype == ElementType::bf16));
        CHECK(as_f16.ok() == (serves && info.dtype == ElementType::f16));
        CHECK(as_bf16.ok() == (bf16.kernel == index));
        if (!as_bf16.ok()) check_refused(as_bf16, not_built("options.force_kernel", index));
        if (!as_f16.ok()) check_refused(as_f16, not_built("options.force_kernel", index));
      }
    }
  }
}

TEST_CASE("An index past the table of kernels is refused") {
  std::int32_t const kernels = supported_kernels();
  KernelInfo info{"kept", ElementType::bf16, 1, 2, 3};
  for (std::int32_t index : {-1, kernels, kernels + 1000}) {
    Status const status = supported_kernel(index, &info);
    CHECK(status.code == StatusCode::invalid_argument);
    CHECK(status.given == index);
  }
  CHECK(std::string(info.name) == "kept");
  CHECK(supported_kernel(0, nullptr).code == StatusCode::invalid_argument);
  PlanOptions options;
  options.force_kernel = kernels;
  ForwardPlan<bfloat16> plan;
  check_refused(plan_forward({1, 1, 1, 64, 64, 64}, big_device(), options, &plan),
                invalid("options.force_kernel", kernels, kernels));
}

TEST_CASE("U72 a grid that no launch can have is refused") {
  ForwardPlan<bfloat16> plan;
  AttentionProblem const p{65536, 65536, 65536, 1, 1, 64};
  check_refused(plan_forward(p, big_device(), {}, &plan), not_built("problem.batch", 65536));
  AttentionProblem const just_fits{65536, 16383, 16383, 1, 1, 64};
  CHECK(plan_forward(just_fits, big_device(), {}, &plan).ok());
}
