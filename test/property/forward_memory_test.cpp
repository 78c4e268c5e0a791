/// Laws of memory: strides change nothing, and what is not part of a kept block changes nothing. Bit for bit.

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "sparge/sparge.hpp"
#include "support/attention_case.hpp"
#include "support/catch.hpp"
#include "support/gpu.hpp"

namespace {

using namespace sparge;
using namespace sparge::test;

constexpr Layout every_layout[] = {Layout::bhnd, Layout::bnhd, Layout::padded_rows, Layout::fused_qkv};

/// Inputs whose k and v are one head, one batch item or one token seen many times, by a stride of 0 on `axis`.
template <class T>
ForwardInputs<T> broadcast_inputs(AttentionProblem const& p, int axis) {
  ForwardInputs<T> inputs = make_inputs<T>({p});
  for (HostTensor<T>* x : {&inputs.k, &inputs.v}) {
    Shape stride = x->stride();
    stride[axis] = 0;
    HostTensor<T> shared(x->shape(), stride);
    shared.for_each_index([&](auto... at) { shared.at(at...) = x->at(at...); });
    *x = shared;
  }
  return inputs;
}

template <class T>
ForwardInputs<T> made_contiguous(ForwardInputs<T> inputs) {
  for (HostTensor<T>* x : {&inputs.q, &inputs.k, &inputs.v}) *x = relaid(*x, Layout::bhnd);
  return inputs;
}

/// Fills the key and value tokens of [begin, end) with one value, in every head.
template <class T>
void overwrite_keys(ForwardInputs<T>& inputs, std::int64_t begin, std::int64_t end, float value) {
  for (HostTensor<T>* x : {&inputs.k, &inputs.v})
    x->for_each_index([&](auto b, auto h, auto n, auto c) {
      if (n >= begin && n < end) x->at(b, h, n, c) = reference::round_to<T>(value);
    });
}

}  // namespace

TEMPLATE_TEST_CASE("U16 U65 any strides give the bits of contiguous tensors", "[gpu]", bfloat16, float16) {
  SKIP_WITHOUT_GPU();
  AttentionProblem const p{2, 4, 2, 300, 410, 64};
  ForwardInputs<TestType> const plain = make_inputs<TestType>({p});
  ForwardOutput<TestType> const wanted = run_forward(plain);
  check_forward(plain, wanted);
  for (Layout q : every_layout)
    for (Layout k : every_layout)
      for (Layout out : every_layout) {
        Layout const v = every_layout[(static_cast<int>(k) + static_cast<int>(q)) % 4];
        CAPTURE(static_cast<int>(q), static_cast<int>(k), static_cast<int>(v), static_cast<int>(out));
        ForwardInputs<TestType> const strided{p, relaid(plain.q, q), relaid(plain.k, k), relaid(plain.v, v),
                                              plain.mask};
        ForwardChoices choices;
        choices.out_layout = out;
        CHECK(run_forward(strided, choices) == wanted);
      }
}

TEMPLATE_TEST_CASE(
    "U71 heads and batch items and tokens broadcast by a stride of zero give the bits of copies", "[gpu]",
    bfloat16, float16) {
  SKIP_WITHOUT_GPU();
  for (int axis : {0, 1, 2}) {
    ForwardInputs<TestType> const shared = broadcast_inputs<TestType>({3, 4, 4, 200, 300, 128}, axis);
    ForwardOutput<TestType> const output = run_forward(shared);
    CHECK(output == run_forward(made_contiguous(shared)));
    check_forward(shared, output);
  }
}

TEMPLATE_TEST_CASE("U32 NaN and infinity in dropped blocks change no bit", "[gpu]", bfloat16, float16) {
  SKIP_WITHOUT_GPU();
  AttentionProblem const p{1, 4, 2, 300, 64 * 5 + 9, 64};
  ForwardInputs<TestType> inputs = make_inputs<TestType>({p});
  inputs.mask =
      make_mask(p, [](auto, auto h, auto i, auto j) { return j != 2 && j != 5 && (i + j + h) % 3 != 0; });
  ForwardOutput<TestType> const clean = run_forward(inputs);
  check_forward(inputs, clean);
  float const infinity = std::numeric_limits<float>::infinity();
  for (float value : {std::numeric_limits<float>::quiet_NaN(), infinity, -infinity}) {
    CAPTURE(value);
    ForwardInputs<TestType> spoilt = inputs;
    overwrite_keys(spoilt, 2 * 64, 3 * 64, value);
    overwrite_keys(spoilt, 5 * 64, 5 * 64 + 9, value);  // the partial block
    CHECK(run_forward(spoilt) == clean);
  }
}

TEMPLATE_TEST_CASE("U32 U94 tokens that are allocated but not valid change no bit", "[gpu]", bfloat16,
                   float16) {
  SKIP_WITHOUT_GPU();
  AttentionProblem const p{2, 2, 1, 57, 123, 64};
  ForwardInputs<TestType> const plain = make_inputs<TestType>({p});
  ForwardOutput<TestType> const wanted = run_forward(plain);
  for (float value :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), 7.0f}) {
    ForwardInputs<TestType> padded = plain;
    for (HostTensor<TestType>* x : {&padded.q, &padded.k, &padded.v}) {
      Shape const shape = x->shape();
      std::int64_t const head = (shape[2] + 6) * shape[3];  // 6 tokens more than are valid
      HostTensor<TestType> wide(shape, Shape{shape[1] * head, head, shape[3], 1});
      for (TestType& element : wide.storage()) element = reference::round_to<TestType>(value);
      wide.for_each_index([&](auto... at) { wide.at(at...) = x->at(at...); });
      *x = wide;
    }
    CHECK(run_forward(padded) == wanted);
  }
}

TEMPLATE_TEST_CASE("U32 a NaN in a query spoils its own row alone", "[gpu]", bfloat16, float16) {
  SKIP_WITHOUT_GPU();
  AttentionProblem const p{1, 2, 2, 200, 300, 64};
  ForwardInputs<TestType> inputs = make_inputs<TestType>({p});
  inputs.mask = full_mask(p);
  HostTensor<TestType> const clean = run_forward(inputs).out;
  set(inputs.q, 0, 1, 77, 5, std::numeric_limits<double>::quiet_NaN());
  HostTensor<TestType> const spoilt = run_forward(inputs).out;
  std::int64_t wrong = 0;
  double beside = 0;
  spoilt.for_each_index([&](auto b, auto h, auto n, auto c) {
    double const x = reference::to_double(spoilt.at(b, h, n, c));
    double const wanted = reference::to_double(clean.at(b, h, n, c));
    bool const is_row = h == 1 && n == 77;
    // The 16 rows of a warp may share one decision about how their softmax is computed.
    if (h == 1 && n / 16 == 77 / 16 && !is_row)
      beside = max_or_nan(beside, std::abs(x - wanted));
    else
      wrong += is_row ? !std::isnan(x) : x != wanted;
  });
  CHECK(wrong == 0);
  CHECK(beside <= unit_in_last_place<TestType>(1));
}
