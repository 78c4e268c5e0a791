#pragma once
/// 16-bit patterns of floats and back, and small integers that every product sums exactly.

#include <cstdint>
#include <cstring>
#include <vector>

#include "probe.hpp"
#include "sparge/core/element.hpp"

namespace sparge::probe {

template <class T>
std::uint16_t bits_of(T value) {
  std::uint16_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

inline std::uint16_t to_bits(Type type, float value) {
  return type == Type::bf16 ? bits_of(__float2bfloat16(value)) : bits_of(__float2half(value));
}

inline float from_bits(Type type, std::uint16_t bits) {
  return type == Type::bf16 ? __bfloat162float(__nv_bfloat16_raw{bits}) : __half2float(__half_raw{bits});
}

/// Integers in [-7, 7] from a small generator: exact in both types, and so are sums of their products.
inline std::vector<float> small_integers(std::size_t count, std::uint32_t seed) {
  std::vector<float> values(count);
  std::uint32_t state = seed * 2654435761u + 1;
  for (float& value : values) {
    state = state * 1664525u + 1013904223u;
    value = static_cast<float>(static_cast<int>((state >> 16) % 15) - 7);
  }
  return values;
}

inline std::vector<std::uint16_t> to_bits(Type type, std::vector<float> const& values) {
  std::vector<std::uint16_t> bits(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) bits[i] = to_bits(type, values[i]);
  return bits;
}

}  // namespace sparge::probe
