#pragma once
/// The calls of velocity distillation as public calls, and as structs of plan, arguments and workspace.

#include <cstdint>
#include <memory>
#include <vector>

#include "contract/public_call.hpp"
#include "contract/typed_calls.hpp"
#include "sparge/sparge.hpp"
#include "support/distillation_case.hpp"
#include "support/gpu.hpp"

namespace sparge::test {

/// As many elements as the queries of `p` and a few more, so that samples end inside 16 bytes.
inline DistillationProblem contract_distillation(AttentionProblem const& p) {
  return {p.batch + 1, p.heads * p.q_tokens * p.head_dim + 3};
}

template <class T>
PublicCall distillation_loss_call(DistillationProblem const& p, Device const& device,
                                  PlanOptions const& options) {
  auto const inputs_of = [=](std::uint64_t seed) {
    DistillationInputs<T> inputs = make_weighted_inputs<T>(p, seed);
    inputs.grad_loss = 1e3f * static_cast<float>(seed);
    return inputs;
  };
  auto run = std::make_shared<DistillationRun<T>>(inputs_of(1), Gradient::wanted, device, options);
  auto const outputs = [=] {
    DistillationOutput<T> const output = run->download();
    std::vector<unsigned char> bytes(sizeof(float) + output.grad.size() * sizeof(T));
    std::memcpy(bytes.data(), &output.loss, sizeof(float));
    std::memcpy(bytes.data() + sizeof(float), output.grad.data(), output.grad.size() * sizeof(T));
    return bytes;
  };
  return {"distillation_loss",
          run->plan().workspace_bytes,
          [=](Workspace scratch, cudaStream_t stream) { return run->run(scratch, stream); },
          [=](std::uint64_t seed) { run->upload(inputs_of(seed)); },
          [=] { run->poison_outputs(); },
          outputs};
}

template <class T>
PublicCall interpolate_call(DistillationProblem const& p, Device const& device, PlanOptions const& options) {
  InterpolatePlan<T> plan;
  must(plan_interpolate(p, device, options, &plan));
  auto x0 = std::make_shared<DeviceBuffer<T>>(p.elements()),
       x1 = std::make_shared<DeviceBuffer<T>>(p.elements());
  auto t = std::make_shared<DeviceBuffer<float>>(p.samples);
  auto out = std::make_shared<DeviceBuffer<T>>(p.elements());
  auto const set = [=](std::uint64_t seed) {
    Random random(seed);
    x0->upload(gaussian_elements<T>(p.elements(), random)),
        x1->upload(gaussian_elements<T>(p.elements(), random));
    t->upload(uniform_floats(p.samples, random));
  };
  return {"interpolate",
          0,
          [=](Workspace, cudaStream_t stream) {
            return interpolate(plan, {x0->data(), x1->data(), t->data(), out->data()}, stream);
          },
          set,
          [=] { out->fill_bytes(0xFF); },
          [=] { return out->download_bytes(); }};
}

template <class T>
struct DistillationCall {
  DistillationLossPlan<T> plan;
  DistillationLossArgs<T> args;
  Workspace workspace;
  Status run(cudaStream_t stream) const { return distillation_loss(plan, args, workspace, stream); }
};

template <class T>
struct InterpolateCall {
  InterpolatePlan<T> plan;
  InterpolateArgs<T> args;
  Status run(cudaStream_t stream) const { return interpolate(plan, args, stream); }
};

template <class T>
DistillationCall<T> lay_out_distillation_loss(CallSite& site) {
  DistillationCall<T> call;
  DistillationProblem const p = contract_distillation(site.problem);
  must(plan_distillation_loss(p, site.device, site.options, &call.plan));
  call.args.student = site.carver.take<T>(p.elements());
  call.args.teacher = site.carver.take<T>(p.elements());
  call.args.weights = site.carver.take<float>(p.samples);
  call.args.grad_loss = site.carver.take<float>(1);
  call.args.loss = site.carver.take<float>(1);
  call.args.grad_student = site.carver.take<T>(p.elements());
  call.workspace = site.scratch(call.plan.workspace_bytes);
  return call;
}

template <class T>
InterpolateCall<T> lay_out_interpolate(CallSite& site) {
  InterpolateCall<T> call;
  DistillationProblem const p = contract_distillation(site.problem);
  must(plan_interpolate(p, site.device, site.options, &call.plan));
  call.args = {site.carver.take<T>(p.elements()), site.carver.take<T>(p.elements()),
               site.carver.take<float>(p.samples), site.carver.take<T>(p.elements())};
  return call;
}

}  // namespace sparge::test
