#pragma once
/// Every public call that works on the device, under one face, so that what holds for all is stated once.

#include <cstdint>
#include <memory>
#include <vector>

#include "contract/distillation_calls.hpp"
#include "contract/merge_calls.hpp"
#include "contract/public_call.hpp"
#include "sparge/sparge.hpp"
#include "support/attention_case.hpp"
#include "support/device_buffer.hpp"
#include "support/gpu.hpp"
#include "support/gradient_case.hpp"
#include "support/random.hpp"

namespace sparge::test {

/// The problem of the calls: partial blocks on both axes, grouped heads, two mask words a row.
inline AttentionProblem contract_problem() { return {2, 4, 2, 300, 2100, 64}; }

namespace detail {

inline MaskRule contract_rule() {
  MaskRule rule;
  rule.top_k = 0.1, rule.top_p = 0.3;
  rule.keep.kv_front_tokens = 10, rule.keep.band_tokens = 70;
  return rule;
}

template <class T>
struct QueriesAndKeys {
  explicit QueriesAndKeys(AttentionProblem const& p) : problem(p), q(q_shape(p)), k(kv_shape(p)) {}
  void set(std::uint64_t seed) {
    Random random(seed);
    HostTensor<T> host_q(q_shape(problem)), host_k(kv_shape(problem));
    fill_clustered(host_q, host_k, random);
    q.upload(host_q), k.upload(host_k);
  }
  AttentionProblem problem;
  DeviceTensor<T> q, k;
};

struct PooledVectors {
  explicit PooledVectors(AttentionProblem const& p)
      : q(p.batch * p.heads * p.q_blocks() * p.head_dim),
        k(p.batch * p.kv_heads * p.kv_blocks() * p.head_dim) {}
  void set(std::uint64_t seed) {
    Random random(seed);
    q.upload(random_floats(q.size(), random)), k.upload(random_floats(k.size(), random));
  }
  DeviceBuffer<float> q, k;
};

struct DeviceMask {
  explicit DeviceMask(AttentionProblem const& p)
      : problem(p), words(static_cast<std::int64_t>(reference::mask_words(p))) {}
  void set(std::uint64_t seed) {
    Random random(seed);
    words.upload(make_mask(problem, MaskKind::half, random));
  }
  MaskOut out() const { return {words.data(), static_cast<std::size_t>(words.size())}; }
  AttentionProblem problem;
  DeviceBuffer<std::uint32_t> words;
};

inline std::int64_t count_rows(AttentionProblem const& p) { return p.batch * p.heads * p.q_blocks(); }

}  // namespace detail

template <class T>
PublicCall pool_call(AttentionProblem const& p, Device const& device, PlanOptions const& options) {
  PoolPlan<T> plan;
  must(plan_pool(p, device, options, &plan));
  auto in = std::make_shared<detail::QueriesAndKeys<T>>(p);
  auto out = std::make_shared<detail::PooledVectors>(p);
  return {"pool",
          plan.workspace_bytes,
          [=](Workspace scratch, cudaStream_t stream) {
            return pool(plan, {in->q.view(), in->k.view(), out->q.data(), out->k.data()}, scratch, stream);
          },
          [=](std::uint64_t seed) { in->set(seed); },
          [=] { out->q.fill_bytes(0xFF), out->k.fill_bytes(0xFF); },
          [=] {
            std::vector<unsigned char> bytes = out->q.download_bytes();
            detail::append(bytes, out->k.download_bytes());
            return bytes;
          }};
}

inline PublicCall select_blocks_call(AttentionProblem const& p, Device const& device,
                                     PlanOptions const& options) {
  SelectPlan plan;
  must(plan_select_blocks(p, device, options, &plan));
  auto in = std::make_shared<detail::PooledVectors>(p);
  auto share =
      std::make_shared<DeviceBuffer<float>>(std::vector<float>(static_cast<std::size_t>(p.heads), 0.2f));
  auto out = std::make_shared<detail::DeviceMask>(p);
  MaskRule rule = detail::contract_rule();
  rule.top_k_of_head = rule.top_p_of_head = share->data();
  return {"select_blocks",
          plan.workspace_bytes,
          [=](Workspace scratch, cudaStream_t stream) {
            static_cast<void>(share);  // held for the rule
            return select_blocks(plan, {in->q.data(), in->k.data(), rule, out->out()}, scratch, stream);
          },
          [=](std::uint64_t seed) { in->set(seed); },
          [=] { out->words.fill_bytes(0xFF); },
          [=] { return out->words.download_bytes(); }};
}

template <class T>
PublicCall build_mask_call(AttentionProblem const& p, Device const& device, PlanOptions const& options) {
  BuildMaskPlan<T> plan;
  must(plan_build_mask(p, device, options, &plan));
  auto in = std::make_shared<detail::QueriesAndKeys<T>>(p);
  auto out = std::make_shared<detail::DeviceMask>(p);
  return {"build_mask",
          plan.workspace_bytes,
          [=](Workspace scratch, cudaStream_t stream) {
            return build_mask(plan, {in->q.view(), in->k.view(), detail::contract_rule(), out->out()},
                              scratch, stream);
          },
          [=](std::uint64_t seed) { in->set(seed); },
          [=] { out->words.fill_bytes(0xFF); },
          [=] { return out->words.download_bytes(); }};
}

inline PublicCall mask_stats_call(AttentionProblem const& p, Device const& device,
                                  PlanOptions const& options) {
  MaskStatsPlan plan;
  must(plan_mask_stats(p, device, options, &plan));
  auto in = std::make_shared<detail::PooledVectors>(p);
  auto mask = std::make_shared<detail::DeviceMask>(p);
  auto out = std::make_shared<DeviceBuffer<MaskStats>>(p.batch * p.heads);
  return {"mask_stats",
          plan.workspace_bytes,
          [=](Workspace scratch, cudaStream_t stream) {
            return mask_stats(plan,
                              {in->q.data(), in->k.data(), detail::contract_rule(), mask->out(), out->data()},
                              scratch, stream);
          },
          [=](std::uint64_t seed) { in->set(seed), mask->set(seed + 1); },
          [=] { out->fill_bytes(0xFF); },
          [=] { return out->download_bytes(); }};
}

inline PublicCall calibrate_call(AttentionProblem const& p, Device const& device, PlanOptions const& options,
                                 CalibrationTarget const& target) {
  CalibratePlan plan;
  must(plan_calibrate(p, device, options, &plan));
  auto in = std::make_shared<detail::PooledVectors>(p);
  auto top_p = std::make_shared<DeviceBuffer<float>>(p.heads);
  auto report = std::make_shared<DeviceBuffer<Calibration>>(p.heads);
  return {"calibrate",
          plan.workspace_bytes,
          [=](Workspace scratch, cudaStream_t stream) {
            return calibrate(
                plan,
                {in->q.data(), in->k.data(), detail::contract_rule(), target, top_p->data(), report->data()},
                scratch, stream);
          },
          [=](std::uint64_t seed) { in->set(seed); },
          [=] { top_p->fill_bytes(0xFF), report->fill_bytes(0xFF); },
          [=] {
            std::vector<unsigned char> bytes = top_p->download_bytes();
            detail::append(bytes, report->download_bytes());
            return bytes;
          }};
}

inline PublicCall transpose_mask_call(AttentionProblem const& p, MaskFormPlan const& plan) {
  std::size_t words = 0;
  must(transposed_mask_words(p, &words));
  auto in = std::make_shared<detail::DeviceMask>(p);
  auto out = std::make_shared<DeviceBuffer<std::uint32_t>>(static_cast<std::int64_t>(words));
  return {"transpose_mask",
          0,
          [=](Workspace, cudaStream_t stream) {
            return transpose_mask(plan, in->out(), {out->data(), words}, stream);
          },
          [=](std::uint64_t seed) { in->set(seed); },
          [=] { out->fill_bytes(0xFF); },
          [=] { return out->download_bytes(); }};
}

/// Without the first block of either axis, so that rows of the shard begin inside words.
inline PublicCall slice_mask_call(AttentionProblem const& p, MaskFormPlan const& plan) {
  BlockRange const q{1, p.q_blocks() - 1}, kv{1, p.kv_blocks() - 1};
  std::int64_t const words = p.batch * p.heads * q.count * ((kv.count + 31) / 32);
  auto in = std::make_shared<detail::DeviceMask>(p);
  auto out = std::make_shared<DeviceBuffer<std::uint32_t>>(words);
  return {"slice_mask",
          0,
          [=](Workspace, cudaStream_t stream) {
            return slice_mask(plan, in->out(), q, kv, {out->data(), static_cast<std::size_t>(words)}, stream);
          },
          [=](std::uint64_t seed) { in->set(seed); },
          [=] { out->fill_bytes(0xFF); },
          [=] { return out->download_bytes(); }};
}

inline PublicCall mask_to_bytes_call(AttentionProblem const& p, MaskFormPlan const& plan) {
  auto in = std::make_shared<detail::DeviceMask>(p);
  auto out = std::make_shared<DeviceBuffer<std::uint8_t>>(detail::count_rows(p) * p.kv_blocks());
  return {"mask_to_bytes",
          0,
          [=](Workspace, cudaStream_t stream) {
            return mask_to_bytes(plan, in->out(), {out->data(), out->bytes()}, stream);
          },
          [=](std::uint64_t seed) { in->set(seed); },
          [=] { out->fill_bytes(0xFF); },
          [=] { return out->download_bytes(); }};
}

inline PublicCall mask_from_bytes_call(AttentionProblem const& p, MaskFormPlan const& plan) {
  auto in = std::make_shared<DeviceBuffer<std::uint8_t>>(detail::count_rows(p) * p.kv_blocks());
  auto out = std::make_shared<detail::DeviceMask>(p);
  auto const set = [=](std::uint64_t seed) {
    Random random(seed);
    std::vector<std::uint8_t> bytes(in->bytes());
    for (std::uint8_t& byte : bytes)
      byte = random.chance(0.5) ? static_cast<std::uint8_t>(random.below(256)) : 0;
    in->upload(bytes);
  };
  return {"mask_from_bytes",
          0,
          [=](Workspace, cudaStream_t stream) {
            return mask_from_bytes(plan, {in->data(), in->bytes()}, out->out(), stream);
          },
          set,
          [=] { out->words.fill_bytes(0xFF); },
          [=] { return out->words.download_bytes(); }};
}

inline PublicCall mask_to_lists_call(AttentionProblem const& p, MaskFormPlan const& plan) {
  std::int64_t const capacity = p.kv_blocks() + 3;
  auto in = std::make_shared<detail::DeviceMask>(p);
  auto counts = std::make_shared<DeviceBuffer<std::int32_t>>(detail::count_rows(p));
  auto indices = std::make_shared<DeviceBuffer<std::int32_t>>(detail::count_rows(p) * capacity);
  return {"mask_to_lists",
          0,
          [=](Workspace, cudaStream_t stream) {
            return mask_to_lists(plan, in->out(), {counts->data(), indices->data(), capacity}, stream);
          },
          [=](std::uint64_t seed) { in->set(seed); },
          [=] { counts->fill_bytes(0xFF), indices->fill_bytes(0xFF); },
          [=] {
            std::vector<unsigned char> bytes = counts->download_bytes();
            detail::append(bytes, indices->download_bytes());
            return bytes;
          }};
}

inline PublicCall mask_from_lists_call(AttentionProblem const& p, MaskFormPlan const& plan) {
  std::int64_t const capacity = 9;  // a list that is read may be of any capacity
  auto counts = std::make_shared<DeviceBuffer<std::int32_t>>(detail::count_rows(p));
  auto indices = std::make_shared<DeviceBuffer<std::int32_t>>(detail::count_rows(p) * capacity);
  auto out = std::make_shared<detail::DeviceMask>(p);
  auto const set = [=](std::uint64_t seed) {
    Random random(seed);
    std::vector<std::int32_t> host_counts(static_cast<std::size_t>(counts->size()));
    std::vector<std::int32_t> host_indices(static_cast<std::size_t>(indices->size()));
    for (std::int32_t& count : host_counts) count = static_cast<std::int32_t>(random.below(capacity + 3)) - 1;
    for (std::int32_t& index : host_indices)
      index = static_cast<std::int32_t>(random.below(p.kv_blocks() + 4)) - 2;
    counts->upload(host_counts), indices->upload(host_indices);
  };
  return {"mask_from_lists",
          0,
          [=](Workspace, cudaStream_t stream) {
            return mask_from_lists(plan, {counts->data(), indices->data(), capacity}, out->out(), stream);
          },
          set,
          [=] { out->words.fill_bytes(0xFF); },
          [=] { return out->words.download_bytes(); }};
}

template <class T>
PublicCall forward_call(AttentionProblem const& p, Device const& device, PlanOptions const& options) {
  ForwardCase c{p};
  c.mask = MaskKind::half;
  ForwardChoices choices;
  choices.options = options;
  auto run = std::make_shared<ForwardRun<T>>(make_inputs<T>(c), choices, device);
  auto const set = [=](std::uint64_t seed) {
    ForwardCase other = c;
    other.seed = seed;
    run->upload(make_inputs<T>(other));
  };
  auto const outputs = [=] {
    std::vector<unsigned char> bytes = run->out().buffer().download_bytes();
    detail::append(bytes, run->lse().download_bytes());
    return bytes;
  };
  return {"forward",
          run->plan().workspace_bytes,
          [=](Workspace scratch, cudaStream_t stream) {
            return forward(run->plan(), run->args(), scratch, stream);
          },
          set,
          [=] { run->poison_outputs(); },
          outputs};
}

template <class T>
PublicCall backward_call(AttentionProblem const& p, Device const& device, PlanOptions const& options) {
  GradientCase c{{p}};
  c.forward.mask = MaskKind::half, c.with_grad_lse = true;
  GradientChoices choices;
  choices.options = options;
  auto run = std::make_shared<GradientRun<T>>(make_gradient_inputs<T>(c), choices, device);
  auto const set = [=](std::uint64_t seed) {
    GradientCase other = c;
    other.forward.seed = seed;
    run->upload(make_gradient_inputs<T>(other));
  };
  auto const outputs = [=] {
    GradientOutput<T> const output = run->download();
    std::vector<unsigned char> bytes;
    for (HostTensor<T> const* x : {&output.grad_q, &output.grad_k, &output.grad_v}) {
      auto const* const first = reinterpret_cast<unsigned char const*>(x->storage().data());
      bytes.insert(bytes.end(), first, first + x->storage().size() * sizeof(T));
    }
    return bytes;
  };
  return {"backward",
          run->plan().workspace_bytes,
          [=](Workspace scratch, cudaStream_t stream) {
            return backward(run->plan(), run->args(), scratch, stream);
          },
          set,
          [=] { run->poison_outputs(); },
          outputs};
}

/// Every public call for element type T. Inputs are those of seed 1; outputs are poison.
template <class T>
std::vector<PublicCall> every_public_call(Device const& device, PlanOptions const& options = {},
                                          AttentionProblem const& p = contract_problem()) {
  MaskFormPlan form;
  must(plan_mask_form(p, device, options, &form));
  std::vector<PublicCall> calls{pool_call<T>(p, device, options),
                                select_blocks_call(p, device, options),
                                build_mask_call<T>(p, device, options),
                                mask_stats_call(p, device, options),
                                calibrate_call(p, device, options, {CalibrationGoal::sparsity, 0.6}),
                                transpose_mask_call(p, form),
                                slice_mask_call(p, form),
                                mask_to_bytes_call(p, form),
                                mask_from_bytes_call(p, form),
                                mask_to_lists_call(p, form),
                                mask_from_lists_call(p, form),
                                forward_call<T>(p, device, options),
                                backward_call<T>(p, device, options),
                                merge_partials_call<T>(p, device, options),
                                merge_partials_call<float>(p, device, options)};
  DistillationProblem const distillation = contract_distillation(p);
  calls.push_back(distillation_loss_call<T>(distillation, device, options));
  calls.push_back(distillation_loss_call<float>(distillation, device, options));
  calls.push_back(interpolate_call<T>(distillation, device, options));
  calls.push_back(interpolate_call<float>(distillation, device, options));
  for (PublicCall const& call : calls) call.set_inputs(1);
  return calls;
}

}  // namespace sparge::test
