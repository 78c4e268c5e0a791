#pragma once
/// Raises a kernel's limit of dynamic shared memory above the 48 KB that every kernel may have.

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "sparge/kernel/driver_function.cuh"

namespace sparge {

/// Not by cudaFuncSetAttribute, which clears the error that is pending on the caller's thread even where it succeeds.
inline cudaError_t raise_shared_memory_limit(void const* kernel, std::int64_t bytes) noexcept {
  static auto const set_attribute =
      find_driver_function<decltype(&cuFuncSetAttribute)>("cuFuncSetAttribute", 9000);
  if (set_attribute == nullptr) return cudaErrorCallRequiresNewerDriver;
  cudaFunction_t function = nullptr;
  cudaError_t const error = cudaGetFuncBySymbol(&function, kernel);
  if (error != cudaSuccess) return error;
  CUresult const result =
      set_attribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, static_cast<int>(bytes));
  return static_cast<cudaError_t>(result);  // the runtime gives errors of the driver the same numbers
}

}  // namespace sparge
