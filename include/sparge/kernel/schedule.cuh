#pragma once
/// The launches that order the work of persistent thread blocks.

#include "sparge/core/linkage.hpp"
#include "sparge/kernel/launch.cuh"
#include "sparge/kernel/schedule_build.cuh"
#include "sparge/kernel/schedule_count.cuh"

namespace sparge {

SPARGE_INLINE cudaError_t launch_schedule(ScheduleParams const& given, cudaStream_t stream) noexcept {
  ScheduleParams params = given;
  std::int64_t blocks = 0;
  for (std::int32_t i = 0; i < params.count; ++i) {
    std::int64_t const of_pass = ScheduleCount::blocks_for(params, params.passes[i]);
    params.passes[i].count_blocks = static_cast<std::int32_t>(of_pass);
    blocks += of_pass;
  }
  cudaError_t const error = launch<ScheduleCount>(params, blocks, 0, stream);
  // This and what follows may start early, since their code is sure to wait: rows for sm90a run on 9.0 alone and are built only where all
  // is built for 90a too, which 9.0 then prefers to code of older architectures.
  return error != cudaSuccess ? error : launch<ScheduleBuild>(params, params.count, 0, stream);
}

}  // namespace sparge
