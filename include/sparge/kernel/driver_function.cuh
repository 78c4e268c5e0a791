#pragma once
/// Functions of the driver, found at run time so that nothing links against libcuda.

#include <cuda.h>
#include <cuda_runtime.h>

namespace sparge {

/// Of the version that came with CUDA `since`, such as 12000; null where the driver lacks it.
template <class Function>
Function find_driver_function(char const* name, unsigned since) noexcept {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result;
#if CUDART_VERSION >= 12050
  cudaError_t const error = cudaGetDriverEntryPointByVersion(name, &found, since, cudaEnableDefault, &result);
#else
  static_cast<void>(since);
  cudaError_t const error = cudaGetDriverEntryPoint(name, &found, cudaEnableDefault, &result);
#endif
  if (error != cudaSuccess || result != cudaDriverEntryPointSuccess) return nullptr;
  return reinterpret_cast<Function>(found);
}

}  // namespace sparge
