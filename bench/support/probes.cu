#include "support/probes.hpp"

#include <algorithm>
#include <cstdint>

#include "sparge/device/mma_sm80.cuh"
#include "support/cuda.hpp"
#include "support/inputs.hpp"

namespace sparge::bench {
namespace {

__device__ std::uint64_t now_ns() {
  std::uint64_t ns;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns)::"memory");
  return ns;
}

__global__ void hold_kernel(std::uint64_t ns) {
  std::uint64_t const end = now_ns() + ns;
  while (now_ns() < end) __nanosleep(500);
}

/// Long enough that the grain of the global timer, up to a microsecond, does not count.
__global__ void clock_kernel(std::uint64_t* ticks) {
  std::uint64_t const start_ns = now_ns();
  auto const start = static_cast<std::uint64_t>(clock64());
  std::uint64_t end_ns = start_ns;
  while (end_ns < start_ns + 200'000) end_ns = now_ns();
  ticks[0] = static_cast<std::uint64_t>(clock64()) - start;
  ticks[1] = end_ns - start_ns;
}

constexpr int mma_chains = 8, mma_threads = 256;
constexpr std::int64_t mma_flop = 2 * 16 * 8 * 16;

/// Independent chains of products of random operands: zeros would draw less power and run faster.
__global__ void mma_kernel(std::uint32_t const* operands, float* sums, int steps) {
  std::uint32_t a[4], b[2 * mma_chains];
  for (int i = 0; i < 4; ++i) a[i] = operands[threadIdx.x * 4 + i];
  for (int i = 0; i < 2 * mma_chains; ++i) b[i] = operands[1024 + threadIdx.x * 2 * mma_chains + i];
  float d[mma_chains][4] = {};
  for (int step = 0; step < steps; ++step) {
#pragma unroll
    for (int chain = 0; chain < mma_chains; ++chain)
      mma_16x8x16<bfloat16>(d[chain], a, b[2 * chain], b[2 * chain + 1]);
  }
  float sum = 0;
  for (int chain = 0; chain < mma_chains; ++chain)
    for (float value : d[chain]) sum += value;
  sums[static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x] = sum;
}

/// The fastest of a few runs, in seconds.
template <class Enqueue>
double fastest_s(cudaStream_t stream, Enqueue const& enqueue) {
  Event start, stop;
  double best_ms = 1e30;
  for (int run = 0; run < 6; ++run) {
    start.record(stream);
    enqueue();
    stop.record(stream);
    check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    if (run > 0) best_ms = std::min(best_ms, stop.ms_since(start));
  }
  return best_ms * 1e-3;
}

}  // namespace

void hold(double microseconds, cudaStream_t stream) {
  hold_kernel<<<1, 1, 0, stream>>>(static_cast<std::uint64_t>(microseconds * 1e3));
  check(cudaGetLastError(), "hold");
}

void read_sm_clock(std::uint64_t* ticks, cudaStream_t stream) {
  clock_kernel<<<1, 1, 0, stream>>>(ticks);
  check(cudaGetLastError(), "read_sm_clock");
}

double measure_copy_bytes_per_s(cudaStream_t stream) {
  std::int64_t const bytes = std::int64_t{1} << 30;
  DeviceArray<unsigned char> from(bytes), to(bytes);
  fill_normal(reinterpret_cast<float*>(from.data()), bytes / 4, 1, stream);
  double const seconds = fastest_s(stream, [&] {
    check(cudaMemcpyAsync(to.data(), from.data(), bytes, cudaMemcpyDeviceToDevice, stream),
          "cudaMemcpyAsync");
  });
  return 2.0 * static_cast<double>(bytes) / seconds;
}

double measure_mma_sync_flop_per_s(int sm_count, cudaStream_t stream) {
  int const blocks = 2 * sm_count, steps = 20000;
  std::int64_t const words = 1024 + mma_threads * 2 * mma_chains;
  DeviceArray<std::uint32_t> operands(words);
  DeviceArray<float> sums(static_cast<std::int64_t>(blocks) * mma_threads);
  fill_normal(reinterpret_cast<bfloat16*>(operands.data()), 2 * words, 2, stream);
  double const seconds = fastest_s(stream, [&] {
    mma_kernel<<<blocks, mma_threads, 0, stream>>>(operands.data(), sums.data(), steps);
    check(cudaGetLastError(), "mma_kernel");
  });
  double const warps = static_cast<double>(blocks) * mma_threads / 32;
  return warps * steps * mma_chains * static_cast<double>(mma_flop) / seconds;
}

}  // namespace sparge::bench
