#include "support/inputs.hpp"

#include <cstdint>

#include "support/cuda.hpp"

namespace sparge::bench {
namespace {

__device__ std::uint64_t mix(std::uint64_t z) {
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ z >> 27) * 0x94d049bb133111ebull;
  return z ^ z >> 31;
}

/// A draw that depends on nothing but its seed and index.
__device__ std::uint64_t draw(std::uint64_t seed, std::uint64_t index) {
  return mix(mix(seed + 0x9e3779b97f4a7c15ull) + (index + 1) * 0x9e3779b97f4a7c15ull);
}

/// Box-Muller on the two halves of a draw.
__device__ float normal(std::uint64_t seed, std::uint64_t index) {
  std::uint64_t const bits = draw(seed, index);
  float const u = (static_cast<float>(bits >> 40) + 0.5f) * 0x1p-24f;
  float const v = static_cast<float>(bits & 0xffffff) * 0x1p-24f;
  return sqrtf(-2.0f * logf(u)) * cospif(2.0f * v);
}

template <class T>
__global__ void normal_kernel(T* x, std::int64_t count, std::uint64_t seed) {
  std::int64_t const stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += stride)
    x[i] = static_cast<T>(normal(seed, i));
}

constexpr std::int64_t centres = 64, run_tokens = 256;

template <class T>
__global__ void clustered_kernel(T* x, std::int64_t count, Clusters clusters) {
  std::int64_t const stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  std::int64_t const runs = (clusters.tokens + run_tokens - 1) / run_tokens;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += stride) {
    std::int64_t const channel = i % clusters.head_dim, token = i / clusters.head_dim % clusters.tokens;
    std::int64_t const head = i / clusters.head_dim / clusters.tokens;
    auto const centre =
        static_cast<std::int64_t>(draw(clusters.cluster_seed, head * runs + token / run_tokens) % centres);
    float const c = normal(~clusters.cluster_seed, (head * centres + centre) * clusters.head_dim + channel);
    x[i] = static_cast<T>(clusters.weight * c + normal(clusters.noise_seed, i));
  }
}

constexpr int fill_blocks = 1024, fill_threads = 256;

}  // namespace

template <class T>
void fill_normal(T* x, std::int64_t count, std::uint64_t seed, cudaStream_t stream) {
  normal_kernel<<<fill_blocks, fill_threads, 0, stream>>>(x, count, seed);
  check(cudaGetLastError(), "fill_normal");
}

template <class T>
void fill_clustered(T* x, std::int64_t heads, Clusters const& clusters, cudaStream_t stream) {
  clustered_kernel<<<fill_blocks, fill_threads, 0, stream>>>(x, heads * clusters.tokens * clusters.head_dim,
                                                             clusters);
  check(cudaGetLastError(), "fill_clustered");
}

template void fill_normal(bfloat16*, std::int64_t, std::uint64_t, cudaStream_t);
template void fill_normal(float16*, std::int64_t, std::uint64_t, cudaStream_t);
template void fill_normal(float*, std::int64_t, std::uint64_t, cudaStream_t);
template void fill_clustered(bfloat16*, std::int64_t, Clusters const&, cudaStream_t);
template void fill_clustered(float16*, std::int64_t, Clusters const&, cudaStream_t);

}  // namespace sparge::bench
