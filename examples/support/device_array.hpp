#pragma once
/// Device memory that frees itself.

#include <cuda_runtime_api.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace demo {

inline void check_cuda(cudaError_t error) {
  if (error != cudaSuccess) throw std::runtime_error(std::string("CUDA: ") + cudaGetErrorString(error));
}

/// Device memory that frees itself.
template <class T>
class DeviceArray {
public:
  explicit DeviceArray(std::size_t size) : size_(size) {
    void* data = nullptr;
    if (size > 0) check_cuda(cudaMalloc(&data, size * sizeof(T)));
    data_ = static_cast<T*>(data);
  }
  explicit DeviceArray(std::vector<T> const& values) : DeviceArray(values.size()) {
    check_cuda(cudaMemcpy(data_, values.data(), size_ * sizeof(T), cudaMemcpyHostToDevice));
  }
  ~DeviceArray() { cudaFree(data_); }
  DeviceArray(DeviceArray const&) = delete;
  DeviceArray& operator=(DeviceArray const&) = delete;

  T* data() const { return data_; }
  std::size_t size() const { return size_; }
  std::vector<T> to_host() const {
    std::vector<T> values(size_);
    check_cuda(cudaMemcpy(values.data(), data_, size_ * sizeof(T), cudaMemcpyDeviceToHost));
    return values;
  }

private:
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace demo
