#pragma once
/// How the search for top_p is laid out: the grid of candidates, its digits, the scratch.

#include <algorithm>
#include <cstdint>

#include "sparge/core/calibration.hpp"
#include "sparge/core/carver.hpp"
#include "sparge/core/checked.hpp"
#include "sparge/core/device.hpp"
#include "sparge/core/problem.hpp"
#include "sparge/plan/mask_config.hpp"

namespace sparge {

/// Candidates are the multiples of 2^-24 in [0, 1]: exact in f32, and finer than scores can tell (docs/math.md). They are searched
/// by a digit of 8 bits a pass.
inline constexpr std::int32_t top_p_bits = 24, top_p_digit_bits = 8;
inline constexpr std::int64_t top_p_steps = std::int64_t{1} << top_p_bits;
inline constexpr std::int32_t top_p_digits = 1 << top_p_digit_bits;

/// What heads with a common top_p keep. Zero before the first pass.
struct CalibrationGroup {
  std::uint64_t histogram[top_p_digits];  ///< what each digit adds to what is kept
  std::uint64_t below;                    ///< what is kept at `found`
  std::uint32_t found;  ///< in steps of top_p: the most that is known to stay within the limit
  std::int32_t met;
};

/// Sums over the rows of one head; masses in units of CalibrateLayout::mass_bits. Zero before the pass that counts.
struct CalibrationTally {
  std::uint64_t kept, top_k, top_p;
  std::uint64_t kept_mass, top_k_mass, top_p_mass;
};

struct CalibrateLayout {
  /// Rows of up to so many blocks are sorted by few threads, so that many rows are in work.
  static constexpr std::int64_t most_short_blocks = 2048;
  /// Threads of the sorting kernels. The wide one is for rows that need more shared memory than every device has: a million tokens.
  static constexpr std::int32_t short_threads = 256, long_threads = 384, wide_threads = 640;
  static constexpr std::int64_t most_shared_bytes = RowLayout::most_shared_bytes,
                                most_wide_bytes = 128 * 1024;
  /// Static shared memory of the sorting kernels, at most.
  static constexpr std::int64_t static_bytes = 2048;

  RowLayout rows;
  std::int64_t groups = 0, group_rows = 0;  ///< of heads with a common top_p, and mask rows of each
  std::int64_t shared_bytes = 0;            ///< of a sorted row; 0 where rows are sorted in scratch
  std::int32_t threads = 0;                 ///< that sort a row
  std::int32_t mass_bits = 0;  ///< the mass of a row is 2^mass_bits, so that sums over a group fit 64 bits

  static constexpr CalibrateLayout of(AttentionProblem const& p, Device const& device,
                                      CalibrationScope scope) {
    CalibrateLayout layout;
    bool const is_common = scope == CalibrationScope::all_heads;
    layout.rows = RowLayout::of(p, device);
    layout.groups = is_common ? 1 : p.heads;
    layout.group_rows = p.batch * p.q_blocks() * (is_common ? p.heads : 1);
    std::int64_t const bytes = p.kv_blocks() * std::int64_t{sizeof(std::uint64_t)};
    bool const fits = bytes <= most_wide_bytes && bytes + static_bytes <= device.shared_bytes_per_block;
    layout.shared_bytes = fits ? bytes : 0;
    layout.threads = p.kv_blocks() <= most_short_blocks        ? short_threads
                     : layout.shared_bytes > most_shared_bytes ? wide_threads
                                                               : long_threads;
    layout.mass_bits = 40;
    while (layout.group_rows > std::int64_t{1} << (62 - layout.mass_bits)) --layout.mass_bits;
    return layout;
  }

  /// Sorted rows in scratch.
  constexpr std::int64_t order_pairs() const { return shared_bytes > 0 ? 0 : rows.chunk_pairs(); }
};

/// Scratch of calibrate: that of selection, sorted rows that do not fit shared memory, and what is counted. The same for every scope.
struct CalibrateScratch {
  SelectScratch select;
  std::uint64_t* order = nullptr;       ///< [chunk rows, pitch]
  CalibrationGroup* groups = nullptr;   ///< [heads], of which the layout's groups are used
  CalibrationTally* tallies = nullptr;  ///< [heads]

  static CalibrateScratch lay_out(Carver& carver, AttentionProblem const& p, CalibrateLayout const& layout) {
    CalibrateScratch scratch;
    scratch.select = SelectScratch::lay_out(carver, p, layout.rows, true);
    scratch.order = carver.take<std::uint64_t>(layout.order_pairs());
    scratch.groups = carver.take<CalibrationGroup>(p.heads);
    scratch.tallies = carver.take<CalibrationTally>(p.heads);
    return scratch;
  }
};

}  // namespace sparge
