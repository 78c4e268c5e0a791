/// forward() against the f64 reference: every kernel of the table, every mask block, mask and kind of input.

#include <cstdint>
#include <vector>

#include "sparge/sparge.hpp"
#include "support/attention_case.hpp"
#include "support/catch.hpp"
#include "support/gpu.hpp"

namespace {

using namespace sparge;
using namespace sparge::test;

/// A case on every kernel that serves it, with and without lse.
template <class T>
void check_on_every_kernel(ForwardCase const& c) {
  AttentionProblem const& p = c.problem;
  ForwardInputs<T> const inputs = make_inputs<T>(c);
  ForwardTruth const truth = truth_of(inputs);
  std::vector<std::int32_t> const kernels = kernels_for(element_type_of<T>, p, test_device());
  REQUIRE_FALSE(kernels.empty());
  for (std::int32_t kernel : kernels) {
    CAPTURE(kernel, p.head_dim, p.q_block, p.kv_block, static_cast<int>(c.inputs), static_cast<int>(c.mask),
            c.seed);
    ForwardChoices choices;
    choices.options.force_kernel = kernel;
    ForwardOutput<T> const with_lse = run_forward(inputs, choices);
    check_forward(p, truth, with_lse);
    choices.with_lse = false;
    CHECK(element_bits(run_forward(inputs, choices).out) == element_bits(with_lse.out));
  }
}

template <class T>
void check_every_block_and_head_dim(ForwardCase c) {
  for (int head_dim : {64, 128})
    for (int q_block : {64, 128})
      for (int kv_block : {64, 128}) {
        c.problem.head_dim = head_dim, c.problem.q_block = q_block, c.problem.kv_block = kv_block;
        check_on_every_kernel<T>(c);
      }
}

}  // namespace

TEMPLATE_TEST_CASE("Every kernel gives the reference for every kind of input", "[gpu]", bfloat16, float16) {
  SKIP_WITHOUT_GPU();
  for (Inputs kind : every_inputs) {
    ForwardCase c{{2, 4, 2, 333, 460, 64}};
    c.inputs = kind;
    check_every_block_and_head_dim<TestType>(c);
  }
}

TEMPLATE_TEST_CASE("Every kernel gives the reference for every kind of mask", "[gpu]", bfloat16, float16) {
  SKIP_WITHOUT_GPU();
  for (MaskKind kind : every_mask_kind) {
    ForwardCase c{{1, 3, 1, 391, 1100, 64}};
    c.mask = kind, c.seed = 7;
    check_every_block_and_head_dim<TestType>(c);
  }
}

TEMPLATE_TEST_CASE("U96 kernels chosen for less shared memory give the same result", "[gpu]", bfloat16,
                   float16) {
  SKIP_WITHOUT_GPU();
  for (int head_dim : {64, 128}) {
    ForwardInputs<TestType> const inputs = make_inputs<TestType>({{1, 2, 2, 300, 500, head_dim}});
    ForwardTruth const truth = truth_of(inputs);
    Device small = test_device();
    small.shared_bytes_per_block = 101376, small.shared_bytes_per_sm = 102400;
    ForwardRun<TestType> const run(inputs, {}, small);
    Stream const stream;
    must(run.run(stream));
    stream.wait();
    check_forward(inputs.problem, truth, run.download());
  }
}

TEMPLATE_TEST_CASE("U90 uneven row counts over an odd number of query blocks never hang or mix rows", "[gpu]",
                   bfloat16, float16) {
  SKIP_WITHOUT_GPU();
  ForwardCase c{{1, 2, 2, 128 * 7, 128 * 7, 128}};
  c.mask = MaskKind::uneven;
  ForwardInputs<TestType> const inputs = make_inputs<TestType>(c);
  ForwardRun<TestType> run(inputs);
  Stream const stream;
  must(run.run(stream));
  stream.wait();
  ForwardOutput<TestType> const wanted = run.download();
  check_forward(inputs, wanted);
  for (int repeat = 0; repeat < 20; ++repeat) {
    run.poison_outputs();
    for (int i = 0; i < 100; ++i) must(run.run(stream));
    stream.wait();
    REQUIRE(run.download() == wanted);
  }
}

TEMPLATE_TEST_CASE("U09 grouped heads read the kv head of their group", "[gpu]", bfloat16, float16) {
  SKIP_WITHOUT_GPU();
  struct Heads {
    std::int64_t q, kv;
  };
  for (Heads heads : {Heads{12, 4}, {16, 2}, {40, 8}, {28, 4}, {6, 1}, {7, 7}})
    check_case<TestType>({{2, heads.q, heads.kv, 130, 200, 64}});
}

TEMPLATE_TEST_CASE("U08 a batch item alone equals the item inside its batch", "[gpu]", bfloat16, float16) {
  SKIP_WITHOUT_GPU();
  ForwardCase c{{4, 16, 2, 257, 321, 128}};
  c.inputs = Inputs::heavy_tailed;
  ForwardInputs<TestType> const whole = make_inputs<TestType>(c);
  ForwardOutput<TestType> const together = run_forward(whole);
  check_forward(whole, together);
  auto const item_of = [](HostTensor<TestType> const& x, std::int64_t b) {
    Shape shape = x.shape();
    shape[0] = 1;
    HostTensor<TestType> item(shape);
    item.for_each_index(
        [&](auto, auto h, auto n, auto channel) { item.at(0, h, n, channel) = x.at(b, h, n, channel); });
    return item;
  };
  for (std::int64_t b = 0; b < 4; ++b) {
    AttentionProblem p = c.problem;
    p.batch = 1;
    auto const words = static_cast<std::ptrdiff_t>(reference::mask_words(p));
    MaskWords const mask(whole.mask.begin() + b * words, whole.mask.begin() + (b + 1) * words);
    ForwardOutput<TestType> const alone =
        run_forward<TestType>({p, item_of(whole.q, b), item_of(whole.k, b), item_of(whole.v, b), mask});
    CHECK(element_bits(alone.out) == element_bits(item_of(together.out, b)));
  }
}

TEMPLATE_TEST_CASE("U63 a mask that keeps one block differs from dense attention", "[gpu]", bfloat16,
                   float16) {
  SKIP_WITHOUT_GPU();
  AttentionProblem const p{1, 2, 2, 512, 512, 64};
  ForwardInputs<TestType> inputs = make_inputs<TestType>({p});
  inputs.mask = make_mask(p, [](auto, auto, auto, auto j) { return j == 0; });
  ForwardOutput<TestType> const sparse = run_forward(inputs);
  check_forward(inputs, sparse);
  inputs.mask = full_mask(p);
  ForwardOutput<TestType> const dense = run_forward(inputs);
  check_forward(inputs, dense);
  CHECK(element_bits(sparse.out) != element_bits(dense.out));
}

TEMPLATE_TEST_CASE("U64 a scale that is given is the one that is used", "[gpu]", bfloat16, float16) {
  SKIP_WITHOUT_GPU();
  for (float scale : {1e-6f, 0.01f, 1.0f, 20.0f}) {
    ForwardCase c{{1, 2, 1, 200, 300, 64}};
    c.problem.scale = scale;
    c.inputs = Inputs::constant_rows;
    check_case<TestType>(c);
  }
}
