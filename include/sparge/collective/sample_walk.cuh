#pragma once
/// Walks two contiguous tensors [samples, sample_elements] side by side, once, 16 bytes a load, and tells the sample of
/// everything it visits.

#include <cstdint>

#include "sparge/device/chunk.cuh"
#include "sparge/plan/distillation.hpp"

namespace sparge {

/// Where an element lies. Divides only where a step leaves the sample.
struct SamplePosition {
  std::int64_t sample = 0, inside = 0;

  __device__ __forceinline__ void advance(std::int64_t elements, std::int64_t sample_elements) {
    inside += elements;
    if (inside < sample_elements) return;
    sample += inside / sample_elements;
    inside %= sample_elements;
  }
};

/// `Visitor` has `chunk(first, sample, a, b)` for 16 bytes of each tensor that lie in one sample, and `element(index, sample)` for
/// single elements: those of a chunk that a sample ends in, and those behind the last whole chunk.
template <class T, class Visitor>
class SampleWalk {
public:
  __device__ __forceinline__ SampleWalk(T const* a, T const* b, std::int64_t elements,
                                        std::int64_t sample_elements, Visitor& visitor)
      : a_(a), b_(b), elements_(elements), sample_elements_(sample_elements), visitor_(visitor) {}

  /// All that belongs to this thread.
  __device__ __forceinline__ void run() {
    std::int64_t const chunks = elements_ / width;
    std::int64_t const stride = std::int64_t{gridDim.x} * distillation::tile_loads;
    std::int64_t first = std::int64_t{blockIdx.x} * distillation::tile_loads + threadIdx.x;
    SamplePosition at;
    at.advance(first * width, sample_elements_);
    for (; first < chunks; first += stride, at.advance(stride * width, sample_elements_))
      visit_tile(first, chunks, at);
    if (blockIdx.x == 0) visit_rest(chunks * width + threadIdx.x);
  }

private:
  static constexpr int width = chunk_elements<T>, loads = distillation::loads_a_thread;
  static constexpr int step = distillation::threads;  ///< chunks between two of a thread

  /// Every load of the thread is under way before the first one is used.
  __device__ __forceinline__ void visit_tile(std::int64_t first, std::int64_t chunks, SamplePosition at) {
    uint4 a[loads], b[loads];
#pragma unroll
    for (int i = 0; i < loads; ++i) {
      std::int64_t const chunk = first + i * step;
      if (chunk >= chunks) break;
      a[i] = __ldcs(reinterpret_cast<uint4 const*>(a_) + chunk);
      b[i] = __ldcs(reinterpret_cast<uint4 const*>(b_) + chunk);
    }
#pragma unroll
    for (int i = 0; i < loads; ++i, at.advance(step * width, sample_elements_)) {
      std::int64_t const chunk = first + i * step;
      if (chunk >= chunks) break;
      if (at.inside + width <= sample_elements_)
        visitor_.chunk(chunk * width, at.sample, a[i], b[i]);
      else
        visit_divided_chunk(chunk * width, at);
    }
  }

  __device__ __forceinline__ void visit_divided_chunk(std::int64_t first, SamplePosition at) {
#pragma unroll 1
    for (int i = 0; i < width; ++i, at.advance(1, sample_elements_)) visitor_.element(first + i, at.sample);
  }

  __device__ __forceinline__ void visit_rest(std::int64_t index) {
    if (index >= elements_) return;
    SamplePosition at;
    at.advance(index, sample_elements_);
    visitor_.element(index, at.sample);
  }

  T const *a_, *b_;
  std::int64_t elements_, sample_elements_;
  Visitor& visitor_;
};

}  // namespace sparge
