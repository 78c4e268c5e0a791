#pragma once
/// Facts about the build, the driver and the machine that stand in the JSON of every run.

namespace sparge::bench {

/// Null where the build is optimised, else why its timings would mean nothing.
char const* why_not_optimised();

/// Adds what is known without a GPU: commit and build type.
void add_build_context();

/// Adds the GPU, its driver, and the ceilings that fractions are of. Throws where there is no GPU.
void add_gpu_context();

}  // namespace sparge::bench
