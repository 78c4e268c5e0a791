#pragma once
/// int64 arithmetic that reports overflow instead of wrapping.

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>

namespace sparge {

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return a / b + (a % b != 0); }

/// The product of factors, or nothing where one is negative or the product does not fit 64 bits.
constexpr std::optional<std::int64_t> checked_product(std::initializer_list<std::int64_t> factors) {
  std::int64_t product = 1;
  for (std::int64_t factor : factors) {
    if (factor < 0) return std::nullopt;
    if (factor == 0) return 0;
  }
  for (std::int64_t factor : factors) {
    if (product > std::numeric_limits<std::int64_t>::max() / factor) return std::nullopt;
    product *= factor;
  }
  return product;
}

/// The sum of two non-negative terms, or nothing where a term is missing or the sum does not fit 64 bits.
constexpr std::optional<std::int64_t> checked_sum(std::optional<std::int64_t> a,
                                                  std::optional<std::int64_t> b) {
  if (!a || !b || *a > std::numeric_limits<std::int64_t>::max() - *b) return std::nullopt;
  return *a + *b;
}

}  // namespace sparge
