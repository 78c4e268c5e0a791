#pragma once
/// How the kernels of velocity distillation cut their work, from the problem alone, and the checks of a problem.

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <type_traits>

#include "sparge/core/carver.hpp"
#include "sparge/core/checked.hpp"
#include "sparge/core/distillation_problem.hpp"
#include "sparge/core/element.hpp"
#include "sparge/plan/validate.hpp"

namespace sparge {

// ---- Work ----------------------------------------------------------------------------------------------------------

/// A thread block takes tiles of `tile_loads` 16-byte loads, every `blocks`-th one. The number of blocks must not depend on
/// the GPU: it decides the order of sums. 4096 fill the largest GPUs several times over.
namespace distillation {

inline constexpr std::int32_t threads = 256, loads_a_thread = 4, tile_loads = threads * loads_a_thread;
inline constexpr std::int64_t most_blocks = 4096;

/// Elements of T in a load.
template <class T>
inline constexpr std::int32_t load_elements = 16 / sizeof(T);

/// Thread blocks for a problem, 0 where there is nothing to do. What is left over by whole loads belongs to the first.
template <class T>
std::int64_t count_blocks(DistillationProblem const& p) {
  static_assert(std::is_same_v<T, bfloat16> || std::is_same_v<T, float16> || std::is_same_v<T, float>,
                "elements are bfloat16, float16 or float");
  std::int64_t const tiles = ceil_div(p.elements(), std::int64_t{tile_loads} * load_elements<T>);
  return std::min(tiles, most_blocks);
}

}  // namespace distillation

/// Workspace of the loss.
struct DistillationScratch {
  double* partial_sums;  ///< [blocks]

  static DistillationScratch lay_out(Carver& carver, std::int64_t blocks) {
    return {carver.take<double>(blocks)};
  }
  static std::size_t bytes(std::int64_t blocks) {
    Carver carver;
    lay_out(carver, blocks);
    return carver.bytes();
  }
};

// ---- Checks --------------------------------------------------------------------------------------------------------

inline Status validate_distillation_problem(DistillationProblem const& p) {
  if (p.samples < 0) return refuse("problem.samples", "must be at least 0", p.samples);
  if (p.sample_elements < 0)
    return refuse("problem.sample_elements", "must be at least 0", p.sample_elements);
  // A product with 0 would hide that the other does not fit.
  if (!checked_product({std::max<std::int64_t>(p.samples, 1), std::max<std::int64_t>(p.sample_elements, 1),
                        sizeof(float)}))
    return refuse("problem.samples", "samples * sample_elements does not fit 64 bits in bytes", p.samples);
  return {};
}

inline Status validate_distillation_inputs(DistillationProblem const& problem, Device const& device,
                                           PlanOptions const& options) {
  SPARGE_TRY(validate_distillation_problem(problem));
  SPARGE_TRY(validate_device(device));
  SPARGE_TRY(validate_options(options));
  return validate_no_choice(options);
}

/// Memory of an argument; null where it has no bytes.
struct NamedRange {
  char const* field;
  void const* data;
  std::int64_t bytes;

  NamedRange(char const* name, void const* first, std::int64_t size)
      : field(name), data(size == 0 ? nullptr : first), bytes(size) {}

  bool overlaps(NamedRange const& other) const {
    auto const first = reinterpret_cast<std::uintptr_t>(data);
    auto const others = reinterpret_cast<std::uintptr_t>(other.data);
    if (data == nullptr || other.data == nullptr) return false;
    return first <= others ? others - first < static_cast<std::uint64_t>(bytes)
                           : first - others < static_cast<std::uint64_t>(other.bytes);
  }
};

/// What a call writes may not overlap its other arguments, not even in part.
inline Status validate_ranges_apart(std::initializer_list<NamedRange> written,
                                    std::initializer_list<NamedRange> read) {
  for (NamedRange const& output : written)
    for (auto const& others : {written, read})
      for (NamedRange const& other : others)
        if (&other != &output && output.overlaps(other))
          return refuse(output.field, "must not overlap another argument");
  return {};
}

}  // namespace sparge
