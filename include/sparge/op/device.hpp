#pragma once
/// query_device, the sizes of masks, and the list of kernels.

#include <cuda_runtime_api.h>

#include "sparge/op/guard.hpp"
#include "sparge/plan/backward_config.hpp"
#include "sparge/plan/validate.hpp"
#include "sparge/sparge.hpp"

namespace sparge {

namespace detail {

struct DeviceField {
  cudaDeviceAttr attribute;
  int value = 0;
};

/// Reads attributes, which needs no context and does not touch the current device.
inline cudaError_t read_device(int ordinal, Device* device) {
  DeviceField major{cudaDevAttrComputeCapabilityMajor}, minor{cudaDevAttrComputeCapabilityMinor};
  DeviceField sms{cudaDevAttrMultiProcessorCount}, l2{cudaDevAttrL2CacheSize};
  DeviceField block{cudaDevAttrMaxSharedMemoryPerBlockOptin}, sm{cudaDevAttrMaxSharedMemoryPerMultiprocessor};
  for (DeviceField* field : {&major, &minor, &sms, &l2, &block, &sm})
    if (cudaError_t const error = cudaDeviceGetAttribute(&field->value, field->attribute, ordinal);
        error != cudaSuccess)
      return error;
  *device = {ordinal, major.value, minor.value, sms.value, block.value, sm.value, l2.value};
  return cudaSuccess;
}

}  // namespace detail

SPARGE_INLINE Status query_device(int ordinal, Device* device) noexcept {
  if (device == nullptr) return refuse("device", "must not be null");
  if (ordinal < 0) return refuse("ordinal", "must be at least 0", ordinal);
  PendingError const pending;
  int count = 0;
  if (cudaError_t const error = pending.take_back(cudaGetDeviceCount(&count)); error != cudaSuccess)
    return cuda_failure("ordinal", error);
  if (ordinal >= count)
    return refuse("ordinal", "must be less than the number of devices, which is shown as expected", ordinal,
                  count);
  if (cudaError_t const error = pending.take_back(detail::read_device(ordinal, device)); error != cudaSuccess)
    return cuda_failure("ordinal", error);
  return {};
}

SPARGE_INLINE Status mask_words(AttentionProblem const& problem, std::size_t* words) noexcept {
  if (words == nullptr) return refuse("words", "must not be null");
  SPARGE_TRY(validate_problem(problem));
  *words = static_cast<std::size_t>(count_mask_words(problem));
  return {};
}

SPARGE_INLINE Status transposed_mask_words(AttentionProblem const& problem, std::size_t* words) noexcept {
  if (words == nullptr) return refuse("words", "must not be null");
  SPARGE_TRY(validate_problem(problem));
  *words = static_cast<std::size_t>(count_transposed_words(problem));
  return {};
}

SPARGE_INLINE std::int32_t supported_kernels() noexcept { return forward_rows; }

SPARGE_INLINE Status supported_kernel(std::int32_t index, KernelInfo* info) noexcept {
  if (info == nullptr) return refuse("info", "must not be null");
  if (index < 0 || index >= forward_rows)
    return refuse("index", "must be at least 0 and less than supported_kernels()", index, forward_rows);
  if (!is_built(index)) return unsupported("index", "this build left that kernel out", index);
  ForwardConfig const& config = forward_table[index];
  *info = {forward_names[index], config.dtype, config.head_dim, config.q_tile, config.kv_tile};
  return {};
}

SPARGE_INLINE std::int32_t supported_backward_kernels() noexcept { return backward_rows; }

SPARGE_INLINE Status supported_backward_kernel(std::int32_t index, KernelInfo* info) noexcept {
  if (info == nullptr) return refuse("info", "must not be null");
  if (index < 0 || index >= backward_rows)
    return refuse("index", "must be at least 0 and less than supported_backward_kernels()", index,
                  backward_rows);
  if (!is_backward_built(index)) return unsupported("index", "this build left that kernel out", index);
  BackwardConfig const& config = backward_table[index];
  *info = {backward_names[index], config.dtype, config.head_dim, config.q_tile, config.kv_tile};
  return {};
}

}  // namespace sparge
