#pragma once
/// The table of backward kernels as values, the choice among them, and how the scratch of a backward call is laid out.

#include <cstdint>

#include "sparge/core/carver.hpp"
#include "sparge/core/checked.hpp"
#include "sparge/plan/forward_config.hpp"
#include "sparge/plan/schedule.hpp"

namespace sparge {

/// Which gradients a kernel computes. Each element of each is written by one thread block, so none needs an atomic.
enum class BackwardPass : std::int32_t {
  dkdv,  ///< of K and V: a thread block owns a key tile and visits the query tiles that keep it
  dq,    ///< of Q: a thread block owns a query tile and visits the key tiles that it keeps
};

/// One row of backward_table.inc.
struct BackwardConfig {
  BackwardPass pass;
  Arch arch;
  ElementType dtype;
  std::int32_t head_dim;
  std::int32_t q_tile, kv_tile;  ///< tokens that a thread block computes at a time
  std::int32_t stages;           ///< visited tiles in shared memory: those in work and those in flight
  std::int32_t warps;
  std::int32_t ctas_per_sm;  ///< thread blocks that must fit on an SM for the row to be worth choosing

  constexpr std::int32_t threads() const { return 32 * warps; }
  constexpr std::int64_t row_bytes() const { return 2 * std::int64_t{head_dim}; }

  /// dkdv: K and V tiles, P^T and dS^T, then `stages` of Q and dO tiles, then `stages` of lse and delta.
  /// dq: Q and dO tiles, then `stages` of K and V tiles.
  /// sm90a: see sm90a_smem_bytes().
  constexpr std::int64_t smem_bytes() const {
    if (arch == Arch::sm90a) return sm90a_smem_bytes();
    std::int64_t const q_and_grad_out = 2 * q_tile * row_bytes(), k_and_v = 2 * kv_tile * row_bytes();
    if (pass == BackwardPass::dq) return q_and_grad_out + stages * k_and_v;
    std::int64_t const p_and_ds = 2 * kv_tile * 2 * q_tile, lse_and_delta = 2 * q_tile * 4;
    return k_and_v + p_and_ds + stages * (q_and_grad_out + lse_and_delta);
  }

  /// sm90a: the first warpgroup loads, and two compute: as one team, of dkdv one dV and one dK of the same keys, of dq half of
  /// the query rows each; or, for dkdv at head_dim 64, as two teams, each with both gradients of keys of its own.
  constexpr std::int32_t teams() const { return pass == BackwardPass::dkdv && head_dim == 64 ? 2 : 1; }

  /// sm90a: what the loading warpgroup keeps of its registers, and what each computing one then has.
  static constexpr std::int32_t producer_registers() { return 40; }
  static constexpr std::int32_t consumer_registers() { return 232; }

  /// sm90a: P that goes from one warpgroup to another is rounded before dS is made of it. In f16 it is carried times 2^15, so that
  /// what is small beside P <= 1 is not subnormal; bf16 has the range of f32.
  constexpr std::int32_t weight_exponent() const {
    bool const hands_over = arch == Arch::sm90a && pass == BackwardPass::dkdv && teams() == 1;
    return hands_over && dtype == ElementType::f16 ? 15 : 0;
  }
  constexpr float weight_unit() const { return 1.f / static_cast<float>(1 << weight_exponent()); }

  /// What the pass writes, in tiles, over all heads.
  constexpr std::int64_t count_tiles(AttentionProblem const& p) const {
    if (pass == BackwardPass::dkdv) return p.batch * p.kv_heads * ceil_div(p.kv_tokens, kv_tile);
    return p.batch * p.heads * ceil_div(p.q_tokens, q_tile);
  }

  /// sm90a: these tiles; what a line of the mask has, a column over all heads of a group; and who computes them.
  constexpr ScheduleShape schedule_shape(AttentionProblem const& p, Device const& device) const {
    if (arch == Arch::sm80) return {};
    std::int64_t const line =
        pass == BackwardPass::dkdv ? p.heads / p.kv_heads * p.q_blocks() : p.kv_blocks();
    return {count_tiles(p), line, resident_blocks(device) * teams()};
  }

  /// Thread blocks of a launch. sm90a blocks take tiles, and pieces of them, until there are none.
  constexpr std::int64_t blocks(AttentionProblem const& p, Device const& device) const {
    if (arch == Arch::sm80) return count_tiles(p);
    std::int64_t const items = count_tiles(p) + ScheduleBounds::pieces(schedule_shape(p, device)),
                       needed = ceil_div(items, teams()), resident = resident_blocks(device);
    return needed < resident ? needed : resident;
  }

  constexpr std::int64_t resident_blocks(Device const& device) const {
    return (device.sm_count > 0 ? std::int64_t{device.sm_count} : 1) * ctas_per_sm;
  }

  /// sm90a: f32 values that a piece of a tile leaves: 128 rows of dQ, or 64 of dK, then 64 of dV.
  static constexpr std::int32_t slot_rows = 128;
  constexpr std::int32_t slot_floats() const { return slot_rows * head_dim; }

  constexpr bool serves(ElementType type, AttentionProblem const& p) const {
    return dtype == type && head_dim == p.head_dim && serves_blocks(p.q_block, p.kv_block);
  }

  /// A tile lies inside one mask block, so any whole number of tiles a block will do; 128 is the largest block tested.
  /// sm90a tiles are one query block by one key block, or by two of any place in the row.
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

  /// sm90a: of the barriers and notes of a team.
  constexpr std::int32_t barrier_bytes() const { return teams() == 2 ? 1024 : 512; }

private:
  /// dq: Q, dO and a staging tile for dQ, `stages` of K and of V, lse and delta. dkdv: `stages` of Q with lse, one fewer of dO
  /// with delta, P^T twice, K and V; in two teams for each `stages` of both, and two of K and V. Then barriers and notes.
  constexpr std::int64_t sm90a_smem_bytes() const {
    std::int64_t const q_bytes = q_tile * row_bytes(), kv_bytes = kv_tile * row_bytes(), values = q_tile * 4;
    if (pass == BackwardPass::dq) return 3 * q_bytes + 2 * stages * kv_bytes + 2 * values + barrier_bytes();
    if (teams() == 2) return teams() * (2 * stages * (q_bytes + values) + 4 * kv_bytes + barrier_bytes());
    return (2 * stages - 1) * (q_bytes + values) + 2 * (2 * kv_tile * q_tile) + 2 * kv_bytes +
           barrier_bytes();
  }
};

// clang-format off
inline constexpr BackwardConfig backward_table[] = {
#define ROW(pass, arch, dtype, head_dim, q_tile, kv_tile, stages, warps, ctas) \
  {BackwardPass::pass, Arch::arch, ElementType::dtype, head_dim, q_tile, kv_tile, stages, warps, ctas},
#include "sparge/plan/backward_table.inc"
#undef ROW
};

inline constexpr char const* backward_names[] = {
#define ROW(pass, arch, dtype, head_dim, q_tile, kv_tile, stages, warps, ctas) \
  #pass " " #arch " " #dtype " d" #head_dim " tile " #q_tile "x" #kv_tile " stages " #stages " warps " #warps,
#include "sparge/plan/backward_table.inc"
#undef ROW
};
// clang-format on

inline constexpr std::int32_t backward_rows = sizeof(backward_table) / sizeof(backward_table[0]);

constexpr bool is_backward_built(std::int32_t row) {
  return (built::backward_rows >> row & 1) && has_kernels_of(backward_table[row].arch, built::targets);
}

/// The first built row of a pass that serves the problem and fits the device, or -1.
constexpr std::int32_t choose_backward(BackwardPass pass, ElementType type, AttentionProblem const& p,
                                       Device const& device) {
  for (std::int32_t row = 0; row < backward_rows; ++row)
    if (backward_table[row].pass == pass && is_backward_built(row) && backward_table[row].serves(type, p) &&
        backward_table[row].fits(device))
      return row;
  return -1;
}

/// Scratch of backward. Rows of queries are padded to whole tiles of every kernel, so that no kernel tests for their end:
/// a padding row has lse = +inf, hence P = 0.
struct BackwardScratch {
  static constexpr std::int32_t row_tile = 128;  ///< a multiple of every q_tile

  static constexpr std::int32_t passes = 2;

  float* delta = nullptr;           ///< [batch, heads, padded q_tokens]: rowsum(dO * O) - dLSE
  float* lse = nullptr;             ///< likewise; +inf for rows that keep no key
  Schedule schedules[passes] = {};  ///< of each pass, for sm90a. Both leave their pieces in the same slots

  static constexpr std::int64_t padded_rows(AttentionProblem const& p) {
    return ceil_div(p.q_tokens, row_tile) * row_tile;
  }

  /// batch * heads * 8 bytes a padded query row, each of the two pieces rounded up to 256 bytes, and the order of work.
  static BackwardScratch lay_out(Carver& carver, AttentionProblem const& p, BackwardConfig const& dkdv,
                                 BackwardConfig const& dq, Device const& device) {
    BackwardScratch scratch;
    std::int64_t const heads = p.batch * p.heads;
    scratch.delta = carver.take<float>(heads * padded_rows(p));
    scratch.lse = carver.take<float>(heads * padded_rows(p));
    std::int64_t slots = 0;
    BackwardConfig const* const configs[] = {&dkdv, &dq};
    for (BackwardConfig const* config : configs) {
      ScheduleShape const shape = config->schedule_shape(p, device);
      scratch.of(config->pass) = Schedule::lay_out(carver, shape, 0);
      std::int64_t const pieces = ScheduleBounds::pieces(shape);
      if (pieces > slots) slots = pieces;
    }
    float* const partials = carver.take<float>(slots * dkdv.slot_floats());
    for (Schedule& schedule : scratch.schedules) schedule.partials = partials;
    return scratch;
  }

  Schedule& of(BackwardPass pass) { return schedules[static_cast<int>(pass)]; }
  Schedule const& of(BackwardPass pass) const { return schedules[static_cast<int>(pass)]; }
};

constexpr bool tiles_divide_padded_rows() {
  for (BackwardConfig const& config : backward_table)
    if (BackwardScratch::row_tile % config.q_tile != 0) return false;
  return true;
}
static_assert(tiles_divide_padded_rows());

}  // namespace sparge
