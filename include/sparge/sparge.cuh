#pragma once
/// Everything, for header-only use: include this in .cu files that nvcc compiles as C++20. The calls are those of sparge.hpp,
/// with the same checks; the kernels that they name are compiled where they are called.

#if (defined(_MSVC_LANG) ? _MSVC_LANG : __cplusplus) < 202002L
#error "sparge.cuh needs C++20; in CMake set CUDA_STANDARD to 20, since a CXX_STANDARD of 17 reaches nvcc too"
#endif

#include "sparge/sparge.hpp"

#include "sparge/kernel/backward.cuh"
#include "sparge/kernel/backward_delta.cuh"
#include "sparge/kernel/calibrate.cuh"
#include "sparge/kernel/distillation_loss.cuh"
#include "sparge/kernel/forward.cuh"
#include "sparge/kernel/interpolate.cuh"
#include "sparge/kernel/mask_centre.cuh"
#include "sparge/kernel/mask_form.cuh"
#include "sparge/kernel/mask_scores.cuh"
#include "sparge/kernel/mask_select.cuh"
#include "sparge/kernel/mask_slice.cuh"
#include "sparge/kernel/mask_stats.cuh"
#include "sparge/kernel/mask_transpose.cuh"
#include "sparge/kernel/merge_partials.cuh"
#include "sparge/kernel/merge_pieces.cuh"
#include "sparge/kernel/pool.cuh"
#include "sparge/kernel/schedule.cuh"
#include "sparge/op/backward.hpp"
#include "sparge/op/build_mask.hpp"
#include "sparge/op/calibrate.hpp"
#include "sparge/op/device.hpp"
#include "sparge/op/distillation_loss.hpp"
#include "sparge/op/forward.hpp"
#include "sparge/op/interpolate.hpp"
#include "sparge/op/mask_form.hpp"
#include "sparge/op/mask_stats.hpp"
#include "sparge/op/merge_partials.hpp"
#include "sparge/op/pool.hpp"
#include "sparge/op/select_blocks.hpp"
#include "sparge/op/status_text.hpp"
