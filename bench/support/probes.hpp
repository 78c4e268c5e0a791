#pragma once
/// What the GPU itself can do: its clock while it works, and two ceilings.

#include <driver_types.h>

#include <cstdint>

namespace sparge::bench {

/// Keeps the stream busy for about that long, with next to no power, while the host enqueues what comes behind.
void hold(double microseconds, cudaStream_t stream);

/// Enqueues a reading of the SM clock; `ticks` receives {SM cycles, nanoseconds} of one interval.
void read_sm_clock(std::uint64_t* ticks, cudaStream_t stream);

/// Bytes per second of a large device-to-device copy, reads and writes counted.
double measure_copy_bytes_per_s(cudaStream_t stream);

/// Operations per second of bf16 mma.sync on registers alone: no kernel built on mma.sync can be faster.
double measure_mma_sync_flop_per_s(int sm_count, cudaStream_t stream);

}  // namespace sparge::bench
