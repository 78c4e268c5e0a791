#pragma once
/// Devices and memory made up by hand: plans can be made and refusals tested without a GPU.

#include <cstdint>

#include "sparge/core/carver.hpp"
#include "sparge/core/device.hpp"

namespace sparge::test {

/// Capability 9.0, 228 KB of shared memory an SM.
inline Device big_device() { return {0, 9, 0, 132, 232448, 233472, 62914560}; }

/// The shared memory of consumer parts: 99 KB for a thread block, 100 KB an SM. Capability 9.0 all the same, so that it is served
/// by a build for 9.0 alone.
inline Device small_device() { return {0, 9, 0, 128, 101376, 102400, 75497472}; }

/// Aligned addresses where there is no memory, for calls that are refused before they read it.
inline Carver imagined_memory() { return Carver(reinterpret_cast<void*>(std::uintptr_t{1} << 32)); }

}  // namespace sparge::test
