#pragma once
/// Stochastic gradient descent on the device: f32 weights and momentum, and the bf16 copy that the products read.

#include <driver_types.h>

#include <cstdint>

#include "sparge/core/element.hpp"

namespace training {

/// momentum = momentum_decay * momentum + gradient; weights -= learning_rate * momentum.
inline constexpr float momentum_decay = 0.9f;

struct SgdArgs {
  float* weights;          ///< in and out
  float* momentum;         ///< in and out
  sparge::bfloat16* copy;  ///< out: weights, rounded
  float const* grad;
  float const*
      learning_rate;  ///< one value on the device, so that a captured step can be replayed with another
  std::int64_t count;
};

cudaError_t descend(SgdArgs const& args, cudaStream_t stream);

}  // namespace training
