#pragma once
/// Seeded inputs: values made on the device, and the generator of what is made on the host.

#include <driver_types.h>

#include <cstdint>

#include "sparge/core/element.hpp"

namespace sparge::bench {

/// Fills x with N(0, 1). T is bfloat16, float16 or float.
template <class T>
void fill_normal(T* x, std::int64_t count, std::uint64_t seed, cudaStream_t stream);

/// Tokens that look alike in runs, as patches of a video do: x = weight * centre + N(0, 1). A head has 64 centres
/// c ~ N(0, 1) and each run of 256 tokens draws one of them; `cluster_seed` decides both, so that queries and keys made
/// with the same one share them. x is contiguous [batch * heads, tokens, head_dim].
struct Clusters {
  std::int64_t tokens = 0;
  std::int32_t head_dim = 0;
  float weight = 1;
  std::uint64_t cluster_seed = 0, noise_seed = 0;
};

template <class T>
void fill_clustered(T* x, std::int64_t heads, Clusters const& clusters, cudaStream_t stream);

/// splitmix64 (Steele, Lea, Flood 2014).
class Random {
public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15ull;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
  }
  /// In [0, n), for n far below 2^32.
  std::int64_t below(std::int64_t n) {
    return static_cast<std::int64_t>((next() >> 32) * static_cast<std::uint64_t>(n) >> 32);
  }

private:
  std::uint64_t state_;
};

}  // namespace sparge::bench
