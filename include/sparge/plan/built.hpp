#pragma once
/// Which rows and architectures this build contains. The compiled library generates these facts (cmake/instances.cmake);
/// header-only users have every row, for the architectures that their own nvcc command names.

#include <cstdint>

namespace sparge::built {

/// A capability (80, 90, ...) that code was generated for. PTX runs on every later one too, machine code on later ones of the
/// same major number, and code for an `a` target, such as 90a, on that capability alone.
struct Target {
  std::int32_t capability;
  bool ptx, exact;
};

}  // namespace sparge::built

#ifdef SPARGE_BUILT_HEADER
#include SPARGE_BUILT_HEADER
#else

namespace sparge::built {

/// Bit i = row i of forward_table.inc.
inline constexpr std::uint64_t forward_rows = ~std::uint64_t{0};
/// Likewise of backward_table.inc.
inline constexpr std::uint64_t backward_rows = ~std::uint64_t{0};

/// nvcc does not say here what it embeds, so a header-only build leaves the check to the launch itself, and has the portable
/// kernels alone. A header of the user's own, named by SPARGE_BUILT_HEADER, may say more.
inline constexpr Target targets[] = {{80, true, false}};

}  // namespace sparge::built

#endif
