#pragma once
/// A backward test from one record: make inputs, run the library, compare with the reference.

#include <cmath>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "sparge/reference/attention_grad.hpp"
#include "sparge/reference/naive.hpp"
#include "support/attention_case.hpp"

namespace sparge::test {

/// What a test case varies beside the forward inputs.
struct GradientCase {
  ForwardCase forward;
  double grad_out_sigma = 1;
  bool with_grad_lse = false;
};

/// Host tensors of one call. `out` and `lse` are those of the f64 reference, rounded.
template <class T>
struct GradientInputs {
  ForwardInputs<T> forward;
  HostTensor<T> out, grad_out;
  std::vector<float> lse, grad_lse;  ///< grad_lse empty where it is not given

  AttentionProblem const& problem() const { return forward.problem; }
  reference::AttentionGradArgs<T, float> reference_args() const {
    return {forward.q.const_view(),
            forward.k.const_view(),
            forward.v.const_view(),
            view_of(forward.mask),
            out.const_view(),
            grad_out.const_view(),
            lse.data(),
            grad_lse.empty() ? nullptr : grad_lse.data()};
  }
};

/// The results of forward for inputs that are there, as `out` and `lse` of backward.
template <class T>
void set_forward_results(GradientInputs<T>& inputs) {
  AttentionProblem const& p = inputs.problem();
  auto const exact = reference::attention(p, inputs.forward.q.const_view(), inputs.forward.k.const_view(),
                                          inputs.forward.v.const_view(), view_of(inputs.forward.mask));
  inputs.out = HostTensor<T>(q_shape(p));
  std::size_t next = 0;
  fill(inputs.out, [&](auto...) { return exact.out[next++]; });
  inputs.lse.assign(exact.lse.begin(), exact.lse.end());
}

template <class T>
GradientInputs<T> make_gradient_inputs(ForwardInputs<T> forward, std::uint64_t seed,
                                       double grad_out_sigma = 1, bool with_grad_lse = false) {
  GradientInputs<T> inputs{std::move(forward), {}, {}, {}, {}};
  set_forward_results(inputs);
  Random random(seed + 1000);
  inputs.grad_out = HostTensor<T>(q_shape(inputs.problem()));
  fill_gaussian(inputs.grad_out, random, grad_out_sigma);
  if (with_grad_lse)
    for (std::size_t i = 0; i < inputs.lse.size(); ++i)
      inputs.grad_lse.push_back(static_cast<float>(random.gaussian()));
  return inputs;
}

/// Queries to even integers, so that huge logits, whose keys are even integers already, are exact in f32 in any order of
/// addition. P = exp(S - lse) has no later division to forgive them: else it is rounding noise, in any arithmetic.
template <class T>
void make_logits_exact(HostTensor<T>& q) {
  fill(q, [&](auto... at) { return 2 * std::round(reference::to_double(q.at(at...)) / 2); });
}

template <class T>
GradientInputs<T> make_gradient_inputs(GradientCase const& c) {
  ForwardInputs<T> inputs = make_inputs<T>(c.forward);
  Inputs const kind = c.forward.inputs;
  if (kind == Inputs::huge_logits || kind == Inputs::huge_negative_logits) make_logits_exact(inputs.q);
  return make_gradient_inputs(std::move(inputs), c.forward.seed, c.grad_out_sigma, c.with_grad_lse);
}

template <class T>
struct GradientOutput {
  HostTensor<T> grad_q, grad_k, grad_v;
};

template <class T>
bool operator==(GradientOutput<T> const& a, GradientOutput<T> const& b) {
  return element_bits(a.grad_q) == element_bits(b.grad_q) &&
         element_bits(a.grad_k) == element_bits(b.grad_k) && element_bits(a.grad_v) == element_bits(b.grad_v);
}

/// How the library is called.
struct GradientChoices {
  Layout grad_q_layout = Layout::bhnd, grad_kv_layout = Layout::bhnd;
  PlanOptions options;
};

/// A planned call with its own device memory. Outputs and scratch start poisoned.
template <class T>
class GradientRun {
public:
  GradientRun(GradientInputs<T> const& inputs, GradientChoices const& choices = {},
              Device const& device = test_device())
      : plan_(make_plan(inputs.problem(), device, choices.options)),
        q_(inputs.forward.q),
        k_(inputs.forward.k),
        v_(inputs.forward.v),
        out_(inputs.out),
        grad_out_(inputs.grad_out),
        lse_(inputs.lse),
        grad_lse_(inputs.grad_lse),
        mask_(inputs.forward.mask),
        grad_q_(q_shape(inputs.problem()), choices.grad_q_layout),
        grad_k_(kv_shape(inputs.problem()), choices.grad_kv_layout),
        grad_v_(kv_shape(inputs.problem()), choices.grad_kv_layout),
        scratch_(plan_.workspace_bytes) {}

  BackwardPlan<T> const& plan() const { return plan_; }
  BackwardArgs<T> args() const {
    return {q_.view(),
            k_.view(),
            v_.view(),
            out_.view(),
            grad_out_.view(),
            lse_.data(),
            grad_lse_.size() > 0 ? grad_lse_.data() : nullptr,
            {mask_.data(), static_cast<std::size_t>(mask_.size())},
            grad_q_.view(),
            grad_k_.view(),
            grad_v_.view()};
  }
  Workspace workspace() const { return scratch_.workspace(); }
  DeviceBuffer<unsigned char>& scratch() { return scratch_.bytes(); }

  Status run(cudaStream_t stream) const { return backward(plan_, args(), workspace(), stream); }

  /// New inputs of the same shapes and layouts, at the same addresses.
  void upload(GradientInputs<T> const& inputs) {
    q_.upload(inputs.forward.q), k_.upload(inputs.forward.k), v_.upload(inputs.forward.v);
    out_.upload(inputs.out), grad_out_.upload(inputs.grad_out);
    lse_.upload(inputs.lse), grad_lse_.upload(inputs.grad_lse);
    mask_.upload(inputs.forward.mask);
  }

  void poison_outputs() {
    for (DeviceTensor<T>* x : {&grad_q_, &grad_k_, &grad_v_})
      x->buffer().fill_bytes(GuardedMemory::poison_byte);
  }
  bool outputs_untouched() const {
    return grad_q_.buffer().is_untouched() && grad_k_.buffer().is_untouched() &&
           grad_v_.buffer().is_untouched();
  }
  GradientOutput<T> download() const { return {grad_q_.download(), grad_k_.download(), grad_v_.download()}; }

private:
  static BackwardPlan<T> make_plan(AttentionProblem const& problem, Device const& device,
                                   PlanOptions const& options) {
    BackwardPlan<T> plan;
    must(plan_backward(problem, device, options, &plan));
    return plan;
  }

  BackwardPlan<T> plan_;
  DeviceTensor<T> q_, k_, v_, out_, grad_out_;
  DeviceBuffer<float> lse_, grad_lse_;
  DeviceBuffer<std::uint32_t> mask_;
  DeviceTensor<T> grad_q_, grad_k_, grad_v_;
  ScratchBuffer scratch_;
};

/// Runs once on a stream of its own. Throws where the call is refused.
template <class T>
GradientOutput<T> run_backward(GradientInputs<T> const& inputs, GradientChoices const& choices = {}) {
  GradientRun<T> const run(inputs, choices);
  Stream const stream;
  must(run.run(stream));
  stream.wait();
  GradientOutput<T> output = run.download();
  CHECK(padding_is_poison(output.grad_q));
  CHECK(padding_is_poison(output.grad_k));
  CHECK(padding_is_poison(output.grad_v));
  return output;
}

/// What gradients must be, from the reference, and the yardsticks for their error: dS may be made of P or of P as it is rounded
/// for dV, and the errors of the two evaluations differ by chance where few elements matter.
struct GradientTruth {
  reference::AttentionGrad exact, naive, naive_on_rounded;
};

template <class T>
GradientTruth truth_of(GradientInputs<T> const& inputs) {
  auto const args = inputs.reference_args();
  return {reference::attention_grad(inputs.problem(), args),
          reference::naive_attention_grad(inputs.problem(), args),
          reference::naive_attention_grad_on_rounded(inputs.problem(), args)};
}

/// `part` of a truth, such as its grad_k, within what either yardstick allows; `floor` is for gradients that cancel to nothing in
/// exact arithmetic, see compare().
template <class T, class Part>
Comparison compare_gradient(std::vector<double> const& actual, GradientTruth const& truth, Part part,
                            double floor = 0) {
  Comparison const first = compare<T>(actual, part(truth.exact), part(truth.naive), floor);
  return first.ok ? first : compare<T>(actual, part(truth.exact), part(truth.naive_on_rounded), floor);
}

template <class T>
void check_gradients(GradientTruth const& truth, GradientOutput<T> const& output, double floor = 0) {
  using Grad = reference::AttentionGrad;
  auto const check = [&](char const* name, auto const& actual, std::vector<double> Grad::*part) {
    INFO(name);
    CHECK(compare_gradient<T>(actual.values(), truth, std::mem_fn(part), floor));
  };
  check("grad_q", output.grad_q, &Grad::grad_q);
  check("grad_k", output.grad_k, &Grad::grad_k);
  check("grad_v", output.grad_v, &Grad::grad_v);
}

/// The whole test of one case.
template <class T>
void check_gradient_case(GradientInputs<T> const& inputs, GradientChoices const& choices = {}) {
  AttentionProblem const& p = inputs.problem();
  CAPTURE(p.batch, p.heads, p.kv_heads, p.q_tokens, p.kv_tokens, p.head_dim, p.q_block, p.kv_block, p.scale);
  check_gradients(truth_of(inputs), run_backward(inputs, choices));
}

template <class T>
void check_gradient_case(GradientCase const& c, GradientChoices const& choices = {}) {
  CAPTURE(static_cast<int>(c.forward.inputs), static_cast<int>(c.forward.mask), c.forward.seed,
          c.grad_out_sigma, c.with_grad_lse);
  check_gradient_case(make_gradient_inputs<T>(c), choices);
}

/// Every kernel of either pass that can be forced for a problem on a device.
template <class T>
std::vector<std::int32_t> backward_kernels_for(AttentionProblem const& p, Device const& device) {
  std::vector<std::int32_t> serving;
  for (std::int32_t index = 0; index < supported_backward_kernels(); ++index) {
    PlanOptions options;
    options.force_kernel = index;
    BackwardPlan<T> plan;
    if (plan_backward(p, device, options, &plan).ok()) serving.push_back(index);
  }
  return serving;
}

}  // namespace sparge::test
