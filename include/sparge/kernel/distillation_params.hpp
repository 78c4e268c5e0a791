#pragma once
/// What the kernels of velocity distillation are given, and their launches. Host code sees only this.

#include <driver_types.h>

#include <cstdint>

#include "sparge/plan/distillation.hpp"

namespace sparge {

template <class T>
struct DistillationLossParams {
  T const* student = nullptr;
  T const* teacher = nullptr;
  float const* weights = nullptr;    ///< of the samples, or null for ones
  float const* grad_loss = nullptr;  ///< or null for 1
  T* grad_student = nullptr;         ///< out, or null
  double* partial_sums = nullptr;    ///< out, one a thread block
  std::int64_t elements = 0;
  std::int64_t sample_elements = 0;  ///< all of them where there are no weights
};

/// Enqueues one pass over the data. Defined in kernel/distillation_loss.cuh; T is bfloat16, float16 or float.
template <class T>
cudaError_t launch_distillation_loss(DistillationLossParams<T> const& params, std::int64_t blocks,
                                     cudaStream_t stream) noexcept;

struct LossSumParams {
  double const* partial_sums = nullptr;
  float* loss = nullptr;  ///< out
  std::int64_t partials = 0, elements = 0;
};

/// Enqueues the sum of the partial sums, divided by the elements; 0 where there are none.
cudaError_t launch_loss_sum(LossSumParams const& params, cudaStream_t stream) noexcept;

template <class T>
struct InterpolateParams {
  T const* x0 = nullptr;
  T const* x1 = nullptr;
  float const* t = nullptr;  ///< of the samples
  T* x_t = nullptr;          ///< out
  std::int64_t elements = 0, sample_elements = 0;
};

/// Defined in kernel/interpolate.cuh; T is bfloat16, float16 or float.
template <class T>
cudaError_t launch_interpolate(InterpolateParams<T> const& params, std::int64_t blocks,
                               cudaStream_t stream) noexcept;

}  // namespace sparge
