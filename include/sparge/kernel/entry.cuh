#pragma once
/// The one __global__ function. A kernel is a class with `Params`, `threads`, `ctas_per_sm` and `run(params, smem)`.

namespace sparge {

template <class Kernel>
__global__ void __launch_bounds__(Kernel::threads, Kernel::ctas_per_sm)
    entry(__grid_constant__ typename Kernel::Params const params) {
  extern __shared__ __align__(1024) unsigned char dynamic_smem[];
  Kernel::run(params, dynamic_smem);
}

}  // namespace sparge
