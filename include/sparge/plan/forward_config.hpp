#pragma once
/// The table of forward kernels as values, and the choice among them.

#include <cstdint>

#include "sparge/core/device.hpp"
#include "sparge/core/element.hpp"
#include "sparge/core/problem.hpp"
#include "sparge/plan/built.hpp"

namespace sparge {

enum class Arch : std::int32_t {
  sm80,  ///< cp.async and mma.sync: capability 8.0 and every later one
};

/// One row of forward_table.inc.
struct ForwardConfig {
  Arch arch;
  ElementType dtype;
  std::int32_t head_dim;
  std::int32_t q_tile, kv_tile;  ///< tokens that a thread block computes at a time
  std::int32_t stages;           ///< K and V tiles in flight, each
  std::int32_t warps;
  std::int32_t ctas_per_sm;  ///< thread blocks that must fit on an SM for the row to be worth choosing

  constexpr std::int32_t threads() const { return 32 * warps; }

  /// Q tile, then `stages` K tiles, then `stages` V tiles.
  constexpr std::int64_t smem_bytes() const {
    return 2 * std::int64_t{head_dim} * (q_tile + 2 * stages * kv_tile);
  }

  constexpr bool serves(ElementType type, AttentionProblem const& p) const {
    return dtype == type && head_dim == p.head_dim && serves_blocks(p.q_block, p.kv_block);
  }

  /// A tile lies inside one mask block, so any whole number of tiles a block will do; 128 is the largest block tested.
  constexpr bool serves_blocks(std::int32_t q_block, std::int32_t kv_block) const {
    return (q_block == 64 || q_block == 128) && (kv_block == 64 || kv_block == 128) &&
           q_block % q_tile == 0 && kv_block % kv_tile == 0;
  }

  constexpr bool runs_on(Device const& device) const { return smem_bytes() <= device.shared_bytes_per_block; }

  /// Whether as many thread blocks fit an SM as the row is made for. Each takes 1 KB of shared memory for the system.
  constexpr bool fits(Device const& device) const {
    return runs_on(device) && ctas_per_sm * (smem_bytes() + 1024) <= device.shared_bytes_per_sm;
  }
};

// clang-format off
inline constexpr ForwardConfig forward_table[] = {
#define ROW(arch, dtype, head_dim, q_tile, kv_tile, stages, warps, ctas) \
  {Arch::arch, ElementType::dtype, head_dim, q_tile, kv_tile, stages, warps, ctas},
#include "sparge/plan/forward_table.inc"
#undef ROW
};

/// Names apart from the rows: a row is a template argument, and a string literal cannot be part of one.
inline constexpr char const* forward_names[] = {
#define ROW(arch, dtype, head_dim, q_tile, kv_tile, stages, warps, ctas) \
  #arch " " #dtype " d" #head_dim " tile " #q_tile "x" #kv_tile " stages " #stages " warps " #warps,
#include "sparge/plan/forward_table.inc"
#undef ROW
};
// clang-format on

inline constexpr std::int32_t forward_rows = sizeof(forward_table) / sizeof(forward_table[0]);

constexpr bool is_built(std::int32_t row) { return built::forward_rows >> row & 1; }

/// Whether a device runs code that was generated for a target.
constexpr bool runs_code_of(built::Target const& target, Device const& device) {
  if (target.exact) return target.capability == device.capability();
  bool const same_major = target.capability / 10 == device.capability_major;
  return target.capability <= device.capability() && (target.ptx || same_major);
}

/// Whether this build has code that the device can run.
constexpr bool has_code_for(Device const& device) {
  for (built::Target const& target : built::targets)
    if (runs_code_of(target, device)) return true;
  return false;
}

/// The first built row that serves the problem and fits the device, or -1.
constexpr std::int32_t choose_forward(ElementType type, AttentionProblem const& p, Device const& device) {
  for (std::int32_t row = 0; row < forward_rows; ++row)
    if (is_built(row) && forward_table[row].serves(type, p) && forward_table[row].fits(device)) return row;
  return -1;
}

}  // namespace sparge
