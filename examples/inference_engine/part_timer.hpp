#pragma once
/// Where the time of a stream goes: an event wherever the work changes its kind.

#include <cuda_runtime_api.h>

#include <cstddef>
#include <utility>
#include <vector>

#include "inference_engine/projection.hpp"
#include "support/device_array.hpp"

namespace engine {

class PartTimer {
public:
  PartTimer() = default;
  ~PartTimer() {
    for (cudaEvent_t event : events_) cudaEventDestroy(event);
  }
  PartTimer(PartTimer const&) = delete;
  PartTimer& operator=(PartTimer const&) = delete;

  /// What is enqueued from here on belongs to `part`.
  void begin(Part part, cudaStream_t stream) {
    if (!parts_.empty() && parts_.back() == part) return;
    mark(stream);
    parts_.push_back(part);
  }

  /// Waits for what was enqueued, and begins anew.
  PartTimes finish(cudaStream_t stream) {
    mark(stream);
    demo::check_cuda(cudaStreamSynchronize(stream));
    PartTimes times;
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      float milliseconds = 0;
      demo::check_cuda(cudaEventElapsedTime(&milliseconds, events_[i], events_[i + 1]));
      times[parts_[i]] += double(milliseconds);
    }
    parts_.clear(), used_ = 0;
    return times;
  }

private:
  void mark(cudaStream_t stream) {
    if (used_ == events_.size()) {
      cudaEvent_t event = nullptr;
      demo::check_cuda(cudaEventCreate(&event));
      events_.push_back(event);
    }
    demo::check_cuda(cudaEventRecord(events_[used_++], stream));
  }

  std::vector<cudaEvent_t> events_;
  std::vector<Part> parts_;
  std::size_t used_ = 0;
};

}  // namespace engine
