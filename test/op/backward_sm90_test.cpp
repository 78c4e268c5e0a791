/// backward() on what the kernels for 9.0 could get wrong. On another GPU the same tests run the portable kernels.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include "sparge/plan/forward_config.hpp"
#include "sparge/sparge.hpp"
#include "support/catch.hpp"
#include "support/gpu.hpp"
#include "support/gradient_case.hpp"

namespace {

using namespace sparge;
using namespace sparge::test;

bool is_for_sm90a(std::int32_t row) {
  KernelInfo info{};
  must(supported_backward_kernel(row, &info));
  return std::string(info.name).find(" sm90a ") != std::string::npos;
}

/// Every query sees key 0 `nats` above the others.
template <class T>
ForwardInputs<T> inputs_with_one_winner(int head_dim, double nats) {
  ForwardCase c{{1, 1, 1, 250, 330, head_dim}};
  c.mask = MaskKind::full;
  ForwardInputs<T> inputs = make_inputs<T>(c);
  Random random(21);
  fill_gaussian(inputs.q, random, 0.5);
  fill_gaussian(inputs.k, random, 0.5);
  fill_gaussian(inputs.v, random);
  inputs.q.for_each_index([&](auto b, auto h, auto n, auto channel) {
    if (channel == 0) set(inputs.q, b, h, n, channel, 16);
  });
  inputs.k.for_each_index([&](auto b, auto h, auto n, auto channel) {
    if (channel == 0) set(inputs.k, b, h, n, channel, n == 0 ? nats * std::sqrt(head_dim) / 16 : 0);
  });
  return inputs;
}

/// Of the gradient of one head, the rows from `first` on.
std::vector<double> rows_from(std::vector<double> const& values, std::int64_t first, int head_dim) {
  return {values.begin() + static_cast<std::ptrdiff_t>(first * head_dim), values.end()};
}

}  // namespace

TEMPLATE_TEST_CASE("Plans take the backward kernels for 9.0 where the GPU and the build have what they need",
                   "[gpu][sm90]", bfloat16, float16) {
  SKIP_WITHOUT_GPU();
  Device const device = test_device();
  bool const has_kernels = device.capability() == 90 && has_kernels_of(Arch::sm90a, built::targets);
  for (int head_dim : {64, 128})
    for (int q_block : {64, 128})
      for (int kv_block : {64, 128}) {
        AttentionProblem p{1, 2, 2, 300, 500, head_dim};
        p.q_block = q_block, p.kv_block = kv_block;
        BackwardPlan<TestType> plan;
        must(plan_backward(p, device, {}, &plan));
        bool const wanted = has_kernels && q_block == 128 && kv_block == 64;
        CAPTURE(q_block, kv_block, plan.dkdv_kernel, plan.dq_kernel);
        CHECK(is_for_sm90a(plan.dkdv_kernel) == wanted);
        CHECK(is_for_sm90a(plan.dq_kernel) == wanted);
      }
}

TEMPLATE_TEST_CASE("Gradients of keys whose weights are far below one are as good as any", "[gpu][sm90]",
                   bfloat16, float16) {
  SKIP_WITHOUT_GPU();
  // Weights of e^-13 are 38 units of the smallest f16; gradients of 200 make dS of them a normal number.
  for (int head_dim : {64, 128})
    for (double nats : {9.0, 13.0}) {
      GradientInputs<TestType> const inputs =
          make_gradient_inputs(inputs_with_one_winner<TestType>(head_dim, nats), 1, 200);
      GradientTruth const truth = truth_of(inputs);
      for (std::int32_t kernel : backward_kernels_for<TestType>(inputs.problem(), test_device())) {
        CAPTURE(head_dim, nats, kernel);
        GradientChoices choices;
        choices.options.force_kernel = kernel;
        GradientOutput<TestType> const output = run_backward(inputs, choices);
        using Grad = reference::AttentionGrad;
        CHECK(compare_gradient<TestType>(output.grad_q.values(), truth, std::mem_fn(&Grad::grad_q)));
        // Of keys behind the winner's block, which alone would set the scale of errors: the winner's gradient is a sum of
        // roundings in one direction, and evaluations agree on it by chance.
        for (auto [name, actual, part] : {std::tuple{"grad_k", &output.grad_k, &Grad::grad_k},
                                          std::tuple{"grad_v", &output.grad_v, &Grad::grad_v}}) {
          INFO(name);
          auto const rest = [&, part = part](Grad const& grad) {
            return rows_from(grad.*part, 64, head_dim);
          };
          CHECK(compare_gradient<TestType>(rows_from(actual->values(), 64, head_dim), truth, rest));
        }
      }
    }
}

TEST_CASE("f16 gradients are finite where a weight of one meets the largest gradient", "[gpu][sm90]") {
  SKIP_WITHOUT_GPU();
  for (int head_dim : {64, 128})
    for (double scale : {0.0, 1e4}) {  // lse near 0, and beyond 256
      ForwardInputs<float16> forward = make_inputs<float16>({{1, 2, 1, 3, 1, head_dim}});
      forward.problem.scale = static_cast<float>(scale);
      forward.mask = make_mask(forward.problem, [](auto...) { return true; });
      if (scale > 0) make_logits_exact(forward.q), fill_constant(forward.k, 2);
      fill_constant(forward.v, 7);
      GradientInputs<float16> inputs = make_gradient_inputs(std::move(forward), 1);
      fill_constant(inputs.grad_out, 10000);  // six of them make 6e4 in dV
      GradientOutput<float16> const output = run_backward(inputs);
      CAPTURE(head_dim, scale);
      for (double value : output.grad_v.values()) CHECK(value == 60000);
      for (HostTensor<float16> const* x : {&output.grad_q, &output.grad_k})
        for (double value : x->values()) CHECK(std::isfinite(value));
    }
}

TEMPLATE_TEST_CASE("U09 gradients of long groups and odd tails are right on every kernel", "[gpu][sm90]",
                   bfloat16, float16) {
  SKIP_WITHOUT_GPU();
  for (int head_dim : {64, 128})
    for (MaskKind kind : {MaskKind::uneven, MaskKind::holes, MaskKind::tenth}) {
      GradientCase c{{{2, 5, 1, 128 * 3 + 3, 64 * 5 + 1, head_dim}}};
      c.forward.mask = kind, c.forward.seed = 11;
      c.with_grad_lse = true;
      GradientInputs<TestType> const inputs = make_gradient_inputs<TestType>(c);
      GradientTruth const truth = truth_of(inputs);
      for (std::int32_t kernel : backward_kernels_for<TestType>(inputs.problem(), test_device())) {
        CAPTURE(head_dim, static_cast<int>(kind), kernel);
        GradientChoices choices;
        choices.options.force_kernel = kernel;
        check_gradients(truth, run_backward(inputs, choices));
      }
    }
}
