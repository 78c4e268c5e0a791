#include <cuda_bf16.h>

#include "inference_engine/elementwise.hpp"

namespace engine {
namespace {

constexpr int run_length = 8;      // channels of a thread: one load of 16 bytes
constexpr int rows_per_block = 8;  // so that what belongs to a channel is read once for several rows
constexpr int most_threads = most_row_channels / run_length, most_warps = most_threads / 32;
/// Two thread blocks of the longest rows on a multiprocessor, so that one loads while the other waits for its sums.
constexpr int row_blocks_per_sm = 2;

/// What a thread holds of a row.
struct Run {
  float x[run_length];
};

__device__ Run load(bfloat16 const* from) {
  uint4 const raw = *reinterpret_cast<uint4 const*>(from);
  __nv_bfloat162 pairs[run_length / 2];
  memcpy(pairs, &raw, sizeof raw);
  Run run;
  for (int i = 0; i < run_length / 2; ++i) {
    float2 const pair = __bfloat1622float2(pairs[i]);
    run.x[2 * i] = pair.x, run.x[2 * i + 1] = pair.y;
  }
  return run;
}

__device__ Run load(float const* from) {
  auto const low = *reinterpret_cast<float4 const*>(from), high = *reinterpret_cast<float4 const*>(from + 4);
  return {{low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w}};
}

__device__ Run constant(float value) {
  Run run;
  for (float& x : run.x) x = value;
  return run;
}

__device__ Run load(Modulation const& m, int channel, float if_none) {
  if (m.learnt == nullptr) return constant(if_none);
  Run run = load(m.learnt + channel);
  if (m.of_time == nullptr) return run;
  Run const of_time = load(m.of_time + channel);
  for (int i = 0; i < run_length; ++i) run.x[i] += of_time.x[i];
  return run;
}

__device__ void store(bfloat16* to, Run const& run) {
  __nv_bfloat162 pairs[run_length / 2];
  for (int i = 0; i < run_length / 2; ++i) pairs[i] = __floats2bfloat162_rn(run.x[2 * i], run.x[2 * i + 1]);
  uint4 raw;
  memcpy(&raw, pairs, sizeof raw);
  *reinterpret_cast<uint4*>(to) = raw;
}

__device__ float warp_sum(float x) {
  for (int distance = 16; distance > 0; distance /= 2) x += __shfl_xor_sync(~0u, x, distance);
  return x;
}

/// The sum over all threads of the block, which are whole warps, in each of them.
__device__ float block_sum(float x) {
  __shared__ float of_warp[most_warps];
  int const warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32, warps = int(blockDim.x) / 32;
  x = warp_sum(x);
  __syncthreads();  // the sums of the call before have been read
  if (lane == 0) of_warp[warp] = x;
  __syncthreads();
  return warp_sum(lane < warps ? of_warp[lane] : 0.0f);
}

/// (x - mean) / deviation of a row of `dim` channels; the variance is summed from centred values.
__device__ Run normalised(Run run, float dim) {
  float sum = 0;
  for (float x : run.x) sum += x;
  float const mean = block_sum(sum) / dim;
  float squares = 0;
  for (float& x : run.x) x -= mean, squares += x * x;
  float const inverse = rsqrtf(block_sum(squares) / dim + norm_epsilon);
  for (float& x : run.x) x *= inverse;
  return run;
}

/// Values of channels in shared memory, where registers would leave room for one thread block on a multiprocessor. A thread reads what it
/// wrote itself.
struct Kept {
  float4 *low, *high;

  __device__ void put(Run const& r) const {
    low[threadIdx.x] = {r.x[0], r.x[1], r.x[2], r.x[3]}, high[threadIdx.x] = {r.x[4], r.x[5], r.x[6], r.x[7]};
  }
  __device__ Run get() const {
    float4 const a = low[threadIdx.x], b = high[threadIdx.x];
    return {{a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w}};
  }
};

__global__ void __launch_bounds__(most_threads, row_blocks_per_sm) residual_norm_kernel(ResidualNorm args) {
  __shared__ float4 room[4][most_threads];
  Kept const scale{room[0], room[1]}, shift{room[2], room[3]};
  int const channel = int(threadIdx.x) * run_length;
  scale.put(load(args.scale, channel, 0)), shift.put(load(args.shift, channel, 0));
  Run const gate = load(args.gate, channel, 1), bias = load({args.bias, nullptr}, channel, 0);
  std::int64_t const first = std::int64_t{blockIdx.x} * rows_per_block;
  std::int64_t const end = min(first + rows_per_block, args.rows);
  for (std::int64_t row = first; row < end; ++row) {
    std::int64_t const at = row * args.dim + channel;
    Run x = load(args.x + at);
    if (args.y != nullptr) {
      Run const y = load(args.y + at);
      for (int i = 0; i < run_length; ++i) x.x[i] += gate.x[i] * (y.x[i] + bias.x[i]);
      store(args.sum + at, x);
    }
    if (args.normed == nullptr) continue;
    Run normed = normalised(x, float(args.dim));
    Run const scaled = scale.get(), shifted = shift.get();
    for (int i = 0; i < run_length; ++i) normed.x[i] = normed.x[i] * (1 + scaled.x[i]) + shifted.x[i];
    store(args.normed + at, normed);
  }
}

/// `turns` are those of the thread's pairs.
__device__ void turn_pairs(Run& run, Turn const* turns) {
  for (int i = 0; i < run_length / 2; ++i) {
    float const real = run.x[2 * i], imaginary = run.x[2 * i + 1];
    run.x[2 * i] = real * turns[i].cosine - imaginary * turns[i].sine;
    run.x[2 * i + 1] = real * turns[i].sine + imaginary * turns[i].cosine;
  }
}

__global__ void __launch_bounds__(most_threads, row_blocks_per_sm) rms_norm_kernel(RmsNorm args) {
  int const channel = int(threadIdx.x) * run_length;
  Run const bias = load(args.bias + channel), weight = load(args.weight + channel);
  std::int64_t const first = std::int64_t{blockIdx.x} * rows_per_block;
  std::int64_t const end = min(first + rows_per_block, args.rows);
  for (std::int64_t row = first; row < end; ++row) {
    bfloat16* const place = args.x + row * args.stride + channel;
    Run run = load(place);
    float squares = 0;
    for (int i = 0; i < run_length; ++i) run.x[i] += bias.x[i], squares += run.x[i] * run.x[i];
    float const inverse = rsqrtf(block_sum(squares) / float(args.dim) + norm_epsilon);
    for (int i = 0; i < run_length; ++i) run.x[i] *= inverse * weight.x[i];
    if (args.turns != nullptr)
      turn_pairs(run, args.turns + (row * args.head_dim + channel % args.head_dim) / 2);
    store(place, run);
  }
}

/// x / 2 * (1 + tanh(u)), where (1 + tanh(u)) / 2 = 1 / (1 + exp(-2 u)).
__device__ float gelu_of(float x) {
  float const u = 0.7978845608f * (x + 0.044715f * x * x * x);  // sqrt(2 / pi)
  return __fdividef(x, 1 + __expf(-2 * u));
}

__global__ void gelu_kernel(Gelu args) {
  bfloat16* const row = args.x + std::int64_t{blockIdx.x} * args.columns;
  for (std::int64_t column = threadIdx.x * run_length; column < args.columns;
       column += blockDim.x * run_length) {
    Run run = load(row + column);
    Run const bias = load(args.bias + column);
    for (int i = 0; i < run_length; ++i) run.x[i] = gelu_of(run.x[i] + bias.x[i]);
    store(row + column, run);
  }
}

__device__ void put(bfloat16& to, float x) { to = __float2bfloat16(x); }
__device__ void put(float& to, float x) { to = x; }

/// SplitMix64 of seed and position, then evenly in mean +- sqrt(3) deviation.
template <class T>
__global__ void fill_kernel(T* to, std::int64_t count, Distribution d, std::uint64_t seed) {
  std::int64_t const i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= count) return;
  std::uint64_t bits = seed * 0xd1342543de82ef95ull + (std::uint64_t(i) + 1) * 0x9e3779b97f4a7c15ull;
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9ull;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebull;
  bits ^= bits >> 31;
  float const uniform = (float(bits >> 40) + 0.5f) * 0x1p-24f;
  put(to[i], d.mean + 1.7320508f * d.deviation * (2 * uniform - 1));
}

template <class T>
cudaError_t fill(T* x, std::int64_t count, Distribution d, std::uint64_t seed, cudaStream_t stream) {
  constexpr unsigned threads = 256;
  if (count == 0) return cudaSuccess;
  fill_kernel<<<unsigned((count + threads - 1) / threads), threads, 0, stream>>>(x, count, d, seed);
  return cudaGetLastError();
}

unsigned row_blocks(std::int64_t rows) { return unsigned((rows + rows_per_block - 1) / rows_per_block); }

}  // namespace

cudaError_t residual_norm(ResidualNorm const& args, cudaStream_t stream) {
  if (!fits_rows(args.dim)) return cudaErrorInvalidValue;
  residual_norm_kernel<<<row_blocks(args.rows), unsigned(args.dim / run_length), 0, stream>>>(args);
  return cudaGetLastError();
}

cudaError_t rms_norm(RmsNorm const& args, cudaStream_t stream) {
  if (!fits_rows(args.dim) || args.stride % run_length != 0) return cudaErrorInvalidValue;
  rms_norm_kernel<<<row_blocks(args.rows), unsigned(args.dim / run_length), 0, stream>>>(args);
  return cudaGetLastError();
}

cudaError_t gelu(Gelu const& args, cudaStream_t stream) {
  if (args.columns % run_length != 0) return cudaErrorInvalidValue;
  gelu_kernel<<<unsigned(args.rows), 256, 0, stream>>>(args);
  return cudaGetLastError();
}

cudaError_t fill_random(bfloat16* x, std::int64_t count, Distribution d, std::uint64_t seed,
                        cudaStream_t stream) {
  return fill(x, count, d, seed, stream);
}
cudaError_t fill_random(float* x, std::int64_t count, Distribution d, std::uint64_t seed,
                        cudaStream_t stream) {
  return fill(x, count, d, seed, stream);
}

}  // namespace engine
