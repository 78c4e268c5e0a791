#pragma once
/// The kernel of a row of the backward table, and its launch.

#include <type_traits>

#include "sparge/kernel/backward_dkdv.cuh"
#include "sparge/kernel/backward_dkdv_sm90.cuh"
#include "sparge/kernel/backward_dq.cuh"
#include "sparge/kernel/backward_dq_sm90.cuh"

namespace sparge {

/// By pass and architecture. A function, since the classes of the other kernels must not see a row that is not theirs.
template <BackwardConfig config>
constexpr auto backward_kernel_of() {
  constexpr bool is_dq = config.pass == BackwardPass::dq, is_sm90a = config.arch == Arch::sm90a;
  if constexpr (is_dq && is_sm90a)
    return std::type_identity<BackwardDqSm90<config>>{};
  else if constexpr (is_dq)
    return std::type_identity<BackwardDq<config>>{};
  else if constexpr (is_sm90a)
    return std::type_identity<BackwardDkdvSm90<config>>{};
  else
    return std::type_identity<BackwardDkdv<config>>{};
}

template <int row>
Status launch_backward(BackwardParams<backward_element<row>> const& params, std::int64_t blocks,
                       cudaStream_t stream) noexcept {
  using Kernel = typename decltype(backward_kernel_of<backward_table[row]>())::type;
  return Kernel::enqueue(params, blocks, stream);
}

}  // namespace sparge
