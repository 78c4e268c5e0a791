#pragma once
/// The launches of the backward kernels. Host code sees only this.

#include <driver_types.h>

#include <cstdint>
#include <type_traits>

#include "sparge/core/element.hpp"
#include "sparge/core/status.hpp"
#include "sparge/plan/backward_config.hpp"
#include "sparge/plan/backward_params.hpp"

namespace sparge {

/// Query rows that a thread block of delta takes.
inline constexpr std::int32_t delta_rows = 64;

/// `is_ordering`: right after launch_schedule() in the stream, beside which it then runs. Defined in kernel/backward_delta.cuh; T is bfloat16 or
/// float16.
template <class T>
cudaError_t launch_backward_delta(BackwardDeltaParams<T> const& params, bool is_ordering,
                                  cudaStream_t stream) noexcept;

template <int row>
using backward_element =
    std::conditional_t<backward_table[row].dtype == ElementType::bf16, bfloat16, float16>;

/// Enqueues row `row` of the table over `blocks` thread blocks. Defined in kernel/backward.cuh, one instance a translation unit.
template <int row>
Status launch_backward(BackwardParams<backward_element<row>> const& params, std::int64_t blocks,
                       cudaStream_t stream) noexcept;

}  // namespace sparge
