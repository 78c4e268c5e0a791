#pragma once
/// Checked CUDA calls, a stream and device memory that free themselves.

#include <cuda_runtime_api.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "sparge/core/workspace.hpp"

namespace sparge::bench {

inline void check(cudaError_t error, char const* call) {
  if (error != cudaSuccess) throw std::runtime_error(std::string(call) + ": " + cudaGetErrorString(error));
}

class Stream {
public:
  Stream() { check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags"); }
  ~Stream() { static_cast<void>(cudaStreamDestroy(stream_)); }
  Stream(Stream const&) = delete;
  Stream& operator=(Stream const&) = delete;

  operator cudaStream_t() const { return stream_; }
  void wait() const { check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize"); }

private:
  cudaStream_t stream_ = nullptr;
};

class Event {
public:
  Event() { check(cudaEventCreate(&event_), "cudaEventCreate"); }
  ~Event() { static_cast<void>(cudaEventDestroy(event_)); }
  Event(Event const&) = delete;
  Event& operator=(Event const&) = delete;

  void record(cudaStream_t stream) { check(cudaEventRecord(event_, stream), "cudaEventRecord"); }
  /// Both events must have passed.
  double ms_since(Event const& start) const {
    float ms = 0;
    check(cudaEventElapsedTime(&ms, start.event_, event_), "cudaEventElapsedTime");
    return ms;
  }

private:
  cudaEvent_t event_ = nullptr;
};

/// `count` values of T in device memory, not initialised.
template <class T>
class DeviceArray {
public:
  explicit DeviceArray(std::int64_t count) : count_(count) {
    if (count > 0) check(cudaMalloc(&data_, bytes()), "cudaMalloc");
  }
  explicit DeviceArray(std::vector<T> const& values) : DeviceArray(static_cast<std::int64_t>(values.size())) {
    check(cudaMemcpy(data_, values.data(), bytes(), cudaMemcpyHostToDevice), "cudaMemcpy");
  }
  ~DeviceArray() { static_cast<void>(cudaFree(data_)); }
  DeviceArray(DeviceArray const&) = delete;
  DeviceArray& operator=(DeviceArray const&) = delete;

  T* data() const { return static_cast<T*>(data_); }
  std::int64_t size() const { return count_; }
  std::size_t bytes() const { return static_cast<std::size_t>(count_) * sizeof(T); }

  /// The first `count` values. Work on the array must have ended.
  std::vector<T> download(std::int64_t count) const {
    std::vector<T> values(static_cast<std::size_t>(count));
    check(cudaMemcpy(values.data(), data_, values.size() * sizeof(T), cudaMemcpyDeviceToHost), "cudaMemcpy");
    return values;
  }
  std::vector<T> download() const { return download(count_); }

private:
  void* data_ = nullptr;
  std::int64_t count_ = 0;
};

/// Scratch of a plan.
class Scratch {
public:
  explicit Scratch(std::size_t bytes) : memory_(static_cast<std::int64_t>(bytes)) {}
  Workspace workspace() const { return {memory_.data(), memory_.bytes()}; }

private:
  DeviceArray<unsigned char> memory_;
};

}  // namespace sparge::bench
