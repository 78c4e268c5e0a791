/// backward() against the f64 reference: every kernel of the table, every mask block, mask and kind of input.

#include <cstdint>
#include <vector>

#include "sparge/sparge.hpp"
#include "support/catch.hpp"
#include "support/gpu.hpp"
#include "support/gradient_case.hpp"

namespace {

using namespace sparge;
using namespace sparge::test;

template <class T>
void check_on_every_kernel(GradientCase const& c) {
  AttentionProblem const& p = c.forward.problem;
  GradientInputs<T> const inputs = make_gradient_inputs<T>(c);
  GradientTruth const truth = truth_of(inputs);
  std::vector<std::int32_t> const kernels = backward_kernels_for<T>(p, test_device());
  REQUIRE(kernels.size() >= 2);
  for (std::int32_t kernel : kernels) {
    CAPTURE(kernel, p.head_dim, p.q_block, p.kv_block, static_cast<int>(c.forward.inputs),
            static_cast<int>(c.forward.mask), c.forward.seed);
    GradientChoices choices;
    choices.options.force_kernel = kernel;
    check_gradients(truth, run_backward(inputs, choices));
  }
}

template <class T>
void check_every_block_and_head_dim(GradientCase c) {
  AttentionProblem& p = c.forward.problem;
  for (int head_dim : {64, 128})
    for (int q_block : {64, 128})
      for (int kv_block : {64, 128}) {
        p.head_dim = head_dim, p.q_block = q_block, p.kv_block = kv_block;
        check_on_every_kernel<T>(c);
      }
}

}  // namespace

TEMPLATE_TEST_CASE("Every backward kernel gives the reference for every kind of input", "[gpu]", bfloat16,
                   float16) {
  SKIP_WITHOUT_GPU();
  for (Inputs kind : every_inputs) {
    GradientCase c{{{1, 2, 1, 333, 460, 64}}};
    c.forward.inputs = kind;
    check_every_block_and_head_dim<TestType>(c);
  }
}

TEMPLATE_TEST_CASE("Every backward kernel gives the reference for every kind of mask", "[gpu]", bfloat16,
                   float16) {
  SKIP_WITHOUT_GPU();
  for (MaskKind kind : every_mask_kind) {
    GradientCase c{{{1, 3, 1, 391, 500, 64}}};
    c.forward.mask = kind, c.forward.seed = 7;
    c.with_grad_lse = true;
    check_every_block_and_head_dim<TestType>(c);
  }
}

TEMPLATE_TEST_CASE("U96 backward kernels chosen for less shared memory give the same result", "[gpu]",
                   bfloat16, float16) {
  SKIP_WITHOUT_GPU();
  for (int head_dim : {64, 128}) {
    GradientInputs<TestType> const inputs = make_gradient_inputs<TestType>({{{1, 2, 2, 300, 500, head_dim}}});
    Device small = test_device();
    small.shared_bytes_per_block = 101376, small.shared_bytes_per_sm = 102400;
    GradientRun<TestType> const run(inputs, {}, small);
    Stream const stream;
    must(run.run(stream));
    stream.wait();
    check_gradients(truth_of(inputs), run.download());
  }
}

TEMPLATE_TEST_CASE("U03 gradients are right for every size of the last blocks", "[gpu]", bfloat16, float16) {
  SKIP_WITHOUT_GPU();
  for (int head_dim : {64, 128})
    for (std::int64_t kv_tail : {1, 2, 15, 16, 17, 31, 33, 63})
      for (std::int64_t q_tail : {1, 63, 64, 65, 127}) {
        GradientCase c{{{1, 1, 1, 128 + q_tail, 64 * 2 + kv_tail, head_dim}}};
        c.forward.mask = MaskKind::full;
        ForwardInputs<TestType> inputs = make_inputs<TestType>(c.forward);
        Random random(static_cast<std::uint64_t>(kv_tail * 1000 + q_tail));
        for (HostTensor<TestType>* x : {&inputs.q, &inputs.k, &inputs.v}) fill_gaussian(*x, random, 3);
        check_gradient_case(make_gradient_inputs(std::move(inputs), 1));
      }
}

TEMPLATE_TEST_CASE("U09 gradients of keys and values are sums over the heads of a group", "[gpu]", bfloat16,
                   float16) {
  SKIP_WITHOUT_GPU();
  struct Heads {
    std::int64_t q, kv;
  };
  for (Heads heads : {Heads{12, 4}, {16, 2}, {40, 8}, {28, 4}, {6, 1}, {7, 7}})
    check_gradient_case<TestType>(GradientCase{{{2, heads.q, heads.kv, 130, 200, 64}}});
}

TEMPLATE_TEST_CASE("U08 gradients of a batch item alone equal those of the item inside its batch", "[gpu]",
                   bfloat16, float16) {
  SKIP_WITHOUT_GPU();
  GradientCase c{{{3, 8, 2, 257, 193, 128}}};
  c.forward.inputs = Inputs::heavy_tailed;
  GradientInputs<TestType> const whole = make_gradient_inputs<TestType>(c);
  GradientOutput<TestType> const together = run_backward(whole);
  check_gradients(truth_of(whole), together);
  auto const item_of = [](HostTensor<TestType> const& x, std::int64_t b) {
    Shape shape = x.shape();
    shape[0] = 1;
    HostTensor<TestType> item(shape);
    item.for_each_index(
        [&](auto, auto h, auto n, auto channel) { item.at(0, h, n, channel) = x.at(b, h, n, channel); });
    return item;
  };
  for (std::int64_t b = 0; b < 3; ++b) {
    AttentionProblem p = c.forward.problem;
    p.batch = 1;
    auto const words = static_cast<std::ptrdiff_t>(reference::mask_words(p));
    auto const rows = static_cast<std::ptrdiff_t>(p.heads * p.q_tokens);
    ForwardInputs<TestType> const& all = whole.forward;
    GradientInputs<TestType> const item{
        {p, item_of(all.q, b), item_of(all.k, b), item_of(all.v, b),
         MaskWords(all.mask.begin() + b * words, all.mask.begin() + (b + 1) * words)},
        item_of(whole.out, b),
        item_of(whole.grad_out, b),
        std::vector<float>(whole.lse.begin() + b * rows, whole.lse.begin() + (b + 1) * rows),
        {}};
    GradientOutput<TestType> const wanted{item_of(together.grad_q, b), item_of(together.grad_k, b),
                                          item_of(together.grad_v, b)};
    CHECK(run_backward(item) == wanted);
  }
}

TEMPLATE_TEST_CASE("Gradients are right where rows and columns of the mask are more than one word", "[gpu]",
                   bfloat16, float16) {
  SKIP_WITHOUT_GPU();
  for (MaskKind kind : {MaskKind::half, MaskKind::tenth, MaskKind::full})
    for (bool tall : {true, false}) {
      GradientCase c{{{1, 2, 1, tall ? 2500 : 130, tall ? 130 : 2500, 64, 64, 64}}};
      c.forward.mask = kind;
      check_gradient_case<TestType>(c);
    }
}

TEMPLATE_TEST_CASE("Backward uses the scale that is given", "[gpu]", bfloat16, float16) {
  SKIP_WITHOUT_GPU();
  for (float scale : {1e-6f, 0.01f, 1.0f, 20.0f}) {
    GradientCase c{{{1, 2, 1, 200, 300, 64}}};
    c.forward.problem.scale = scale;
    c.forward.inputs = Inputs::constant_rows;
    check_gradient_case<TestType>(c);
  }
}
