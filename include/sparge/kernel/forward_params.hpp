#pragma once
/// The launch of forward kernels. Host code sees only this.

#include <driver_types.h>

#include <cstdint>
#include <type_traits>

#include "sparge/core/element.hpp"
#include "sparge/core/status.hpp"
#include "sparge/plan/forward_config.hpp"
#include "sparge/plan/forward_params.hpp"

namespace sparge {

template <int row>
using row_element = std::conditional_t<forward_table[row].dtype == ElementType::bf16, bfloat16, float16>;

/// Enqueues row `row` of the table over `blocks` thread blocks. Defined in kernel/forward.cuh, one instance a translation unit.
template <int row>
Status launch_forward(ForwardParams<row_element<row>> const& params, std::int64_t blocks,
                      cudaStream_t stream) noexcept;

}  // namespace sparge
