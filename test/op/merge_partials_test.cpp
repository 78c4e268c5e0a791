/// merge_partials against the f64 reference, and what it promises of rows without keys, single results, NaN and infinity.

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "support/catch.hpp"
#include "support/merge_case.hpp"

using namespace sparge;
using namespace sparge::test;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

AttentionProblem problem_of(std::int64_t q_tokens, int head_dim) { return {2, 3, 3, q_tokens, 64, head_dim}; }

/// One row, one value in all channels of each partial result.
struct RowPart {
  float lse, value;
};

template <class T>
MergeInputs<T> one_row(std::vector<RowPart> const& parts) {
  MergeInputs<T> inputs{{1, 1, 1, 1, 64, 64}, {}, {}};
  for (RowPart const& part : parts) {
    HostPartial<T> partial{HostTensor<T>(q_shape(inputs.problem)), {part.lse}};
    fill_constant(partial.out, part.value);
    inputs.partials.push_back(partial);
  }
  return inputs;
}

template <class T>
struct RowResult {
  double out, running_out;
  float lse;
};

template <class T>
RowResult<T> merge_row(std::vector<RowPart> const& parts) {
  MergeOutput<T> const output = run_merge(one_row<T>(parts));
  return {output.out.values()[0], output.running_out.values()[0], output.lse[0]};
}

template <class T>
void check_row_is_nan(std::vector<RowPart> const& parts, bool lse_too) {
  RowResult<T> const row = merge_row<T>(parts);
  CHECK((std::isnan(row.out) && std::isnan(row.running_out)));
  CHECK(std::isnan(row.lse) == lse_too);
}

}  // namespace

TEMPLATE_TEST_CASE("U91 partial results merge to what f64 says with one rounding", "[gpu][sanitize]",
                   bfloat16, float16, float) {
  SKIP_WITHOUT_GPU();
  for (int head_dim : {64, 128})
    for (std::int64_t q_tokens : {1, 15, 16, 17, 31, 33, 301})
      for (int partials : {1, 2, 3, 5, int{most_partials}}) {
        MergeCase c{problem_of(q_tokens, head_dim), partials};
        check_merge_case<TestType>(c);
        c.has_running = true, c.seed = 2;
        check_merge_case<TestType>(c);
      }
}

TEMPLATE_TEST_CASE("Partial results merge in any layout", "[gpu]", bfloat16, float16, float) {
  SKIP_WITHOUT_GPU();
  for (Layout in : {Layout::bnhd, Layout::padded_rows, Layout::fused_qkv})
    for (Layout out : {Layout::bhnd, Layout::bnhd, Layout::padded_rows, Layout::fused_qkv}) {
      MergeCase c{problem_of(77, 128), 2, true};
      c.layout = in;
      check_merge_case<TestType>(c, out);
    }
}

TEMPLATE_TEST_CASE("Partial results merge at any size and distance of their lse", "[gpu]", bfloat16, float16,
                   float) {
  SKIP_WITHOUT_GPU();
  for (double spread : {0.0, 1e-4, 20.0, 60.0, 1000.0, 1e30})
    for (double centre : {0.0, 90.0, -90.0, 1e6, -1e6}) {
      MergeCase c{problem_of(50, 64), 4, true};
      c.lse_spread = spread, c.lse_centre = centre;
      check_merge_case<TestType>(c);
    }
}

TEMPLATE_TEST_CASE("U92 a row without keys anywhere is 0 with lse -inf whatever lies there", "[gpu]",
                   bfloat16, float16, float) {
  SKIP_WITHOUT_GPU();
  MergeCase c{problem_of(40, 128), 3, true};
  c.empty_share = 1;
  MergeOutput<TestType> const output = run_merge(make_merge_inputs<TestType>(c));
  for (double x : output.out.values()) CHECK((x == 0 && !std::signbit(x)));
  for (double x : output.running_out.values()) CHECK((x == 0 && !std::signbit(x)));
  for (float lse : output.lse) CHECK(lse == -infinity);
}

TEMPLATE_TEST_CASE("U92 a single result with keys comes back bit by bit", "[gpu]", bfloat16, float16, float) {
  SKIP_WITHOUT_GPU();
  MergeCase c{problem_of(40, 64), 4};
  c.empty_share = 1;
  MergeInputs<TestType> inputs = make_merge_inputs<TestType>(c);
  for (std::size_t single = 0; single < 4; ++single) {
    MergeInputs<TestType> some = inputs;
    c.empty_share = 0, c.lse_centre = -300, c.seed = 7 + single;
    Random random(c.seed);
    some.partials[single] = make_partial<TestType>(c, random);
    for (std::int64_t channel = 0; channel < 64; channel += 2)  // zeros of both signs among the values
      some.partials[single].out.at(1, 2, 3, channel) = TestType(channel % 4 == 0 ? 0.0f : -0.0f);
    MergeOutput<TestType> const output = run_merge(some);
    CHECK(same_bytes(output.out.storage(), some.partials[single].out.storage()));
    CHECK(same_bytes(output.lse, some.partials[single].lse));
  }
}

TEMPLATE_TEST_CASE("NaN and infinity of a result with keys reach its row and those of one without do not",
                   "[gpu]", bfloat16, float16, float) {
  SKIP_WITHOUT_GPU();
  using T = TestType;
  float const nan = std::nanf("");
  check_row_is_nan<T>({{1, 2}, {1, nan}}, false);
  check_row_is_nan<T>({{1, 2}, {-500, infinity}}, false);  // a weight of 0 times infinity
  check_row_is_nan<T>({{1, infinity}, {1, -infinity}}, false);
  check_row_is_nan<T>({{nan, 2}, {1, 2}}, true);
  check_row_is_nan<T>({{-infinity, 2}, {nan, 2}}, true);
  check_row_is_nan<T>({{infinity, 2}, {1, 2}}, true);
  check_row_is_nan<T>({{infinity, 2}, {-infinity, 0}}, true);
  RowResult<T> const infinite = merge_row<T>({{1, 2}, {1, infinity}});
  CHECK((infinite.out == infinity && infinite.running_out == infinity));
  RowResult<T> const unread = merge_row<T>({{-infinity, nan}, {1, 2}, {-infinity, infinity}});
  CHECK((unread.out == 2 && unread.running_out == 2 && unread.lse == 1));
}

TEST_CASE("Halves of equal weight meet in the middle", "[gpu]") {
  SKIP_WITHOUT_GPU();
  RowResult<float> const row = merge_row<float>({{3, 1}, {3, 2}});
  CHECK(row.out == 1.5);
  CHECK(std::abs(row.lse - (3 + std::log(2.0))) < 1e-6);
}

TEMPLATE_TEST_CASE("U93 a ring that carries its result in f32 gets what one call gets", "[gpu]", bfloat16,
                   float16) {
  SKIP_WITHOUT_GPU();
  MergeCase c{problem_of(65, 128), 9};
  MergeInputs<TestType> const all = make_merge_inputs<TestType>(c);
  MergeInputs<TestType> step{c.problem, {}, {}};
  MergeOutput<TestType> carried;
  for (HostPartial<TestType> const& partial : all.partials) {
    step.partials = {partial};
    carried = run_merge(step);
    step.running = {{carried.running_out, carried.lse}};
  }
  check_merge(all, carried);
}

TEMPLATE_TEST_CASE("Two merges give the same bits and outputs that are not asked for change nothing", "[gpu]",
                   bfloat16, float16, float) {
  SKIP_WITHOUT_GPU();
  MergeInputs<TestType> const inputs = make_merge_inputs<TestType>({problem_of(300, 128), 5, true});
  MergeRun<TestType> run(inputs);
  Stream const stream;
  must(run.run(stream));
  stream.wait();
  MergeOutput<TestType> const first = run.download();
  run.poison_outputs();
  must(run.run(stream));
  stream.wait();
  CHECK(run.download() == first);
  run.poison_outputs();
  MergeArgs<TestType> args = run.args();
  args.running_out = {}, args.lse = nullptr;
  must(merge_partials(run.plan(), args, stream));
  args = run.args(), args.out = {};
  MergeOutput<TestType> const out_alone = run.download();
  CHECK(same_bytes(out_alone.out.storage(), first.out.storage()));
  must(merge_partials(run.plan(), args, stream));
  stream.wait();
  CHECK(run.download() == first);
}

TEST_CASE("U05 merging nothing is legal", "[gpu]") {
  SKIP_WITHOUT_GPU();
  for (AttentionProblem const& p :
       {AttentionProblem{0, 2, 2, 100, 64, 64}, AttentionProblem{2, 2, 2, 0, 64, 64}}) {
    MergePlan<bfloat16> plan;
    must(plan_merge_partials(p, test_device(), {}, &plan));
    MergeArgs<bfloat16> args;
    args.count = 2;
    for (int i = 0; i < 2; ++i)
      args.partials[i].out =
          contiguous_bhnd<bfloat16 const>(nullptr, p.batch, p.heads, p.q_tokens, p.head_dim);
    CHECK(text_of(merge_partials(plan, args, nullptr)) == text_of(Status{}));
  }
}
