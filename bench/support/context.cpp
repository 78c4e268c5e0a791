#include "support/context.hpp"

#include <cuda_runtime_api.h>

#include <cctype>
#include <cstdio>
#include <fstream>
#include <string>

#include "bench_build.hpp"
#include "support/bench.hpp"

namespace sparge::bench {
namespace {

/// The version of the kernel module, such as 580.65.06; empty where the system does not tell.
std::string driver_module() {
  std::ifstream file("/proc/driver/nvidia/version");
  for (std::string word; file >> word;)
    if (std::isdigit(static_cast<unsigned char>(word[0])) && word.find('.') != std::string::npos) return word;
  return {};
}

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

std::string rounded(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", value);
  return text;
}

}  // namespace

char const* why_not_optimised() {
#ifndef __OPTIMIZE__
  return "this program was built without optimisation; configure with -DCMAKE_BUILD_TYPE=Release";
#else
  std::string const type = build_type;
  if (type == "Release" || type == "RelWithDebInfo") return nullptr;
  return "this program's build type is neither Release nor RelWithDebInfo";
#endif
}

void add_build_context() {
  benchmark::AddCustomContext("commit", commit);
  benchmark::AddCustomContext("build_type", build_type);
}

void add_gpu_context() {
  Gpu& gpu = Gpu::current();
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, gpu.device.ordinal), "cudaGetDeviceProperties");
  int driver = 0, runtime = 0, clock_khz = 0;
  check(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  check(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
  check(cudaDeviceGetAttribute(&clock_khz, cudaDevAttrClockRate, gpu.device.ordinal),
        "cudaDeviceGetAttribute");
  benchmark::AddCustomContext("gpu", properties.name);
  benchmark::AddCustomContext("sms", std::to_string(gpu.device.sm_count));
  benchmark::AddCustomContext("l2_mib", std::to_string(gpu.device.l2_bytes >> 20));
  benchmark::AddCustomContext("max_sm_mhz", std::to_string(clock_khz / 1000));
  benchmark::AddCustomContext("driver", driver_module() + " (CUDA " + version_text(driver) + ")");
  benchmark::AddCustomContext("runtime", version_text(runtime));
  benchmark::AddCustomContext("copy_gb_per_s", rounded(gpu.copy_bytes_per_s / 1e9));
  benchmark::AddCustomContext("mma_sync_tflop_per_s", rounded(gpu.mma_sync_flop_per_s / 1e12));
}

}  // namespace sparge::bench
