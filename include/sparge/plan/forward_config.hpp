#pragma once
/// The table of forward kernels as values, and the choice among them.

#include <cstddef>
#include <cstdint>

#include "sparge/core/device.hpp"
#include "sparge/core/element.hpp"
#include "sparge/core/problem.hpp"
#include "sparge/plan/built.hpp"
#include "sparge/plan/schedule.hpp"

namespace sparge {

enum class Arch : std::int32_t {
  sm80,   ///< cp.async and mma.sync: capability 8.0 and every later one
  sm90a,  ///< TMA and wgmma: capability 9.0 alone
};

/// One row of forward_table.inc.
struct ForwardConfig {
  Arch arch;
  ElementType dtype;
  std::int32_t head_dim;
  std::int32_t q_tile, kv_tile;  ///< tokens that a thread block computes at a time
  std::int32_t stages;           ///< tiles in flight: of K and of V each (sm80), of K and V together (sm90a)
  std::int32_t warps;
  std::int32_t ctas_per_sm;  ///< thread blocks that must fit on an SM for the row to be worth choosing

  constexpr std::int32_t threads() const { return 32 * warps; }

  /// sm80: Q tile, then `stages` K tiles, then `stages` V tiles. sm90a, for each team: two Q tiles, `stages` tiles of K
  /// and V, barriers; then what the warps that order the tiles share.
  constexpr std::int64_t smem_bytes() const {
    if (arch == Arch::sm80) return 2 * std::int64_t{head_dim} * (q_tile + 2 * stages * kv_tile);
    return teams() * (2 * std::int64_t{head_dim} * (2 * q_tile + stages * kv_tile) + barrier_bytes) +
           order_bytes();
  }

  static constexpr std::int32_t barrier_bytes = 1024;
  /// sm90a: beside what barriers leave.
  constexpr std::int32_t order_bytes() const { return teams() == 1 ? 1024 : 512; }
  /// sm90a: one in so many tiles may start before the order is known. Beside two teams two warps with few registers make it, and a tile takes less time.
  constexpr std::int32_t first_share() const { return teams() == 1 ? 8 : 3; }

  /// sm90a: the first warpgroup loads. Each team of consumers is one warp for 16 rows of a query tile.
  constexpr std::int32_t teams() const { return (warps - 4) / (q_tile / 16); }
  /// What is left of 64 K registers an SM, in steps of 8 a thread, when the loading warpgroup keeps what its warps need without spills.
  constexpr std::int32_t producer_registers() const { return threads() * ctas_per_sm > 384 ? 32 : 72; }
  constexpr std::int32_t consumer_registers() const {
    std::int32_t const launch_registers = 65536 / (threads() * ctas_per_sm) / 8 * 8;
    return (launch_registers * threads() - producer_registers() * 128) / (threads() - 128) / 8 * 8;
  }

  /// sm90a: the query tiles of a problem, whose mask rows have so many blocks, and who computes them.
  constexpr ScheduleShape schedule_shape(std::int64_t tiles, std::int64_t kv_blocks,
                                         Device const& device) const {
    if (arch == Arch::sm80) return {};
    return {tiles, kv_blocks, resident_blocks(device) * teams()};
  }

  /// Thread blocks of a launch over so many query tiles. sm90a blocks take tiles, and pieces of them, until there are none.
  constexpr std::int64_t blocks(std::int64_t tiles, std::int64_t kv_blocks, Device const& device) const {
    if (arch == Arch::sm80) return tiles;
    std::int64_t const items = tiles + ScheduleBounds::pieces(schedule_shape(tiles, kv_blocks, device)),
                       needed = ceil_div(items, teams()), resident = resident_blocks(device);
    return needed < resident ? needed : resident;
  }

  constexpr std::int64_t resident_blocks(Device const& device) const {
    return (device.sm_count > 0 ? std::int64_t{device.sm_count} : 1) * ctas_per_sm;
  }

  /// sm90a: f32 values that a piece of a tile leaves: O, then a RowWeight a row.
  static constexpr std::int32_t slot_floats(std::int32_t q_tile, std::int32_t head_dim) {
    return q_tile * (head_dim + 2);
  }

  constexpr bool serves(ElementType type, AttentionProblem const& p) const {
    return dtype == type && head_dim == p.head_dim && serves_blocks(p.q_block, p.kv_block);
  }

  /// A tile lies inside one mask block, so any whole number of tiles a block will do; 128 is the largest block tested.
  /// sm90a tiles are one query block by one or two key blocks, of any place in the row.
  constexpr bool serves_blocks(std::int32_t q_block, std::int32_t kv_block) const {
    if (arch == Arch::sm90a) return q_block == 128 && kv_block == 64;
    return (q_block == 64 || q_block == 128) && (kv_block == 64 || kv_block == 128) &&
           q_block % q_tile == 0 && kv_block % kv_tile == 0;
  }

  constexpr bool runs_on(Device const& device) const {
    return is_for(device) && smem_bytes() <= device.shared_bytes_per_block;
  }

  constexpr bool is_for(Device const& device) const {
    return arch == Arch::sm80 ? device.capability() >= 80 : device.capability() == 90;
  }

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

/// Whether code that is generated for these targets includes kernels of that architecture: wgmma exists in code for 9.0a alone.
template <std::size_t count>
constexpr bool has_kernels_of(Arch arch, built::Target const (&targets)[count]) {
  if (arch == Arch::sm80) return true;
  for (built::Target const& target : targets)
    if (target.exact && target.capability == 90) return true;
  return false;
}

constexpr bool is_built(std::int32_t row) {
  return (built::forward_rows >> row & 1) && has_kernels_of(forward_table[row].arch, built::targets);
}

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
