/// Calls on masks with a few long rows and columns, which the kernels for 9.0 compute in pieces. On another GPU the same tests run the
/// portable kernels.

#include <cmath>
#include <cstdint>
#include <vector>

#include "sparge/plan/forward_config.hpp"
#include "sparge/sparge.hpp"
#include "support/attention_case.hpp"
#include "support/catch.hpp"
#include "support/gpu.hpp"
#include "support/schedule_case.hpp"

namespace {

using namespace sparge;
using namespace sparge::test;

AttentionProblem uneven_problem(int head_dim) { return {1, 4, 2, 128 * 9 + 5, 64 * 90 + 7, head_dim}; }

/// Gaussian, with the queries at `sigma`.
template <class T>
ForwardInputs<T> uneven_inputs(AttentionProblem const& p, Unevenness kind, double sigma = 1) {
  ForwardInputs<T> inputs{p, HostTensor<T>(q_shape(p)), HostTensor<T>(kv_shape(p)),
                          HostTensor<T>(kv_shape(p)), make_uneven_mask(p, kind, 3)};
  Random random(4);
  fill_gaussian(inputs.q, random, sigma);
  fill_gaussian(inputs.k, random);
  fill_gaussian(inputs.v, random);
  return inputs;
}

/// Of the plan's kernel: rows of the mask that it splits.
template <class T>
std::size_t count_splits(ForwardPlan<T> const& plan, MaskWords const& mask) {
  AttentionProblem const& p = plan.problem;
  ForwardConfig const& config = forward_table[plan.kernel];
  if (config.arch != Arch::sm90a) return 0;
  std::int64_t const workers = config.resident_blocks(plan.device) * config.teams();
  return order_work(rows_of(p, mask), row_shape(p, workers)).splits.size();
}

template <class T>
bool is_sm90a(ForwardPlan<T> const& plan) {
  return forward_table[plan.kernel].arch == Arch::sm90a;
}

/// Rows of every query block, those at both ends too.
std::vector<reference::QueryRow> some_rows(AttentionProblem const& p) {
  std::vector<reference::QueryRow> rows;
  for (std::int64_t head = 0; head < p.heads; ++head)
    for (std::int64_t token = head * 7; token < p.q_tokens; token += 61) rows.push_back({0, head, token});
  rows.push_back({0, p.heads - 1, p.q_tokens - 1});
  return rows;
}

template <class T>
ForwardOutput<T> run_on(ForwardInputs<T> const& inputs, Device const& device, bool with_lse = true) {
  ForwardChoices choices;
  choices.with_lse = with_lse;
  ForwardRun<T> const run(inputs, choices, device);
  Stream const stream;
  must(run.run(stream));
  stream.wait();
  return run.download();
}

Device with_sms(std::int32_t count) {
  Device device = test_device();
  device.sm_count = count;
  return device;
}

}  // namespace

TEMPLATE_TEST_CASE("Long rows are right however many thread blocks share them", "[gpu][sm90]", bfloat16,
                   float16) {
  SKIP_WITHOUT_GPU();
  for (int head_dim : {64, 128})
    for (Unevenness kind : every_unevenness) {
      ForwardInputs<TestType> const inputs = uneven_inputs<TestType>(uneven_problem(head_dim), kind);
      ForwardTruth const truth = truth_of(inputs, some_rows(inputs.problem));
      for (std::int32_t sms : {1, 5, 132}) {
        CAPTURE(head_dim, static_cast<int>(kind), sms);
        check_forward(inputs.problem, truth, run_on(inputs, with_sms(sms)));
      }
    }
}

TEMPLATE_TEST_CASE("Masks with long rows are split and those without are not", "[gpu][sm90]", bfloat16,
                   float16) {
  SKIP_WITHOUT_GPU();
  for (int head_dim : {64, 128}) {
    ForwardPlan<TestType> plan;
    AttentionProblem const p = uneven_problem(head_dim);
    must(plan_forward(p, with_sms(132), {}, &plan));
    auto const splits = [&](Unevenness kind) { return count_splits(plan, make_uneven_mask(p, kind, 3)); };
    CHECK(splits(Unevenness::dense_row) == (is_sm90a(plan) ? 1 : 0));
    CHECK((splits(Unevenness::dense_lines) > 0) == is_sm90a(plan));
    CHECK((splits(Unevenness::none_one_all) > 0) == is_sm90a(plan));
    CHECK(splits(Unevenness::all_dense) == 0);
    CHECK(splits(Unevenness::even) == 0);
  }
}

TEMPLATE_TEST_CASE("Some warps ask for one piece of a row once more and the row is right", "[gpu][sm90]",
                   bfloat16, float16) {
  SKIP_WITHOUT_GPU();
  // Keys beyond the range of the first pass of the softmax, in some queries: in the first block of the row, in one in the
  // middle of a piece, in the last.
  for (int head_dim : {64, 128})
    for (std::int64_t block : {0, 37, 90})
      for (double nats : {95.0, 6000.0}) {
        ForwardInputs<TestType> inputs =
            uneven_inputs<TestType>(uneven_problem(head_dim), Unevenness::dense_lines);
        AttentionProblem const& p = inputs.problem;
        inputs.q.for_each_index([&](auto b, auto h, auto n, auto c) {
          if (c == 0) set(inputs.q, b, h, n, c, n % 96 < 20 ? 16 : 0);
        });
        inputs.k.for_each_index([&](auto b, auto h, auto n, auto c) {
          if (c == 0) set(inputs.k, b, h, n, c, n == block * 64 + 3 ? nats * std::sqrt(p.head_dim) / 16 : 0);
        });
        CAPTURE(head_dim, block, nats);
        check_forward(p, truth_of(inputs, some_rows(p)), run_on(inputs, with_sms(132)));
      }
}

TEMPLATE_TEST_CASE("Ties of huge logits are shared between the pieces of a row", "[gpu][sm90]", bfloat16,
                   float16) {
  SKIP_WITHOUT_GPU();
  for (int head_dim : {64, 128})
    for (Inputs kind : {Inputs::huge_logits, Inputs::huge_negative_logits, Inputs::heavy_tailed}) {
      CAPTURE(head_dim, static_cast<int>(kind));
      ForwardInputs<TestType> inputs =
          uneven_inputs<TestType>(uneven_problem(head_dim), Unevenness::dense_lines);
      Random random(8);
      fill_inputs(inputs.q, inputs.k, inputs.v, kind, random);
      check_forward(inputs.problem, truth_of(inputs, some_rows(inputs.problem)),
                    run_on(inputs, with_sms(132)));
    }
}

TEMPLATE_TEST_CASE("U22 lse does not change the rows that were split", "[gpu][sm90]", bfloat16, float16) {
  SKIP_WITHOUT_GPU();
  for (int head_dim : {64, 128}) {
    ForwardInputs<TestType> const inputs =
        uneven_inputs<TestType>(uneven_problem(head_dim), Unevenness::dense_lines);
    CHECK(element_bits(run_on(inputs, with_sms(132), false).out) ==
          element_bits(run_on(inputs, with_sms(132), true).out));
  }
}

TEMPLATE_TEST_CASE("NaN in one block reaches the rows that keep it when they are split", "[gpu][sm90]",
                   bfloat16, float16) {
  SKIP_WITHOUT_GPU();
  ForwardInputs<TestType> inputs = uneven_inputs<TestType>(uneven_problem(128), Unevenness::dense_row);
  AttentionProblem const& p = inputs.problem;
  for (std::int64_t head = 0; head < p.kv_heads; ++head) set(inputs.v, 0, head, 64 * 40, 5, NAN);
  ForwardOutput<TestType> const output = run_on(inputs, with_sms(132));
  std::int64_t const last = p.q_tokens - 1;
  for (std::int64_t c = 0; c < p.head_dim; ++c) {
    double const value = reference::to_double(output.out.at(0, p.heads - 1, last, c));
    CHECK(std::isnan(value) == (c == 5));
    CHECK(reference::to_double(output.out.at(0, 0, 0, c)) == 0);
  }
}

TEMPLATE_TEST_CASE("Splitting rows is clean and right on small shapes", "[gpu][sm90][sanitize]", bfloat16,
                   float16) {
  SKIP_WITHOUT_GPU();
  for (int head_dim : {64, 128}) {
    ForwardInputs<TestType> const inputs =
        uneven_inputs<TestType>({1, 2, 1, 300, 64 * 40 + 7, head_dim}, Unevenness::dense_row);
    ForwardRun<TestType> const run(inputs, {}, with_sms(132));
    CHECK((count_splits(run.plan(), inputs.mask) > 0) == is_sm90a(run.plan()));
    Stream const stream;
    must(run.run(stream));
    stream.wait();
    check_forward(inputs.problem, truth_of(inputs, some_rows(inputs.problem)), run.download());
  }
}
