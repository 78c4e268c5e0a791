/// Laws of persistent thread blocks: which of them computes a tile, and after which other, changes no bit; and none ever waits for
/// work that does not come.

#include <cstdint>
#include <vector>

#include "sparge/sparge.hpp"
#include "support/attention_case.hpp"
#include "support/catch.hpp"
#include "support/gpu.hpp"
#include "support/schedule_case.hpp"

namespace {

using namespace sparge;
using namespace sparge::test;

/// Rows with none, one, two, an odd number, all key blocks, and every eighth query far above the range that the first
/// pass of the softmax can hold in its last block.
template <class T>
ForwardInputs<T> uneven_inputs(AttentionProblem const& p) {
  ForwardCase c{p};
  c.mask = MaskKind::uneven;
  ForwardInputs<T> inputs = make_inputs<T>(c);
  for (std::int64_t h = 0; h < p.heads; ++h)
    for (std::int64_t n = 0; n < p.q_tokens; n += 8) set(inputs.q, 0, h, n, 0, n % 384 == 0 ? 2000 : 1);
  return inputs;
}

/// On so many SMs, as a plan for a smaller GPU would.
Device with_sms(std::int32_t count) {
  Device device = test_device();
  device.sm_count = count;
  return device;
}

}  // namespace

TEMPLATE_TEST_CASE(
    "U90 two thousand runs of uneven masks never hang and give the same bits on any number of SMs where no "
    "row is split",
    "[gpu][sm90]", bfloat16, float16) {
  SKIP_WITHOUT_GPU();
  for (int head_dim : {64, 128}) {
    CAPTURE(head_dim);
    ForwardInputs<TestType> const inputs =
        uneven_inputs<TestType>({1, 6, 2, 128 * 16 + 5, 64 * 21 + 7, head_dim});
    Stream const stream;
    ForwardRun<TestType> run(inputs);
    must(run.run(stream));
    stream.wait();
    ForwardOutput<TestType> const wanted = run.download();
    Random random(12);
    check_forward(inputs.problem, truth_of(inputs, sample_rows(inputs.problem, random, 200)), wanted);
    for (std::int32_t sms : {1, 2, 7, 40}) {
      CAPTURE(sms);
      ForwardRun<TestType> few(inputs, {}, with_sms(sms));
      for (int i = 0; i < 20; ++i) must(few.run(stream));
      stream.wait();
      REQUIRE(few.download() == wanted);
    }
    for (int repeat = 0; repeat < 20; ++repeat) {
      run.poison_outputs();
      for (int i = 0; i < 100; ++i) must(run.run(stream));
      stream.wait();
      REQUIRE(run.download() == wanted);
    }
  }
}

TEMPLATE_TEST_CASE("U90 thirty runs give the same bits where rows are split", "[gpu][sm90]", bfloat16,
                   float16) {
  SKIP_WITHOUT_GPU();
  for (int head_dim : {64, 128})
    for (std::int32_t sms : {3, 132}) {
      CAPTURE(head_dim, sms);
      AttentionProblem const p{1, 4, 2, 128 * 9 + 5, 64 * 90 + 7, head_dim};
      ForwardInputs<TestType> inputs = uneven_inputs<TestType>(p);
      inputs.mask = make_uneven_mask(p, Unevenness::dense_lines, 2);
      Stream const stream;
      ForwardRun<TestType> run(inputs, {}, with_sms(sms));
      must(run.run(stream));
      stream.wait();
      ForwardOutput<TestType> const wanted = run.download();
      Random random(15);
      check_forward(p, truth_of(inputs, sample_rows(p, random, 200)), wanted);
      for (int repeat = 0; repeat < 30; ++repeat) {
        run.poison_outputs();
        run.scratch().fill_bytes(repeat % 2 == 0 ? 0xFF : 0x01);
        for (int i = 0; i < 10; ++i) must(run.run(stream));
        stream.wait();
        REQUIRE(run.download() == wanted);
      }
    }
}

TEMPLATE_TEST_CASE("U90 a launch whose rows are all empty or all redone ends", "[gpu][sm90]", bfloat16,
                   float16) {
  SKIP_WITHOUT_GPU();
  for (int head_dim : {64, 128}) {
    AttentionProblem const p{1, 3, 3, 128 * 11, 64 * 9 + 1, head_dim};
    ForwardCase c{p};
    for (MaskKind kind : {MaskKind::none, MaskKind::full, MaskKind::holes}) {
      c.mask = kind;
      ForwardInputs<TestType> inputs = make_inputs<TestType>(c);
      if (kind != MaskKind::none) fill_constant(inputs.q, 3000), fill_constant(inputs.k, 3);
      for (std::int32_t sms : {1, 3, 132}) {
        CAPTURE(head_dim, static_cast<int>(kind), sms);
        ForwardRun<TestType> const run(inputs, {}, with_sms(sms));
        Stream const stream;
        for (int i = 0; i < 5; ++i) must(run.run(stream));
        stream.wait();
        Random random(13);
        check_forward(p, truth_of(inputs, sample_rows(p, random, 60)), run.download());
      }
    }
  }
}

TEMPLATE_TEST_CASE("U90 tiles that some warps ask for once more end among tiles that none does",
                   "[gpu][sm90]", bfloat16, float16) {
  SKIP_WITHOUT_GPU();
  // Queries beyond the range of the first pass: of one warpgroup or the other, of a warp now and then, of every third tile.
  std::int64_t const periods[][3] = {{128, 0, 64}, {128, 64, 128}, {592, 16, 32}, {384, 0, 128}};
  for (int head_dim : {64, 128})
    for (auto const& [period, first, last] : periods) {
      AttentionProblem const p{1, 3, 3, 128 * 19, 64 * 9 + 1, head_dim};
      ForwardCase c{p};
      c.mask = MaskKind::uneven;
      ForwardInputs<TestType> inputs = make_inputs<TestType>(c);
      for (std::int64_t h = 0; h < p.heads; ++h)
        for (std::int64_t n = 0; n < p.q_tokens; ++n)
          if (n % period >= first && n % period < last) set(inputs.q, 0, h, n, 0, 8192);
      Random random(14);
      ForwardTruth const truth = truth_of(inputs, sample_rows(p, random, 200));
      for (std::int32_t sms : {1, 3, 132}) {
        CAPTURE(head_dim, period, first, sms);
        ForwardRun<TestType> const run(inputs, {}, with_sms(sms));
        Stream const stream;
        for (int i = 0; i < 5; ++i) must(run.run(stream));
        stream.wait();
        check_forward(p, truth, run.download());
      }
    }
}
