#pragma once
/// Calibration and the masks that it promises, on a GPU by the library and on the host by the reference.

#include <cuda_runtime_api.h>

#include <memory>
#include <string>
#include <vector>

#include "calibrate/inputs.hpp"
#include "sparge/reference/calibrate.hpp"
#include "sparge/throwing.hpp"
#include "support/device_array.hpp"

namespace calibrating {

struct Calibrated {
  std::vector<sparge::Calibration> reports;  ///< [heads]
  std::vector<std::uint32_t> mask;           ///< by the rule with the found top_p
};

class Backend {
public:
  virtual ~Backend() = default;
  virtual std::string device() const = 0;
  virtual Calibrated run(sparge::MaskRule rule, sparge::CalibrationTarget const& target) const = 0;
};

class HostBackend : public Backend {
public:
  explicit HostBackend(Inputs const& in) : p_(in.problem) {
    namespace reference = sparge::reference;
    auto const view = [&](std::vector<bfloat16> const& x) {
      return sparge::contiguous_bhnd(x.data(), p_.batch, p_.heads, p_.q_tokens, p_.head_dim);
    };
    pooled_q_ = reference::to_f32(reference::pool(view(in.q), p_.q_block));
    pooled_k_ = reference::to_f32(reference::pool(view(in.k), p_.kv_block));
  }

  std::string device() const override { return "host reference, f64"; }

  Calibrated run(sparge::MaskRule rule, sparge::CalibrationTarget const& target) const override {
    Calibrated result;
    result.reports = sparge::reference::calibrate(p_, rule, pooled_q_.data(), pooled_k_.data(), target);
    std::vector<float> top_p;
    for (sparge::Calibration const& head : result.reports) top_p.push_back(head.top_p);
    rule.top_p_of_head = top_p.data();
    result.mask = sparge::reference::select_blocks(p_, rule, pooled_q_.data(), pooled_k_.data());
    return result;
  }

private:
  sparge::AttentionProblem p_;
  std::vector<float> pooled_q_, pooled_k_;
};

/// Pools once; then the found top_p goes from calibrate to build_mask without leaving the device.
class GpuBackend : public Backend {
public:
  GpuBackend(Inputs const& in, sparge::Device const& device)
      : p_(in.problem),
        q_(in.q),
        k_(in.k),
        pooled_q_(std::size_t(p_.batch * p_.heads * p_.q_blocks() * p_.head_dim)),
        pooled_k_(std::size_t(p_.batch * p_.heads * p_.kv_blocks() * p_.head_dim)) {
    sparge::PoolPlan<bfloat16> plan;
    sparge::check(sparge::plan_pool(p_, device, {}, &plan));
    sparge::check(sparge::plan_calibrate(p_, device, {}, &calibrate_plan_));
    sparge::check(sparge::plan_build_mask(p_, device, {}, &mask_plan_));
    demo::DeviceArray<std::byte> const scratch(plan.workspace_bytes);
    sparge::check(sparge::pool<bfloat16>(plan, {view(q_), view(k_), pooled_q_.data(), pooled_k_.data()},
                                         {scratch.data(), scratch.size()}, stream_));
    demo::check_cuda(cudaStreamSynchronize(stream_));
    cudaDeviceProp properties{};
    demo::check_cuda(cudaGetDeviceProperties(&properties, device.ordinal));
    name_ = properties.name;
  }

  std::string device() const override { return name_; }

  Calibrated run(sparge::MaskRule rule, sparge::CalibrationTarget const& target) const override {
    std::size_t words = 0;
    sparge::check(sparge::mask_words(p_, &words));
    demo::DeviceArray<float> const top_p(std::size_t(p_.heads));
    demo::DeviceArray<sparge::Calibration> const reports(std::size_t(p_.heads));
    demo::DeviceArray<std::uint32_t> const mask(words);
    demo::DeviceArray<std::byte> const scratch(
        std::max(calibrate_plan_.workspace_bytes, mask_plan_.workspace_bytes));
    sparge::Workspace const workspace{scratch.data(), scratch.size()};
    sparge::check(sparge::calibrate(
        calibrate_plan_, {pooled_q_.data(), pooled_k_.data(), rule, target, top_p.data(), reports.data()},
        workspace, stream_));
    rule.top_p_of_head = top_p.data();
    sparge::check(sparge::build_mask<bfloat16>(mask_plan_, {view(q_), view(k_), rule, {mask.data(), words}},
                                               workspace, stream_));
    return {reports.to_host(), mask.to_host()};
  }

private:
  sparge::TensorView<bfloat16 const> view(demo::DeviceArray<bfloat16> const& x) const {
    return sparge::contiguous_bhnd<bfloat16 const>(x.data(), p_.batch, p_.heads, p_.q_tokens, p_.head_dim);
  }

  sparge::AttentionProblem p_;
  demo::DeviceArray<bfloat16> q_, k_;
  demo::DeviceArray<float> pooled_q_, pooled_k_;
  sparge::CalibratePlan calibrate_plan_;
  sparge::BuildMaskPlan<bfloat16> mask_plan_;
  std::string name_;
  cudaStream_t stream_ = cudaStreamLegacy;
};

}  // namespace calibrating
