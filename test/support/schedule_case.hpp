#pragma once
/// Lines of masks, and the order of work that follows from them, in plain loops.

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "sparge/plan/schedule_rule.hpp"
#include "support/host_tensor.hpp"
#include "support/random.hpp"

namespace sparge::test {

/// Of each tile, the blocks that it visits, ascending.
using Lines = std::vector<std::vector<std::int32_t>>;

/// Bit of the mask of a problem with one batch item after the other.
inline bool is_kept(AttentionProblem const& p, MaskWords const& mask, std::int64_t head, std::int64_t q_block,
                    std::int64_t kv_block) {
  return mask[static_cast<std::size_t>((head * p.q_blocks() + q_block) * p.row_words() + kv_block / 32)] >>
             (kv_block % 32) &
         1;
}

inline Lines rows_of(AttentionProblem const& p, MaskWords const& mask) {
  Lines lines;
  for (std::int64_t head = 0; head < p.batch * p.heads; ++head)
    for (std::int64_t i = 0; i < p.q_blocks(); ++i) {
      lines.emplace_back();
      for (std::int32_t j = 0; j < p.kv_blocks(); ++j)
        if (is_kept(p, mask, head, i, j)) lines.back().push_back(j);
    }
  return lines;
}

/// Columns over all heads of a group: block head_of_group * q_blocks + q_block.
inline Lines columns_of(AttentionProblem const& p, MaskWords const& mask) {
  Lines lines;
  std::int64_t const heads = p.heads / p.kv_heads;
  for (std::int64_t group = 0; group < p.batch * p.kv_heads; ++group)
    for (std::int64_t j = 0; j < p.kv_blocks(); ++j) {
      lines.emplace_back();
      for (std::int64_t at = 0; at < heads * p.q_blocks(); ++at)
        if (is_kept(p, mask, group * heads + at / p.q_blocks(), at % p.q_blocks(), j))
          lines.back().push_back(static_cast<std::int32_t>(at));
    }
  return lines;
}

inline ScheduleShape row_shape(AttentionProblem const& p, std::int64_t workers) {
  return {p.batch * p.heads * p.q_blocks(), p.kv_blocks(), workers};
}
inline ScheduleShape column_shape(AttentionProblem const& p, std::int64_t workers) {
  return {p.batch * p.kv_heads * p.kv_blocks(), p.heads / p.kv_heads * p.q_blocks(), workers};
}

inline std::uint64_t count_kept(Lines const& lines) {
  return std::accumulate(lines.begin(), lines.end(), std::uint64_t{0},
                         [](std::uint64_t sum, auto const& line) { return sum + line.size(); });
}

/// What the device must make of some lines.
struct OrderOfWork {
  std::vector<WorkItem> items, last;
  std::vector<SplitLine> splits;
  std::vector<bool> is_listed, is_started;  ///< never both
  std::uint32_t first_tile, tiles_end;      ///< of those between the items

  bool is_gap(std::size_t tile) const { return is_listed[tile] || is_started[tile]; }
  bool has_gaps() const {
    for (std::size_t tile = first_tile; tile < is_listed.size(); ++tile)
      if (is_gap(tile) && !goes_last(tile)) return true;
    return false;
  }
  bool goes_last(std::size_t tile) const {
    return std::any_of(last.begin(), last.end(), [&](WorkItem const& item) { return item.tile == tile; });
  }
  std::uint32_t all_end() const {
    return static_cast<std::uint32_t>(items.size() + last.size()) + tiles_end - first_tile;
  }
  /// As they lie in memory.
  std::vector<WorkItem> all_items() const {
    std::vector<WorkItem> all = items;
    all.insert(all.end(), last.begin(), last.end());
    return all;
  }
};

inline std::uint32_t length_of(std::vector<std::int32_t> const& line) {
  return static_cast<std::uint32_t>(line.size());
}

inline ScheduleRule rule_for(Lines const& lines, ScheduleShape const& shape) {
  std::uint64_t const kept = count_kept(lines);
  std::uint32_t const even = ScheduleRule::even_length(kept, shape);
  std::uint64_t excess = 0;
  for (auto const& line : lines) excess += ScheduleRule::excess_of(length_of(line), even);
  return {kept, excess, shape};
}

/// The tiles that workers start with before the order is known.
inline std::vector<bool> started_first(Lines const& lines, ScheduleShape const& shape) {
  std::uint64_t sampled = 0;
  for (std::int32_t i = 0; i < ScheduleRule::samples; ++i)
    sampled += lines[static_cast<std::size_t>(ScheduleRule::sample(i, shape.tiles))].size();
  std::vector<bool> started;
  for (auto const& line : lines)
    started.push_back(static_cast<std::int64_t>(started.size()) < ScheduleBounds::first_tiles(shape) &&
                      ScheduleRule::starts_first(length_of(line), sampled));
  return started;
}

/// Pieces in the order of tiles, then whole lines by class of length; and so what goes last.
inline OrderOfWork order_work(Lines const& lines, ScheduleShape const& shape, bool starts_first = false) {
  ScheduleRule const rule = rule_for(lines, shape);
  OrderOfWork order{{}, {}, {}, {}, std::vector<bool>(lines.size(), false), 0, 0};
  if (starts_first) order.is_started = started_first(lines, shape);
  auto const started = std::count(order.is_started.begin(), order.is_started.end(), true);
  if (started == ScheduleBounds::first_tiles(shape)) order.first_tile = static_cast<std::uint32_t>(started);
  order.tiles_end = std::max(order.first_tile, rule.last_from());
  std::vector<std::uint32_t> whole, last;
  for (std::uint32_t tile = 0; tile < lines.size(); ++tile) {
    std::uint32_t const count = length_of(lines[tile]);
    bool const is_left = !order.is_started[tile];
    bool const is_first = is_left && rule.lists(tile, count),
               is_last = is_left && !is_first && tile >= rule.last_from();
    order.is_listed.push_back(is_first || is_last);
    if (is_last) last.push_back(tile);
    if (is_first && !rule.splits(count)) whole.push_back(tile);
    if (!is_left || !rule.splits(count)) continue;
    std::int32_t const pieces = rule.pieces(count), slot = static_cast<std::int32_t>(order.items.size());
    order.splits.push_back({tile, slot, pieces});
    auto const border = [&](std::int32_t piece) {
      if (piece == 0) return 0;
      if (piece == pieces) return static_cast<std::int32_t>(shape.blocks);
      return lines[tile][ScheduleRule::kept_before(piece, count, pieces)];
    };
    for (std::int32_t piece = 0; piece < pieces; ++piece)
      order.items.push_back({tile, border(piece), border(piece + 1), slot + piece});
  }
  auto const list_sorted = [&](std::vector<std::uint32_t>& tiles, std::vector<WorkItem>& items,
                               auto class_of) {
    std::stable_sort(tiles.begin(), tiles.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return class_of(a) > class_of(b); });
    for (std::uint32_t tile : tiles) items.push_back({tile, 0, static_cast<std::int32_t>(shape.blocks), -1});
  };
  list_sorted(whole, order.items, [&](std::uint32_t tile) { return rule.class_of(length_of(lines[tile])); });
  list_sorted(last, order.last,
              [&](std::uint32_t tile) { return rule.class_of_last(length_of(lines[tile])); });
  return order;
}

/// To compare.
inline std::vector<std::int64_t> fields_of(std::vector<WorkItem> const& items) {
  std::vector<std::int64_t> fields;
  for (WorkItem const& item : items)
    fields.insert(fields.end(), {item.tile, item.first, item.end, item.slot});
  return fields;
}
inline std::vector<std::int64_t> fields_of(std::vector<SplitLine> const& splits) {
  std::vector<std::int64_t> fields;
  for (SplitLine const& line : splits) fields.insert(fields.end(), {line.tile, line.slot, line.pieces});
  return fields;
}

/// How uneven a mask is.
enum class Unevenness {
  dense_row,     ///< one row, all others empty
  dense_column,  ///< one column, all others empty
  dense_lines,   ///< every 17th row, two columns, and a few blocks elsewhere
  none_one_all,  ///< rows of no, one and all blocks in turn
  all_dense,
  even,
  empty,
};
inline constexpr Unevenness every_unevenness[] = {
    Unevenness::dense_row, Unevenness::dense_column, Unevenness::dense_lines, Unevenness::none_one_all,
    Unevenness::all_dense, Unevenness::even,         Unevenness::empty};

/// A mask of a kind. Its padding bits, which readers must not see, are all ones.
inline MaskWords make_uneven_mask(AttentionProblem const& p, Unevenness kind, std::uint64_t seed) {
  Random random(seed);
  MaskWords words = make_mask(p, [&](auto b, auto h, auto i, auto j) {
    bool const few = random.chance(0.04);
    std::int64_t const line = (b * p.heads + h) * p.q_blocks() + i;
    switch (kind) {
      case Unevenness::dense_row:
        return line == p.batch * p.heads * p.q_blocks() - 1;
      case Unevenness::dense_column:
        return j == p.kv_blocks() - 1 && h < p.heads / p.kv_heads;
      case Unevenness::dense_lines:
        return few || line % 17 == 3 || j == 1 || j == p.kv_blocks() - 1;
      case Unevenness::none_one_all:
        return line % 9 == 8 || (line % 9 < 4 && j == line % p.kv_blocks());
      case Unevenness::all_dense:
        return true;
      case Unevenness::even:
        return few;
      default:
        return false;
    }
  });
  if (!words.empty()) dirty_padding(p, words);
  return words;
}

}  // namespace sparge::test
