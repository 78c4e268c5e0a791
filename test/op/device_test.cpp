/// query_device and the facts about this build.

#include <string>

#include "sparge/sparge.hpp"
#include "support/catch.hpp"
#include "support/gpu.hpp"

using namespace sparge;
using namespace sparge::test;

TEST_CASE("query_device reads the device and leaves the current one alone", "[gpu]") {
  SKIP_WITHOUT_GPU();
  int before = -1, after = -1;
  CHECK_CUDA(cudaGetDevice(&before));
  for (int ordinal = 0; ordinal < device_count(); ++ordinal) {
    Device device;
    must(query_device(ordinal, &device));
    cudaDeviceProp properties{};
    CHECK_CUDA(cudaGetDeviceProperties(&properties, ordinal));
    CHECK(device.ordinal == ordinal);
    CHECK(device.capability() == 10 * properties.major + properties.minor);
    CHECK(device.sm_count == properties.multiProcessorCount);
    CHECK(device.shared_bytes_per_block == static_cast<std::int64_t>(properties.sharedMemPerBlockOptin));
    CHECK(device.shared_bytes_per_sm == static_cast<std::int64_t>(properties.sharedMemPerMultiprocessor));
    CHECK(device.l2_bytes == properties.l2CacheSize);
  }
  CHECK_CUDA(cudaGetDevice(&after));
  CHECK(before == after);
}

TEST_CASE("U99 query_device refuses an ordinal that is no device and leaves no CUDA error", "[gpu]") {
  SKIP_WITHOUT_GPU();
  Device device;
  device.ordinal = 42;
  for (int ordinal : {-1, device_count(), 1 << 30}) {
    Status const status = query_device(ordinal, &device);
    CHECK(status.code == StatusCode::invalid_argument);
    CHECK(std::string(status.field) == "ordinal");
    CHECK(status.given == ordinal);
    CHECK(device.ordinal == 42);
    CHECK(cudaPeekAtLastError() == cudaSuccess);
  }
}

TEST_CASE("every kernel of the table is described or refused by name") {
  KernelInfo info{};
  int built = 0;
  REQUIRE(supported_kernels() > 0);
  for (int index = 0; index < supported_kernels(); ++index) {
    Status const status = supported_kernel(index, &info);
    if (!status.ok()) {
      CHECK(status.code == StatusCode::unsupported);
      continue;
    }
    ++built;
    CHECK(std::string(info.name).find(info.dtype == ElementType::bf16 ? " bf16 " : " f16 ") !=
          std::string::npos);
    CHECK((info.head_dim == 64 || info.head_dim == 128));
    CHECK(info.q_tile > 0);
    CHECK(info.kv_tile > 0);
  }
  CHECK(built > 0);
  for (int index : {-1, supported_kernels()}) {
    Status const status = supported_kernel(index, &info);
    CHECK(status.code == StatusCode::invalid_argument);
    CHECK(std::string(status.field) == "index");
  }
  CHECK(std::string(supported_kernel(0, nullptr).field) == "info");
}

TEST_CASE("U46 mask lengths follow from shapes alone") {
  std::size_t words = 0;
  must(mask_words({1, 40, 40, 75600, 75600, 128}, &words));
  CHECK(words == std::size_t{40} * 591 * 37);
  must(transposed_mask_words({1, 40, 40, 75600, 75600, 128}, &words));
  CHECK(words == std::size_t{40} * 1182 * 19);
  must(mask_words({2, 3, 1, 100, 0, 64}, &words));
  CHECK(words == 0);
}

TEST_CASE("a status is one line that names field and values and what would work") {
  AttentionProblem p{1, 1, 1, 128, 128, 96};
  std::size_t words = 0;
  CHECK(text_of(Status{}) == "ok");
  std::string const line = text_of(mask_words(p, &words));
  CHECK(line.find("unsupported: problem.head_dim = 96: built head_dims are 64 and 128") == 0);
  CHECK(line.find("bf16 head_dim 64") != std::string::npos);
  Status status;
  status.code = StatusCode::invalid_argument;
  status.field = "q.stride", status.reason = "must be a multiple of 16 bytes";
  status.axis = 2, status.shows = StatusValue::given_and_expected, status.given = 132, status.expected = 8;
  CHECK(text_of(status) == "invalid argument: q.stride[2] = 132, expected 8: must be a multiple of 16 bytes");
  status = {};
  status.code = StatusCode::cuda_error;
  status.field = "forward kernel", status.reason = "the CUDA runtime refused",
  status.cuda = cudaErrorInvalidValue;
  CHECK(text_of(status).find("cudaErrorInvalidValue") != std::string::npos);
}
