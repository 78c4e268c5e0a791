/// Every kernel of the library once on small shapes, for compute-sanitizer, and right all the same. Outputs and scratch
/// start uninitialised under SPARGE_INITCHECK=1, so that initcheck can see a read of them.

#include <cstdint>
#include <limits>
#include <vector>

#include "contract/every_call.hpp"
#include "op/calibration_check.hpp"
#include "op/mask_band.hpp"
#include "op/mask_runs.hpp"
#include "sparge/sparge.hpp"
#include "support/attention_case.hpp"
#include "support/catch.hpp"
#include "support/distillation_case.hpp"
#include "support/gpu.hpp"
#include "support/gradient_case.hpp"

namespace {

using namespace sparge;
using namespace sparge::test;

/// Each forward kernel of an element type, on partial tiles and an uneven mask.
template <class T>
void launch_every_forward_kernel(int head_dim) {
  ForwardCase c{{1, 2, 1, 130, 200, head_dim}};
  for (int q_block : {128, 64}) {
    c.problem.q_block = q_block;
    c.problem.kv_block = 192 - q_block;  // 128 by 64 is for every kernel
    ForwardInputs<T> const inputs = make_inputs<T>(c);
    ForwardTruth const truth = truth_of(inputs);
    std::vector<std::int32_t> const kernels = kernels_for(element_type_of<T>, c.problem, test_device());
    REQUIRE_FALSE(kernels.empty());
    for (std::int32_t kernel : kernels) {
      CAPTURE(kernel, head_dim, q_block);
      ForwardChoices choices;
      choices.options.force_kernel = kernel;
      check_forward(c.problem, truth, run_forward(inputs, choices));
    }
  }
}

/// Each backward kernel of an element type, likewise, over two heads a group.
template <class T>
void launch_every_backward_kernel(int head_dim) {
  GradientCase c{{{1, 2, 1, 130, 200, head_dim}}};
  c.with_grad_lse = true;
  for (int q_block : {128, 64}) {
    c.forward.problem.q_block = q_block;
    c.forward.problem.kv_block = 192 - q_block;  // 128 by 64 is for every kernel
    GradientInputs<T> const inputs = make_gradient_inputs<T>(c);
    GradientTruth const truth = truth_of(inputs);
    for (std::int32_t kernel : backward_kernels_for<T>(c.forward.problem, test_device())) {
      CAPTURE(kernel, head_dim, q_block);
      GradientChoices choices;
      choices.options.force_kernel = kernel;
      check_gradients(truth, run_backward(inputs, choices));
    }
  }
}

void run_once(PublicCall const& call) {
  CAPTURE(call.name);
  ScratchBuffer const scratch(call.workspace_bytes);
  Stream const stream;
  CHECK(text_of(call.run(scratch.workspace(), stream)) == text_of(Status{}));
  CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
}

}  // namespace

TEMPLATE_TEST_CASE("U20 U35 Every forward kernel is clean and right on small shapes", "[gpu][sanitize]",
                   bfloat16, float16) {
  SKIP_WITHOUT_GPU();
  for (int head_dim : {64, 128}) launch_every_forward_kernel<TestType>(head_dim);
}

TEMPLATE_TEST_CASE("Every backward kernel is clean and right on small shapes", "[gpu][sanitize]", bfloat16,
                   float16) {
  SKIP_WITHOUT_GPU();
  for (int head_dim : {64, 128}) launch_every_backward_kernel<TestType>(head_dim);
}

TEMPLATE_TEST_CASE("U35 U59 every public call is clean on small shapes", "[gpu][sanitize]", bfloat16,
                   float16) {
  SKIP_WITHOUT_GPU();
  for (int head_dim : {64, 128})
    for (PublicCall const& call :
         every_public_call<TestType>(test_device(), {}, {1, 2, 1, 200, 2100, head_dim, 128, 64}))
      run_once(call);
}

TEMPLATE_TEST_CASE("Every kernel of distillation is clean and right where samples end inside a load",
                   "[gpu][sanitize]", bfloat16, float16, float) {
  SKIP_WITHOUT_GPU();
  for (DistillationProblem const& p :
       {DistillationProblem{1, 1}, DistillationProblem{3, 5}, DistillationProblem{5, 8195}}) {
    DistillationInputs<TestType> inputs = make_weighted_inputs<TestType>(p, 1);
    inputs.grad_loss = 100.0f;
    check_distillation(inputs, run_distillation(inputs));
    check_distillation(inputs, run_distillation(inputs, Gradient::left_out), Gradient::left_out);
    PublicCall const call = interpolate_call<TestType>(p, test_device(), {});
    call.set_inputs(1);
    run_once(call);
  }
}

TEST_CASE("Selection and statistics are clean where rows do not fit shared memory", "[gpu][sanitize]") {
  SKIP_WITHOUT_GPU();
  Device device = test_device();
  device.shared_bytes_per_block = 1024;
  AttentionProblem const p{1, 2, 1, 200, 700, 64};
  for (PublicCall const& call : {select_blocks_call(p, device, {}), build_mask_call<bfloat16>(p, device, {}),
                                 mask_stats_call(p, device, {})}) {
    call.set_inputs(1);
    run_once(call);
  }
}

/// Rows of few and many blocks, sorted in shared memory and, where there is little of it, in scratch.
TEST_CASE("Calibration is clean and right for rows of every length", "[gpu][sanitize]") {
  SKIP_WITHOUT_GPU();
  Device small = test_device();
  small.shared_bytes_per_block = 4096;
  MaskRule const rule = rule_of(0.02, 0);
  for (std::int64_t blocks : {1, 100, 2100, 13000}) {
    CAPTURE(blocks);
    PooledInputs const x = make_pooled({1, 2, 1, 200, 64 * blocks - 5, 64}, PooledKind::gaussian, 3);
    check_report(x, rule, run_calibrate(x, rule, {CalibrationGoal::sparsity, 0.7}, test_device()));
    if (blocks < 2100) continue;
    CalibrationTarget const target{CalibrationGoal::kept_mass, 0.7, CalibrationScope::all_heads};
    check_report(x, rule, run_calibrate(x, rule, target, small));
  }
}

/// A kernel holds rows of up to so many blocks in registers; the last one's rows are ranked in memory.
TEST_CASE("Selection is clean and right for rows of every length", "[gpu][sanitize]") {
  SKIP_WITHOUT_GPU();
  for (std::int64_t blocks : {100, 200, 500, 700, 1200, 2000, 4000, 8000, 16000, 17000}) {
    CAPTURE(blocks);
    AttentionProblem const p{1, 2, 1, 100, 64 * blocks - 5, 64};
    PooledInputs const x = make_pooled(p, PooledKind::gaussian, 3);
    MaskRule const rule = rule_of(0.1, 0.3);
    check_rows(x, rule, run_select(x, rule));
  }
}

TEST_CASE("Selection of 128 channels and of rows that are not finite is clean", "[gpu][sanitize]") {
  SKIP_WITHOUT_GPU();
  for (std::int64_t blocks : {100, 2000}) {
    CAPTURE(blocks);
    PooledInputs x = make_pooled({1, 2, 1, 400, 64 * blocks - 5, 128}, PooledKind::gaussian, 5);
    MaskRule const rule = rule_of(0.1, 0.3);
    check_rows(x, rule, run_select(x, rule));
    x.q.at(0, 0, 1, 3) = std::numeric_limits<float>::infinity();
    x.q.at(0, 1, 2, 4) = std::numeric_limits<float>::quiet_NaN();
    MaskWords const words = run_select(x, rule);
    CHECK(run_select(x, rule) == words);
  }
}

TEST_CASE("Mask building is right on small shapes", "[gpu][sanitize]") {
  SKIP_WITHOUT_GPU();
  ForwardInputs<bfloat16> const inputs = make_inputs<bfloat16>({{1, 2, 1, 200, 700, 64}});
  MaskRule rule = rule_of(0.2, 0.3);
  rule.keep = {10, 10, 70, 1, 1};
  MaskWords const built = run_build_mask(inputs.problem, inputs.q, inputs.k, rule);
  check_rows(run_pool(inputs.problem, inputs.q, inputs.k), rule, built);
}
