/// Laws of persistent thread blocks in backward: which of them computes a tile, and after which other, changes no bit; and none
/// ever waits for work that does not come.

#include <cstdint>

#include "sparge/sparge.hpp"
#include "support/catch.hpp"
#include "support/gpu.hpp"
#include "support/gradient_case.hpp"
#include "support/schedule_case.hpp"

namespace {

using namespace sparge;
using namespace sparge::test;

/// On so many SMs, as a plan for a smaller GPU would.
Device with_sms(std::int32_t count) {
  Device device = test_device();
  device.sm_count = count;
  return device;
}

}  // namespace

TEMPLATE_TEST_CASE(
    "U90 a thousand runs of backward never hang and give the same bits on any number of SMs where nothing is "
    "split",
    "[gpu][sm90]", bfloat16, float16) {
  SKIP_WITHOUT_GPU();
  for (int head_dim : {64, 128}) {
    CAPTURE(head_dim);
    GradientCase c{{{1, 6, 2, 128 * 6 + 5, 64 * 9 + 7, head_dim}}};
    c.forward.mask = MaskKind::uneven;
    c.with_grad_lse = true;
    GradientInputs<TestType> const inputs = make_gradient_inputs<TestType>(c);
    Stream const stream;
    GradientRun<TestType> run(inputs);
    must(run.run(stream));
    stream.wait();
    GradientOutput<TestType> const wanted = run.download();
    check_gradients(truth_of(inputs), wanted);
    for (std::int32_t sms : {1, 2, 7, 40}) {
      CAPTURE(sms);
      GradientRun<TestType> const few(inputs, {}, with_sms(sms));
      for (int i = 0; i < 20; ++i) must(few.run(stream));
      stream.wait();
      REQUIRE(few.download() == wanted);
    }
    for (int repeat = 0; repeat < 10; ++repeat) {
      run.poison_outputs();
      for (int i = 0; i < 100; ++i) must(run.run(stream));
      stream.wait();
      REQUIRE(run.download() == wanted);
    }
  }
}

TEMPLATE_TEST_CASE("U90 thirty runs of backward give the same bits where rows and columns are split",
                   "[gpu][sm90]", bfloat16, float16) {
  SKIP_WITHOUT_GPU();
  for (int head_dim : {64, 128})
    for (std::int32_t sms : {3, 132}) {
      CAPTURE(head_dim, sms);
      AttentionProblem const p{1, 4, 2, 128 * 19 + 5, 64 * 40 + 7, head_dim};
      ForwardInputs<TestType> forward = make_inputs<TestType>({p});
      forward.mask = make_uneven_mask(p, Unevenness::dense_lines, 2);
      GradientInputs<TestType> const inputs = make_gradient_inputs(std::move(forward), 6, 1, true);
      Stream const stream;
      GradientRun<TestType> run(inputs, {}, with_sms(sms));
      must(run.run(stream));
      stream.wait();
      GradientOutput<TestType> const wanted = run.download();
      check_gradients(truth_of(inputs), wanted);
      for (int repeat = 0; repeat < 30; ++repeat) {
        run.poison_outputs();
        run.scratch().fill_bytes(repeat % 2 == 0 ? 0xFF : 0x01);
        for (int i = 0; i < 10; ++i) must(run.run(stream));
        stream.wait();
        REQUIRE(run.download() == wanted);
      }
    }
}

TEMPLATE_TEST_CASE("U90 a backward launch whose rows and columns are all empty or all full ends",
                   "[gpu][sm90]", bfloat16, float16) {
  SKIP_WITHOUT_GPU();
  for (int head_dim : {64, 128})
    for (MaskKind kind : {MaskKind::none, MaskKind::full, MaskKind::holes}) {
      GradientCase c{{{1, 3, 3, 128 * 5, 64 * 9 + 1, head_dim}}};
      c.forward.mask = kind;
      GradientInputs<TestType> const inputs = make_gradient_inputs<TestType>(c);
      GradientTruth const truth = truth_of(inputs);
      for (std::int32_t sms : {1, 2, 3, 132}) {
        CAPTURE(head_dim, static_cast<int>(kind), sms);
        GradientRun<TestType> const run(inputs, {}, with_sms(sms));
        Stream const stream;
        for (int i = 0; i < 5; ++i) must(run.run(stream));
        stream.wait();
        check_gradients(truth, run.download());
      }
    }
}
