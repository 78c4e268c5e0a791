#pragma once
/// A bump allocator: hands out pieces of one block of memory, which somebody else owns.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>

#include "sparge/core/workspace.hpp"

namespace engine {

/// Without memory it only measures. Whoever fills in a structure from an arena does so twice, by the same function: measuring, and
/// from memory of the size that this took. So the two cannot disagree.
class Arena {
public:
  /// Of every piece: what sparge asks of a workspace, and what cudaMalloc gives.
  static constexpr std::size_t alignment = sparge::workspace_alignment;

  Arena() = default;
  Arena(void* memory, std::size_t bytes) : begin_(reinterpret_cast<std::uintptr_t>(memory)), bytes_(bytes) {
    if (begin_ % alignment != 0)
      throw std::invalid_argument("arena: memory must be aligned to " + std::to_string(alignment) + " bytes");
  }

  /// `count` objects that are not constructed; null while measuring, and for none.
  template <class T>
  T* take(std::int64_t count) {
    static_assert(alignof(T) <= alignment);
    if (count < 0 || std::uint64_t(count) > (std::numeric_limits<std::size_t>::max() - alignment) / sizeof(T))
      throw std::length_error("arena: " + std::to_string(count) + " objects of " + std::to_string(sizeof(T)) +
                              " bytes are none, or do not fit 64 bits");
    std::size_t const size = (std::size_t(count) * sizeof(T) + alignment - 1) / alignment * alignment;
    if (size > bytes_ - used_)
      throw std::length_error("arena: " + std::to_string(size) + " bytes asked, " +
                              std::to_string(bytes_ - used_) + " of " + std::to_string(bytes_) + " left");
    std::uintptr_t const piece = begin_ + used_;
    used_ += size;
    return begin_ != 0 && count > 0 ? reinterpret_cast<T*>(piece) : nullptr;
  }

  std::size_t used() const { return used_; }

private:
  std::uintptr_t begin_ = 0;
  std::size_t bytes_ = std::numeric_limits<std::size_t>::max(), used_ = 0;
};

}  // namespace engine
