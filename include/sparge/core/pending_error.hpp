#pragma once
/// The CUDA runtime keeps the last error of a thread until someone asks for it. That one belongs to the caller.

#include <cuda_runtime_api.h>

namespace sparge {

/// Made before calls into the runtime. An error of ours is taken back where there was none before. Where one was
/// pending, the thread still has one, though the runtime may show ours in its place.
class PendingError {
public:
  PendingError() : was_clean_(cudaPeekAtLastError() == cudaSuccess) {}

  /// Returns `error`, the result of a call.
  cudaError_t take_back(cudaError_t error) const {
    if (error != cudaSuccess && was_clean_) static_cast<void>(cudaGetLastError());
    return error;
  }

private:
  bool was_clean_;
};

}  // namespace sparge
