/// Laws of backward that need no reference: determinism, memory, workspaces. Bit for bit.

#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "sparge/sparge.hpp"
#include "support/catch.hpp"
#include "support/gpu.hpp"
#include "support/gradient_case.hpp"

namespace {

using namespace sparge;
using namespace sparge::test;

constexpr Layout every_layout[] = {Layout::bhnd, Layout::bnhd, Layout::padded_rows, Layout::fused_qkv};

template <class T>
GradientOutput<T> run_again(GradientRun<T>& run, cudaStream_t stream) {
  run.poison_outputs();
  must(run.run(stream));
  CHECK_CUDA(cudaStreamSynchronize(stream));
  return run.download();
}

/// Inputs whose out and lse are of the library's own forward: for sizes at which the f64 reference would take minutes.
template <class T>
GradientInputs<T> make_large_inputs(AttentionProblem const& p, MaskKind mask) {
  GradientInputs<T> inputs{make_inputs<T>({p, Inputs::gaussian, mask, 1}), {}, {}, {}, {}};
  ForwardOutput<T> forward = run_forward(inputs.forward);
  inputs.out = std::move(forward.out);
  inputs.lse = std::move(forward.lse);
  Random random(2);
  inputs.grad_out = HostTensor<T>(q_shape(p));
  fill_gaussian(inputs.grad_out, random, 1);
  return inputs;
}

/// `repeats` runs while another stream keeps the GPU busy with the same call.
template <class T>
void check_same_bits(GradientInputs<T> const& inputs, int repeats) {
  GradientRun<T> run(inputs), load(inputs);
  Stream const stream, other;
  GradientOutput<T> const wanted = run_again(run, stream);
  for (int repeat = 0; repeat < repeats; ++repeat) {
    must(load.run(other));
    CHECK(run_again(run, stream) == wanted);
  }
  other.wait();
}

}  // namespace

TEMPLATE_TEST_CASE("U10 U11 gradients are the same bits in every run", "[gpu]", bfloat16, float16) {
  SKIP_WITHOUT_GPU();
  for (int head_dim : {64, 128})
    check_same_bits(make_gradient_inputs<TestType>({{{1, 4, 2, 1000, 900, head_dim}}}), 30);
}

TEST_CASE("U10 gradients of thousands of tokens are the same bits in every run", "[gpu]") {
  SKIP_WITHOUT_GPU();
  check_same_bits(make_large_inputs<bfloat16>({1, 8, 8, 8192, 8192, 128}, MaskKind::half), 30);
}

TEMPLATE_TEST_CASE("U13 what a workspace held before changes no gradient", "[gpu]", bfloat16, float16) {
  SKIP_WITHOUT_GPU();
  GradientRun<TestType> run(make_gradient_inputs<TestType>({{{2, 2, 1, 200, 300, 64}}}));
  Stream const stream;
  GradientOutput<TestType> const wanted = run_again(run, stream);
  for (unsigned char byte : {0x00, 0xFF, 0x7F, 0x42}) {
    run.scratch().fill_bytes(byte);
    CHECK(run_again(run, stream) == wanted);
  }
  CHECK(run_again(run, stream) == wanted);
}

TEMPLATE_TEST_CASE("Any strides give the gradients of contiguous tensors", "[gpu]", bfloat16, float16) {
  SKIP_WITHOUT_GPU();
  GradientInputs<TestType> const plain = make_gradient_inputs<TestType>({{{2, 4, 2, 200, 210, 64}}});
  GradientOutput<TestType> const wanted = run_backward(plain);
  for (int shift = 0; shift < 16; ++shift) {
    auto const layout = [&](int i) { return every_layout[(shift * (i + 1) + shift / 4 + i) % 4]; };
    CAPTURE(shift);
    GradientInputs<TestType> strided = plain;
    ForwardInputs<TestType>& f = strided.forward;
    f.q = relaid(plain.forward.q, layout(0)), f.k = relaid(plain.forward.k, layout(1));
    f.v = relaid(plain.forward.v, layout(2)), strided.out = relaid(plain.out, layout(3));
    strided.grad_out = relaid(plain.grad_out, layout(4));
    GradientChoices choices;
    choices.grad_q_layout = layout(5), choices.grad_kv_layout = layout(6);
    CHECK(run_backward(strided, choices) == wanted);
  }
}

TEMPLATE_TEST_CASE("U32 NaN and infinity in dropped blocks change no bit of a gradient", "[gpu]", bfloat16,
                   float16) {
  SKIP_WITHOUT_GPU();
  AttentionProblem const p{1, 2, 1, 300, 400, 128};
  GradientInputs<TestType> inputs = make_gradient_inputs<TestType>({{p}});
  inputs.forward.mask = make_mask(p, [](auto, auto, auto i, auto j) { return i != 1 && j % 2 == 0; });
  set_forward_results(inputs);
  GradientOutput<TestType> const wanted = run_backward(inputs);
  for (double bad : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    GradientInputs<TestType> spoilt = inputs;
    ForwardInputs<TestType>& f = spoilt.forward;
    for (HostTensor<TestType>* x : {&f.k, &f.v})
      x->for_each_index([&](auto b, auto h, auto n, auto c) {
        if (n / p.kv_block % 2 == 1) set(*x, b, h, n, c, bad);
      });
    for (HostTensor<TestType>* x : {&f.q, &spoilt.out, &spoilt.grad_out})
      x->for_each_index([&](auto b, auto h, auto n, auto c) {
        if (n / p.q_block == 1) set(*x, b, h, n, c, bad);
      });
    CHECK(run_backward(spoilt) == wanted);
  }
}

TEMPLATE_TEST_CASE("Gradients do not depend on the mask blocks where the same pairs are kept", "[gpu]",
                   bfloat16, float16) {
  SKIP_WITHOUT_GPU();
  GradientInputs<TestType> inputs = make_gradient_inputs<TestType>({{{1, 2, 2, 300, 400, 64}}});
  AttentionProblem& p = inputs.forward.problem;
  p.kv_block = 128;
  BackwardPlan<TestType> plan;
  must(plan_backward(p, test_device(), {}, &plan));
  GradientChoices choices;
  choices.options.force_kernel =
      plan.dkdv_kernel;  // of the kernels chosen for other blocks, sums may be in another order
  auto const with_blocks = [&](int q_block, int kv_block) {
    p.q_block = q_block, p.kv_block = kv_block;
    inputs.forward.mask = make_mask(p, [&](auto, auto h, auto i, auto j) {
      return (i * q_block / 128 + j * kv_block / 128 + h) % 2 == 0;
    });
    set_forward_results(inputs);
    GradientOutput<TestType> const output = run_backward(inputs, choices);
    return std::pair(element_bits(output.grad_k), element_bits(output.grad_v));
  };
  auto const wanted = with_blocks(128, 128);
  CHECK(with_blocks(64, 128) == wanted);
  CHECK(with_blocks(128, 64) == wanted);
  CHECK(with_blocks(64, 64) == wanted);
}

TEST_CASE("U20 short rows of keys over many batch items give one result", "[gpu]") {
  SKIP_WITHOUT_GPU();
  check_same_bits(make_large_inputs<bfloat16>({300, 1, 1, 512, 128, 128}, MaskKind::full), 50);
}

TEST_CASE("U12 the workspace of backward grows with the tokens and with nothing else") {
  Device const device{0, 9, 0, 132, 232448, 233472, 62914560};
  std::size_t bytes[2];
  for (int i : {0, 1}) {
    std::int64_t const tokens = 75600 << i;
    AttentionProblem const p{1, 40, 40, tokens, tokens, 128};
    BackwardPlan<bfloat16> plan;
    must(plan_backward(p, device, {}, &plan));
    auto const least = static_cast<std::size_t>(40 * 8 * ((tokens + 127) / 128 * 128));
    CHECK(plan.workspace_bytes >= least);
    CHECK(plan.workspace_bytes <= least + (std::size_t{64} << 20));  // pieces of long rows and columns
    bytes[i] = plan.workspace_bytes;
  }
  CHECK(static_cast<double>(bytes[1] - bytes[0]) <= 1.05 * 40 * 8 * 75600);
}
