#pragma once
/// Scratch memory that the caller owns.

#include <cstddef>

namespace sparge {

/// Device memory for one call: 256-byte aligned, contents undefined before and after. The plan says how many bytes;
/// zero bytes may be null. Two calls that may run at the same time need two workspaces.
struct Workspace {
  void* data = nullptr;
  std::size_t bytes = 0;
};

inline constexpr std::size_t workspace_alignment = 256;

}  // namespace sparge
