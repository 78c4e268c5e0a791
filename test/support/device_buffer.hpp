#pragma once
/// Device memory of a test: 256-byte aligned, poisoned, with canaries on both sides.

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <vector>

#include "support/catch.hpp"
#include "support/gpu.hpp"

namespace sparge::test {

/// Guard bytes of `canary_byte` before and after the usable bytes, which start as 0xFF: NaN in every float type.
/// With SPARGE_INITCHECK=1 they start uninitialised instead, so that compute-sanitizer can see a read of them.
/// Every copy waits for the device, so a buffer may be used with any stream.
class GuardedMemory {
public:
  static constexpr std::size_t guard_bytes = 1024;
  static constexpr unsigned char canary_byte = 0xAB, poison_byte = 0xFF;

  explicit GuardedMemory(std::size_t bytes) : bytes_(bytes) {
    CHECK_CUDA(cudaMalloc(&base_, bytes_ + 2 * guard_bytes));
    CHECK_CUDA(cudaMemset(base_, canary_byte, guard_bytes));
    CHECK_CUDA(cudaMemset(data() + bytes_, canary_byte, guard_bytes));
    if (std::getenv("SPARGE_INITCHECK") == nullptr) fill(poison_byte);
    CHECK_CUDA(cudaDeviceSynchronize());
  }

  /// Fails the running test if a canary died, unless the test is already failing.
  ~GuardedMemory() {
    if (base_ == nullptr) return;
    if (std::uncaught_exceptions() == 0) CHECK(canaries_alive());
    static_cast<void>(cudaFree(base_));
  }
  GuardedMemory(GuardedMemory const&) = delete;
  GuardedMemory& operator=(GuardedMemory const&) = delete;

  unsigned char* data() const { return static_cast<unsigned char*>(base_) + guard_bytes; }
  std::size_t bytes() const { return bytes_; }

  void fill(unsigned char byte) {
    if (bytes_ > 0) CHECK_CUDA(cudaMemset(data(), byte, bytes_));
    CHECK_CUDA(cudaDeviceSynchronize());
  }

  void write(std::size_t offset, void const* from, std::size_t bytes) {
    CHECK_CUDA(cudaDeviceSynchronize());
    if (bytes > 0) CHECK_CUDA(cudaMemcpy(data() + offset, from, bytes, cudaMemcpyHostToDevice));
    CHECK_CUDA(cudaDeviceSynchronize());
  }

  void read(std::size_t offset, void* to, std::size_t bytes) const {
    CHECK_CUDA(cudaDeviceSynchronize());
    if (bytes > 0) CHECK_CUDA(cudaMemcpy(to, data() + offset, bytes, cudaMemcpyDeviceToHost));
  }

  bool canaries_alive() const noexcept {
    unsigned char guards[2 * guard_bytes];
    if (cudaDeviceSynchronize() != cudaSuccess) return false;
    if (cudaMemcpy(guards, base_, guard_bytes, cudaMemcpyDeviceToHost) != cudaSuccess) return false;
    if (cudaMemcpy(guards + guard_bytes, data() + bytes_, guard_bytes, cudaMemcpyDeviceToHost) != cudaSuccess)
      return false;
    for (unsigned char guard : guards)
      if (guard != canary_byte) return false;
    return true;
  }

private:
  void* base_ = nullptr;
  std::size_t bytes_ = 0;
};

/// `count` values of T. `offset_bytes` shifts them from their 256-byte alignment, for tests of misaligned pointers.
template <class T>
class DeviceBuffer {
public:
  explicit DeviceBuffer(std::int64_t count, std::size_t offset_bytes = 0)
      : memory_(static_cast<std::size_t>(count) * sizeof(T) + offset_bytes),
        count_(count),
        offset_bytes_(offset_bytes) {}

  explicit DeviceBuffer(std::vector<T> const& values, std::size_t offset_bytes = 0)
      : DeviceBuffer(static_cast<std::int64_t>(values.size()), offset_bytes) {
    upload(values);
  }

  T* data() const { return reinterpret_cast<T*>(memory_.data() + offset_bytes_); }
  std::int64_t size() const { return count_; }
  std::size_t bytes() const { return static_cast<std::size_t>(count_) * sizeof(T); }

  void upload(std::vector<T> const& values, std::int64_t first = 0) {
    memory_.write(offset_bytes_ + static_cast<std::size_t>(first) * sizeof(T), values.data(),
                  values.size() * sizeof(T));
  }

  std::vector<T> download() const { return download(0, count_); }

  std::vector<T> download(std::int64_t first, std::int64_t count) const {
    std::vector<T> values(static_cast<std::size_t>(count));
    memory_.read(offset_bytes_ + static_cast<std::size_t>(first) * sizeof(T), values.data(),
                 values.size() * sizeof(T));
    return values;
  }

  /// The raw bytes, for comparisons bit for bit.
  std::vector<unsigned char> download_bytes() const {
    std::vector<unsigned char> values(bytes());
    memory_.read(offset_bytes_, values.data(), values.size());
    return values;
  }

  void fill_bytes(unsigned char byte) { memory_.fill(byte); }
  bool is_untouched(unsigned char byte = GuardedMemory::poison_byte) const {
    for (unsigned char value : download_bytes())
      if (value != byte) return false;
    return true;
  }
  bool canaries_alive() const { return memory_.canaries_alive(); }

private:
  GuardedMemory memory_;
  std::int64_t count_;
  std::size_t offset_bytes_;
};

/// Scratch of exactly `bytes`, null where none is needed.
class ScratchBuffer {
public:
  explicit ScratchBuffer(std::size_t bytes) : buffer_(static_cast<std::int64_t>(bytes)) {}

  Workspace workspace() const { return {buffer_.size() == 0 ? nullptr : buffer_.data(), buffer_.bytes()}; }
  DeviceBuffer<unsigned char>& bytes() { return buffer_; }

private:
  DeviceBuffer<unsigned char> buffer_;
};

}  // namespace sparge::test
