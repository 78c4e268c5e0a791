#pragma once
/// Raises a kernel's limit of dynamic shared memory above the 48 KB that every kernel may have.

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace sparge {

/// The driver's function, found at run time so that nothing links against libcuda; null where the driver lacks it.
inline decltype(&cuFuncSetAttribute) find_func_set_attribute() noexcept {
  constexpr unsigned since = 9000;
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result;
#if CUDART_VERSION >= 12050
  cudaError_t const error =
      cudaGetDriverEntryPointByVersion("cuFuncSetAttribute", &found, since, cudaEnableDefault, &result);
#else
  static_cast<void>(since);
  cudaError_t const error = cudaGetDriverEntryPoint("cuFuncSetAttribute", &found, cudaEnableDefault, &result);
#endif
  if (error != cudaSuccess || result != cudaDriverEntryPointSuccess) return nullptr;
  return reinterpret_cast<decltype(&cuFuncSetAttribute)>(found);
}

/// Not by cudaFuncSetAttribute, which clears the error that is pending on the caller's thread even where it succeeds.
inline cudaError_t raise_shared_memory_limit(void const* kernel, std::int64_t bytes) noexcept {
  static auto const set_attribute = find_func_set_attribute();
  if (set_attribute == nullptr) return cudaErrorCallRequiresNewerDriver;
  cudaFunction_t function = nullptr;
  cudaError_t const error = cudaGetFuncBySymbol(&function, kernel);
  if (error != cudaSuccess) return error;
  CUresult const result =
      set_attribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, static_cast<int>(bytes));
  return static_cast<cudaError_t>(result);  // the runtime gives errors of the driver the same numbers
}

}  // namespace sparge
