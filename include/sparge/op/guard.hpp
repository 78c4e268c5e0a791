#pragma once
/// Checks that need the CUDA runtime, made before anything is launched.

#include <cuda_runtime_api.h>

#include <initializer_list>

#include "sparge/core/device.hpp"
#include "sparge/core/linkage.hpp"
#include "sparge/core/pending_error.hpp"
#include "sparge/core/plan_options.hpp"
#include "sparge/plan/refuse.hpp"
#include "sparge/plan/validate.hpp"

namespace sparge {

/// Thread blocks of a one-dimensional grid.
inline constexpr std::int64_t max_grid_blocks = std::numeric_limits<std::int32_t>::max();

/// Refuses a problem that needs a larger grid. Nothing stands for a count that does not fit 64 bits.
inline Status validate_grid(AttentionProblem const& p, std::optional<std::int64_t> blocks) {
  if (!blocks || *blocks > max_grid_blocks)
    return unsupported("problem.batch", "the problem needs 2^31 thread blocks or more; split the batch",
                       p.batch);
  return {};
}

/// A call runs on the device that its plan was made for: its kernels would otherwise see another GPU's memory.
inline Status check_current_device(Device const& device) {
  int current = -1;
  if (cudaError_t const error = PendingError().take_back(cudaGetDevice(&current)); error != cudaSuccess)
    return cuda_failure("device.ordinal", error);
  if (current != device.ordinal)
    return mismatch("device.ordinal", "the current device must be the plan's; call cudaSetDevice first",
                    current, device.ordinal);
  return {};
}

/// With PointerCheck::location, refuses memory that the plan's device cannot read: plain host memory, or another GPU's.
inline Status check_locations(PlanOptions const& options, Device const& device, Arguments arguments) {
  if (options.pointer_check != PointerCheck::location) return {};
  PendingError const pending;
  for (NamedPointer const& pointer : arguments) {
    if (pointer.data == nullptr) continue;
    cudaPointerAttributes attributes{};
    cudaError_t const error = pending.take_back(cudaPointerGetAttributes(&attributes, pointer.data));
    if (error != cudaSuccess) return cuda_failure(pointer.field, error);
    if (attributes.type == cudaMemoryTypeUnregistered || attributes.devicePointer == nullptr)
      return refuse(pointer.field, "must be memory that the device can reach, not plain host memory");
    if (attributes.type == cudaMemoryTypeDevice && attributes.device != device.ordinal)
      return mismatch(pointer.field, "must be memory of the plan's device", attributes.device,
                      device.ordinal);
  }
  return {};
}

/// The last checks before a launch: what the call writes lies apart from its other arguments, it runs on the plan's device,
/// and memory is where that device can reach it.
template <class Plan>
Status check_arguments(Plan const& plan, Arguments written, Arguments read) {
  SPARGE_TRY(validate_apart(written, read));
  SPARGE_TRY(check_current_device(plan.device));
  SPARGE_TRY(check_locations(plan.options, plan.device, written));
  return check_locations(plan.options, plan.device, read);
}

}  // namespace sparge
