#pragma once
/// Device memory for probes: throws on any CUDA error, so that a probe cannot return stale data.

#include <cuda_runtime.h>

#include <stdexcept>
#include <vector>

namespace sparge::probe {

inline void check(cudaError_t error) {
  if (error != cudaSuccess) throw std::runtime_error(cudaGetErrorString(error));
}

template <class T>
class Array {
public:
  explicit Array(std::size_t count) : count_(count) {
    check(cudaMalloc(&data_, count * sizeof(T)));
    check(cudaMemset(data_, 0xFF, count * sizeof(T)));
  }
  explicit Array(std::vector<T> const& values) : Array(values.size()) {
    check(cudaMemcpy(data_, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
  }
  Array(Array const&) = delete;
  Array& operator=(Array const&) = delete;
  ~Array() { cudaFree(data_); }

  T* data() const { return data_; }
  std::vector<T> download() const {
    check(cudaGetLastError());
    check(cudaDeviceSynchronize());
    std::vector<T> values(count_);
    check(cudaMemcpy(values.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost));
    return values;
  }

private:
  std::size_t count_;
  T* data_ = nullptr;
};

}  // namespace sparge::probe
