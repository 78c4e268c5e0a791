#pragma once
/// What a GPU test needs around the calls under test: the visible skip, the device, streams, and a checked CUDA call.

#include <cuda_runtime_api.h>

#include <cstdlib>
#include <stdexcept>
#include <string>

#include "sparge/sparge.hpp"
#include "support/catch.hpp"

namespace sparge::test {

/// Throws, so that a test that cannot be set up fails by name instead of running on.
inline void check_cuda(cudaError_t error, char const* call) {
  if (error != cudaSuccess) throw std::runtime_error(std::string(call) + ": " + cudaGetErrorString(error));
}

#define CHECK_CUDA(call) ::sparge::test::check_cuda((call), #call)

/// Devices that this process can use; 0 also where there is no driver.
inline int device_count() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    return 0;
  }
  return count;
}

/// A machine that must have a GPU says so; there a missing one is a failure.
inline bool gpu_is_required() {
  char const* required = std::getenv("SPARGE_REQUIRE_GPU");
  return required != nullptr && std::string(required) == "1";
}

/// First statement of a test that needs GPUs: skips visibly where they are not, fails where one is required.
#define SKIP_WITHOUT_GPUS(wanted)                                                                           \
  do {                                                                                                      \
    if (::sparge::test::device_count() < (wanted)) {                                                        \
      if ((wanted) == 1 && ::sparge::test::gpu_is_required()) FAIL("a GPU is required, and there is none"); \
      SKIP("needs " #wanted " GPU");                                                                        \
    }                                                                                                       \
  } while (false)

#define SKIP_WITHOUT_GPU() SKIP_WITHOUT_GPUS(1)

/// The line that describe() prints.
inline std::string text_of(Status const& status) {
  std::string text(describe(status, nullptr, 0), '\0');
  describe(status, text.data(), text.size() + 1);
  return text;
}

/// For calls that must succeed on the way to what a test is about.
inline void must(Status const& status) {
  if (!status.ok()) throw std::runtime_error(text_of(status));
}

/// The current device, as plans want it.
inline Device test_device() {
  int ordinal = 0;
  CHECK_CUDA(cudaGetDevice(&ordinal));
  Device device;
  must(query_device(ordinal, &device));
  return device;
}

/// A stream that does not wait for the legacy default stream, so that work enqueued elsewhere shows.
class Stream {
public:
  explicit Stream(unsigned flags = cudaStreamNonBlocking) {
    CHECK_CUDA(cudaStreamCreateWithFlags(&stream_, flags));
  }
  ~Stream() { static_cast<void>(cudaStreamDestroy(stream_)); }
  Stream(Stream const&) = delete;
  Stream& operator=(Stream const&) = delete;

  operator cudaStream_t() const { return stream_; }
  void wait() const { CHECK_CUDA(cudaStreamSynchronize(stream_)); }

private:
  cudaStream_t stream_ = nullptr;
};

}  // namespace sparge::test
