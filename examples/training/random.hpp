#pragma once
/// Random numbers that depend on a seed and a position alone: the same on every machine and in any number of threads.

#include <cmath>
#include <cstdint>

namespace training {

inline constexpr double two_pi = 6.283185307179586;

class Random {
public:
  explicit Random(std::uint64_t seed, std::uint64_t stream = 0) : key_(mix(mix(seed) + stream)) {}

  /// In (0, 1).
  double uniform(std::uint64_t position) const {
    return (double(mix(key_ + position) >> 11) + 0.5) * 0x1p-53;
  }
  double uniform(std::uint64_t position, double least, double most) const {
    return least + (most - least) * uniform(position);
  }
  /// Standard normal, by Box and Muller.
  double normal(std::uint64_t position) const {
    return std::sqrt(-2 * std::log(uniform(2 * position))) * std::cos(two_pi * uniform(2 * position + 1));
  }

private:
  /// SplitMix64.
  static std::uint64_t mix(std::uint64_t x) {
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
  }

  std::uint64_t key_;
};

}  // namespace training
