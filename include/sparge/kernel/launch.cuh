#pragma once
/// Enqueues one kernel. Reports only its own failure: a caller's pending CUDA error is neither reported nor cleared, and
/// a failed launch leaves none behind.

#include <cuda_runtime.h>

#include <cstdint>
#include <limits>

#include "sparge/core/pending_error.hpp"
#include "sparge/kernel/entry.cuh"
#include "sparge/kernel/shared_memory_limit.cuh"

namespace sparge {

/// The most dynamic shared memory that any launch of a kernel asks for. A launch raises the kernel's limit to this, never to its
/// own need: the limit belongs to the function, and another thread's smaller one must not fall between raising and launching.
template <class Kernel>
constexpr std::int64_t most_smem_bytes() {
  if constexpr (requires { Kernel::most_smem_bytes; })
    return Kernel::most_smem_bytes;
  else
    return 0;
}

/// Whether a kernel waits with wait_for_kernel_before() for all that it reads of the one before, so that it may start before that has ended.
template <class Kernel>
constexpr bool starts_early() {
  if constexpr (requires { Kernel::starts_early; })
    return Kernel::starts_early;
  else
    return false;
}

/// `early` only where the code that runs is sure to wait: not where an older architecture's might be translated on loading.
template <class Kernel>
cudaError_t launch(typename Kernel::Params const& params, std::int64_t blocks, std::int64_t smem_bytes,
                   cudaStream_t stream, bool early = starts_early<Kernel>()) noexcept {
  if (blocks == 0) return cudaSuccess;
  if (blocks < 0 || blocks > std::numeric_limits<std::int32_t>::max()) return cudaErrorInvalidConfiguration;
  PendingError const pending;
  // Of the 48 KB that every kernel may have, some are its static variables'.
  constexpr std::int64_t unlimited_smem_bytes = 40 * 1024;
  cudaError_t error = cudaSuccess;
  if (smem_bytes > unlimited_smem_bytes)
    error =
        raise_shared_memory_limit(reinterpret_cast<void const*>(&entry<Kernel>), most_smem_bytes<Kernel>());
  if (error == cudaSuccess) {
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(static_cast<unsigned>(blocks));
    config.blockDim = dim3(Kernel::threads);
    config.dynamicSmemBytes = static_cast<std::size_t>(smem_bytes);
    config.stream = stream;
    cudaLaunchAttribute attribute{};
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    config.attrs = &attribute;
    config.numAttrs = early ? 1 : 0;
    error = cudaLaunchKernelEx(&config, entry<Kernel>, params);
  }
  return pending.take_back(error);
}

}  // namespace sparge
