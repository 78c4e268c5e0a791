#pragma once
/// Kernels of one call that start before the one before them in the stream has ended, and wait inside (PTX ISA, "griddepcontrol",
/// sm_90). On earlier architectures, and where a kernel was launched as usual, both do nothing.

namespace sparge {

/// Returns, in each thread that calls it, once the kernel before has ended and what it wrote can be read. Before anything is touched that the
/// kernel before, or what that one had to wait for itself, may have in use.
__device__ __forceinline__ void wait_for_kernel_before() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/// The next kernel may start, as far as there is room: it waits for the end of this one all the same.
__device__ __forceinline__ void let_next_kernel_start() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

}  // namespace sparge
