/// Gradients on masks with a few long rows and columns, which the kernels for 9.0 compute in pieces. On another GPU the same tests run
/// the portable kernels.

#include <cstdint>
#include <vector>

#include "sparge/plan/backward_config.hpp"
#include "sparge/sparge.hpp"
#include "support/catch.hpp"
#include "support/gpu.hpp"
#include "support/gradient_case.hpp"
#include "support/schedule_case.hpp"

namespace {

using namespace sparge;
using namespace sparge::test;

/// Rows of 41 blocks, columns of 40 in two heads.
AttentionProblem uneven_problem(int head_dim) { return {1, 4, 2, 128 * 19 + 5, 64 * 40 + 7, head_dim}; }

template <class T>
GradientInputs<T> uneven_inputs(AttentionProblem const& p, Unevenness kind, bool with_grad_lse = false,
                                Inputs values = Inputs::gaussian) {
  ForwardInputs<T> inputs{p, HostTensor<T>(q_shape(p)), HostTensor<T>(kv_shape(p)),
                          HostTensor<T>(kv_shape(p)), make_uneven_mask(p, kind, 3)};
  Random random(4);
  fill_inputs(inputs.q, inputs.k, inputs.v, values, random);
  return make_gradient_inputs(std::move(inputs), 5, 1, with_grad_lse);
}

Device with_sms(std::int32_t count) {
  Device device = test_device();
  device.sm_count = count;
  return device;
}

/// Of a pass of a plan: lines that it splits.
std::size_t count_splits(AttentionProblem const& p, std::int32_t row, Device const& device,
                         MaskWords const& mask) {
  BackwardConfig const& config = backward_table[row];
  if (config.arch != Arch::sm90a) return 0;
  Lines const lines = config.pass == BackwardPass::dq ? rows_of(p, mask) : columns_of(p, mask);
  return order_work(lines, config.schedule_shape(p, device)).splits.size();
}

template <class T>
GradientOutput<T> run_on(GradientInputs<T> const& inputs, Device const& device) {
  GradientRun<T> const run(inputs, {}, device);
  Stream const stream;
  must(run.run(stream));
  stream.wait();
  return run.download();
}

}  // namespace

TEMPLATE_TEST_CASE("Long rows and columns have right gradients however many thread blocks share them",
                   "[gpu][sm90]", bfloat16, float16) {
  SKIP_WITHOUT_GPU();
  for (int head_dim : {64, 128})
    for (Unevenness kind : {Unevenness::dense_row, Unevenness::dense_column, Unevenness::dense_lines,
                            Unevenness::none_one_all, Unevenness::empty}) {
      bool const with_grad_lse = kind != Unevenness::dense_lines;
      GradientInputs<TestType> const inputs =
          uneven_inputs<TestType>(uneven_problem(head_dim), kind, with_grad_lse);
      GradientTruth const truth = truth_of(inputs);
      for (std::int32_t sms : {1, 5, 132}) {
        CAPTURE(head_dim, static_cast<int>(kind), sms);
        check_gradients(truth, run_on(inputs, with_sms(sms)));
      }
    }
}

TEMPLATE_TEST_CASE("Masks with long columns are split and those without are not", "[gpu][sm90]", bfloat16,
                   float16) {
  SKIP_WITHOUT_GPU();
  for (int head_dim : {64, 128}) {
    AttentionProblem const p = uneven_problem(head_dim);
    BackwardPlan<TestType> plan;
    must(plan_backward(p, with_sms(132), {}, &plan));
    bool const is_sm90a = backward_table[plan.dq_kernel].arch == Arch::sm90a;
    auto const splits = [&](std::int32_t row, Unevenness kind) {
      return count_splits(p, row, plan.device, make_uneven_mask(p, kind, 3));
    };
    CHECK(splits(plan.dkdv_kernel, Unevenness::dense_column) == (is_sm90a ? 1 : 0));
    CHECK((splits(plan.dkdv_kernel, Unevenness::dense_lines) > 0) == is_sm90a);
    CHECK(splits(plan.dq_kernel, Unevenness::dense_row) == (is_sm90a ? 1 : 0));
    CHECK((splits(plan.dq_kernel, Unevenness::dense_lines) > 0) == is_sm90a);
    for (std::int32_t row : {plan.dkdv_kernel, plan.dq_kernel}) {
      CHECK(splits(row, Unevenness::all_dense) == 0);
      CHECK(splits(row, Unevenness::even) == 0);
    }
  }
}

TEMPLATE_TEST_CASE("Gradients of lines that were split are right where logits are huge", "[gpu][sm90]",
                   bfloat16, float16) {
  SKIP_WITHOUT_GPU();
  for (int head_dim : {64, 128})
    for (Inputs values : {Inputs::heavy_tailed, Inputs::common_offset}) {
      CAPTURE(head_dim, static_cast<int>(values));
      GradientInputs<TestType> const inputs =
          uneven_inputs<TestType>(uneven_problem(head_dim), Unevenness::dense_lines, true, values);
      check_gradients(truth_of(inputs), run_on(inputs, with_sms(132)));
    }
}

TEMPLATE_TEST_CASE("Each backward kernel is right beside any of the other pass on uneven rows", "[gpu][sm90]",
                   bfloat16, float16) {
  SKIP_WITHOUT_GPU();
  GradientInputs<TestType> const inputs =
      uneven_inputs<TestType>(uneven_problem(128), Unevenness::dense_lines, true);
  GradientTruth const truth = truth_of(inputs);
  for (std::int32_t kernel : backward_kernels_for<TestType>(inputs.problem(), test_device())) {
    CAPTURE(kernel);
    GradientChoices choices;
    choices.options.force_kernel = kernel;
    check_gradients(truth, run_backward(inputs, choices));
  }
}

TEMPLATE_TEST_CASE("Splitting columns is clean and right on small shapes", "[gpu][sm90][sanitize]", bfloat16,
                   float16) {
  SKIP_WITHOUT_GPU();
  for (int head_dim : {64, 128})
    for (Unevenness kind : {Unevenness::dense_row, Unevenness::dense_column}) {
      AttentionProblem const p{1, 8, 1, 128 * 4 + 9, 64 * 33 + 7, head_dim};
      GradientInputs<TestType> const inputs = uneven_inputs<TestType>(p, kind);
      GradientRun<TestType> const run(inputs, {}, with_sms(132));
      bool const is_sm90a = backward_table[run.plan().dq_kernel].arch == Arch::sm90a;
      MaskWords const& mask = inputs.forward.mask;
      CHECK((count_splits(p, run.plan().dq_kernel, run.plan().device, mask) +
                 count_splits(p, run.plan().dkdv_kernel, run.plan().device, mask) >
             0) == is_sm90a);
      Stream const stream;
      must(run.run(stream));
      stream.wait();
      check_gradients(truth_of(inputs), run.download());
    }
}
