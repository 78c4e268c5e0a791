#pragma once
/// Enqueues one kernel. Reports only its own failure: a caller's pending CUDA error is neither reported nor cleared, and
/// a failed launch leaves none behind.

#include <cuda_runtime.h>

#include <cstdint>

#include "sparge/core/pending_error.hpp"
#include "sparge/kernel/entry.cuh"

namespace sparge {

template <class Kernel>
cudaError_t launch(typename Kernel::Params const& params, std::int64_t blocks, std::int64_t smem_bytes,
                   cudaStream_t stream) noexcept {
  if (blocks == 0) return cudaSuccess;
  PendingError const pending;
  constexpr std::int64_t default_smem_bytes = 48 * 1024;
  cudaError_t error = cudaSuccess;
  if (smem_bytes > default_smem_bytes)
    error = cudaFuncSetAttribute(entry<Kernel>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 static_cast<int>(smem_bytes));
  if (error == cudaSuccess) {
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(static_cast<unsigned>(blocks));
    config.blockDim = dim3(Kernel::threads);
    config.dynamicSmemBytes = static_cast<std::size_t>(smem_bytes);
    config.stream = stream;
    error = cudaLaunchKernelEx(&config, entry<Kernel>, params);
  }
  return pending.take_back(error);
}

}  // namespace sparge
