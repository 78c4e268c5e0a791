#pragma once
/// What stands between the products of a layer: four kernels, bf16 in and out, f32 inside. Each reads and writes its tensors once.

#include <driver_types.h>

#include <cstdint>

#include "inference_engine/model.hpp"
#include "sparge/core/element.hpp"

namespace engine {

using sparge::bfloat16;

inline constexpr float norm_epsilon = 1e-6f;

/// Rows are dealt out over a thread block, 8 channels a thread and whole warps.
inline constexpr std::int64_t most_row_channels = 5120;
constexpr bool fits_rows(std::int64_t dim) { return dim > 0 && dim % 256 == 0 && dim <= most_row_channels; }

/// A vector [dim] that is the sum of a learnt one and, unless that is null, one that follows from the time of the step.
struct Modulation {
  float const *learnt = nullptr, *of_time = nullptr;
};

/// sum = x + gate * (y + bias); normed = (sum - mean) / sqrt(variance + epsilon) * (1 + scale) + shift, by row.
/// Without `y`, sum is x and is not written; without `normed`, only sum is.
struct ResidualNorm {
  bfloat16 const* x = nullptr;  ///< [rows, dim]; may be `sum`
  bfloat16 const* y = nullptr;  ///< like x
  float const* bias = nullptr;  ///< [dim]
  Modulation gate;              ///< ones if there is none
  bfloat16 *sum = nullptr, *normed = nullptr;
  Modulation scale, shift;
  std::int64_t rows = 0, dim = 0;
};
cudaError_t residual_norm(ResidualNorm const& args, cudaStream_t stream);

/// In place: x = (x + bias) / sqrt(mean square of the row's (x + bias) + epsilon) * weight, then pairs of channels are turned.
struct RmsNorm {
  bfloat16* x = nullptr;        ///< [rows, dim], `stride` elements from row to row
  float const* bias = nullptr;  ///< [dim]
  float const* weight = nullptr;
  Turn const* turns = nullptr;  ///< [rows, head_dim / 2], the same for every head; null to turn nothing
  std::int64_t rows = 0, stride = 0, dim = 0;
  std::int32_t head_dim = 0;
};
cudaError_t rms_norm(RmsNorm const& args, cudaStream_t stream);

/// In place: x = gelu(x + bias), with the tanh approximation that the model was trained with.
struct Gelu {
  bfloat16* x = nullptr;        ///< [rows, columns], columns a multiple of 8
  float const* bias = nullptr;  ///< [columns]
  std::int64_t rows = 0, columns = 0;
};
cudaError_t gelu(Gelu const& args, cudaStream_t stream);

/// Evenly distributed values with this mean and standard deviation, the same for the same seed.
struct Distribution {
  float mean = 0, deviation = 1;
};
cudaError_t fill_random(bfloat16* x, std::int64_t count, Distribution, std::uint64_t seed, cudaStream_t);
cudaError_t fill_random(float* x, std::int64_t count, Distribution, std::uint64_t seed, cudaStream_t);

}  // namespace engine
