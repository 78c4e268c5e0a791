#pragma once
/// Cuts one buffer into aligned pieces. The same walk counts (null base) and cuts, so the two cannot disagree.

#include <cstddef>
#include <cstdint>

#include "sparge/core/workspace.hpp"

namespace sparge {

class Carver {
public:
  /// Counts only.
  Carver() = default;
  /// Cuts `base`, which is aligned to `workspace_alignment`.
  explicit Carver(void* base) : base_(static_cast<std::byte*>(base)) {}

  /// The next piece, for `count` >= 0 values of T; null while counting.
  template <class T>
  T* take(std::int64_t count) {
    std::size_t const start = bytes_;
    std::size_t const size = static_cast<std::size_t>(count) * sizeof(T);
    bytes_ = start + (size + workspace_alignment - 1) / workspace_alignment * workspace_alignment;
    return base_ ? reinterpret_cast<T*>(base_ + start) : nullptr;
  }

  std::size_t bytes() const { return bytes_; }

private:
  std::byte* base_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace sparge
