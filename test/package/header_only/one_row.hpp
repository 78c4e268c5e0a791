#pragma once
/// This program's kernels: row 4 of forward_table.inc and no backward kernel, for capability 8.0 and, as PTX, every later one.

#include "sparge/plan/built.hpp"

namespace sparge::built {

inline constexpr std::uint64_t forward_rows = 1 << 4;
inline constexpr std::uint64_t backward_rows = 0;

inline constexpr Target targets[] = {{80, true, false}};

}  // namespace sparge::built
