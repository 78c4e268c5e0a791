/// The order of uneven work as a rule of lengths: what is split, what goes first, and how much scratch that can take.

#include <cstdint>
#include <vector>

#include "sparge/plan/forward_config.hpp"
#include "support/catch.hpp"
#include "support/schedule_case.hpp"

using namespace sparge;
using namespace sparge::test;

namespace {

AttentionProblem const problems[] = {
    {1, 1, 1, 128 * 20, 64 * 200, 64}, {2, 6, 2, 128 * 9 + 5, 64 * 45 + 7, 64}, {1, 1, 1, 100, 60, 64},
    {1, 4, 4, 128 * 70, 64 * 40, 64},  {1, 8, 1, 128 * 30, 64 * 33, 64},        {1, 2, 2, 128, 64 * 1300, 64},
    {1, 3, 1, 128 * 3, 64 * 2100, 64},
};

void check_bounds(Lines const& lines, ScheduleShape const& shape, bool starts_first) {
  OrderOfWork const order = order_work(lines, shape, starts_first);
  std::int64_t pieces = 0;
  for (SplitLine const& line : order.splits) pieces += line.pieces;
  CHECK(static_cast<std::int64_t>(order.splits.size()) <= ScheduleBounds::splits(shape));
  CHECK(pieces <= ScheduleBounds::pieces(shape));
  CHECK(pieces <= 7 * shape.workers);
  CHECK(static_cast<std::int64_t>(order.items.size()) <= ScheduleBounds::items(shape));
}

/// Each kept block is visited by one item, by a worker's first tile, or by the tile that comes after the items.
void check_covers(Lines const& lines, ScheduleShape const& shape, bool starts_first) {
  OrderOfWork const order = order_work(lines, shape, starts_first);
  Lines visited(lines.size());
  for (std::size_t tile = 0; tile < lines.size(); ++tile)
    if (order.is_started[tile]) visited[tile] = lines[tile];
  for (WorkItem const& item : order.items)
    for (std::int32_t block : lines[item.tile])
      if (block >= item.first && block < item.end) visited[item.tile].push_back(block);
  // The queue's walk over places.
  auto const items = static_cast<std::uint32_t>(order.items.size());
  for (std::uint32_t place = items; place < order.all_end(); ++place) {
    std::uint32_t const tile = place - items + order.first_tile;
    if (order.has_gaps() && order.is_gap(tile)) continue;
    CHECK(visited[tile].empty());
    visited[tile] = lines[tile];
  }
  CHECK(visited == lines);
}

/// What starts last is short: nothing is left for the end that exceeds a 32nd of a worker's load, or 1.5 times the mean, and was not
/// listed, and no item exceeds a third of it, or twice the mean or 32 blocks where those are more.
void check_lengths(Lines const& lines, ScheduleShape const& shape, bool starts_first) {
  OrderOfWork const order = order_work(lines, shape, starts_first);
  auto const kept = static_cast<double>(count_kept(lines));
  double const load = kept / static_cast<double>(shape.workers),
               mean = kept / static_cast<double>(shape.tiles);
  for (WorkItem const& item : order.items) {
    std::int64_t length = 0;
    for (std::int32_t block : lines[item.tile]) length += block >= item.first && block < item.end;
    CHECK(static_cast<double>(length) <= std::max({load / 3, 2 * mean, 32.0}));
    if (item.slot >= 0) CHECK(length >= 8);
  }
  for (std::size_t tile = 0; tile < lines.size(); ++tile)
    if (!order.is_gap(tile))
      CHECK(static_cast<double>(lines[tile].size()) <= std::max(load / 32, 1.5 * mean));
}

}  // namespace

TEST_CASE("Every kept block is in one piece or one tile and no piece is long") {
  for (AttentionProblem const& p : problems)
    for (Unevenness kind : every_unevenness)
      for (std::int64_t workers : {1, 3, 16, 132, 264}) {
        MaskWords const mask = make_uneven_mask(p, kind, 7);
        CAPTURE(p.heads, p.q_tokens, p.kv_tokens, static_cast<int>(kind), workers);
        for (bool starts_first : {false, true}) {
          check_covers(rows_of(p, mask), row_shape(p, workers), starts_first);
          check_lengths(rows_of(p, mask), row_shape(p, workers), starts_first);
          check_bounds(rows_of(p, mask), row_shape(p, workers), starts_first);
        }
        check_covers(columns_of(p, mask), column_shape(p, workers), false);
        check_lengths(columns_of(p, mask), column_shape(p, workers), false);
        check_bounds(columns_of(p, mask), column_shape(p, workers), false);
      }
}

TEST_CASE("The worst lengths stay within the bounds") {
  Random random(3);
  for (std::int64_t workers : {1, 7, 132})
    for (int lines : {1, 2, 3, 50, 500, 5000}) {
      ScheduleShape const shape{lines, 700, workers};
      for (std::uint32_t most : {33u, 60u, 700u}) {
        // So many lines of the length that is split just so, beside short ones.
        for (int dense : {1, lines / 5, lines / 3, lines / 2, lines}) {
          std::vector<std::uint32_t> lengths;
          std::uint64_t kept = 0;
          for (int i = 0; i < lines; ++i) kept += lengths.emplace_back(i < dense ? most : random.below(3));
          std::uint32_t const even = ScheduleRule::even_length(kept, shape);
          std::uint64_t excess = 0;
          for (std::uint32_t length : lengths) excess += ScheduleRule::excess_of(length, even);
          ScheduleRule const rule(kept, excess, shape);
          std::int64_t splits = 0, pieces = 0, listed = 0;
          for (std::uint32_t length : lengths) {
            if (rule.splits(length)) ++splits, pieces += rule.pieces(length);
            listed += rule.lists(length);
            CHECK((!rule.splits(length) || (rule.lists(length) && rule.pieces(length) >= 2)));
          }
          CAPTURE(workers, lines, most, dense);
          CHECK(splits <= ScheduleBounds::splits(shape));
          CHECK(pieces <= ScheduleBounds::pieces(shape));
          CHECK(listed - splits + pieces <= ScheduleBounds::items(shape));
        }
      }
    }
}

TEST_CASE("Even rows are not split and keep their order") {
  for (AttentionProblem const& p : problems) {
    MaskWords const mask = make_uneven_mask(p, Unevenness::all_dense, 1);
    OrderOfWork const order = order_work(rows_of(p, mask), row_shape(p, 132));
    CHECK(order.splits.empty());
    CHECK(order.items.empty());
    OrderOfWork const early = order_work(rows_of(p, mask), row_shape(p, 132), true);
    CHECK(early.first_tile == std::min(row_shape(p, 132).tiles, std::int64_t{132}));
    CHECK_FALSE(early.has_gaps());
  }
  // 40 heads of 32,768 tokens at 26 blocks a row: nothing is listed.
  ScheduleShape const shape{10240, 512, 132};
  ScheduleRule const rule(std::uint64_t{10240} * 26, 0, shape);
  CHECK_FALSE(rule.lists_all());
  CHECK_FALSE(rule.lists(26));
  CHECK(rule.lists(512));
  CHECK_FALSE(rule.splits(512));
}

TEST_CASE("A dense row of a small grid is split and rows up to a fifth are not") {
  // 4 heads of 32,768 tokens: 132 workers have 7.8 rows each.
  ScheduleShape const shape{1024, 512, 132};
  ScheduleRule const dense(std::uint64_t{1024} * 26 + 16 * 512, std::uint64_t{16} * 470, shape);
  CHECK(dense.lists_all());
  CHECK(dense.splits(512));
  CHECK(dense.pieces(512) >= 5);
  CHECK_FALSE(dense.splits(60));
  ScheduleRule const uneven(std::uint64_t{1024} * 56, std::uint64_t{1024} * 5,
                            shape);  // 2 to 20 %: 10 to 102 blocks
  CHECK_FALSE(uneven.splits(102));
}

TEST_CASE("Classes of length ascend by at most a half and nearly equal lines are in one") {
  for (std::uint32_t mean : {1u, 37u, 48u, 300u, 4000u}) {
    ScheduleShape const shape{3000, 100000, 132};
    ScheduleRule const rule(std::uint64_t{3000} * mean, 0, shape);
    std::int32_t before = 0;
    std::uint32_t first_of_class = 0;
    for (std::uint32_t count = 0; count < 100000; ++count) {
      std::int32_t const now = rule.class_of(count);
      bool const ascends = now >= before;
      if (now != before) first_of_class = count;
      bool const is_near = 2 * count < 3 * first_of_class + 3 || 7 * count < mean;
      if (ascends && is_near) {
        before = now;
        continue;
      }
      CAPTURE(mean, count, first_of_class);
      CHECK(ascends);
      CHECK(is_near);
      before = now;
    }
    CHECK(rule.class_of(0xffffffffu) < ScheduleRule::classes);
    CHECK(rule.class_of(mean - mean / 6) == rule.class_of(mean + mean / 6));
  }
  // One line holds all of very many.
  ScheduleRule const rule(0xffffffffu, 0, {0xffffffffll, 0xffffffffll, 1});
  CHECK(rule.class_of(0xffffffffu) == ScheduleRule::classes - 1);
  CHECK(ScheduleRule(0, 0, {100, 100, 132}).class_of(0) == 0);
}

TEST_CASE("A grid of even rows lists outliers alone") {
  ScheduleShape const shape{3072, 512, 132};  // 12 heads of 32,768 tokens
  ScheduleRule const even(std::uint64_t{3072} * 37 + 1536, 0, shape);
  CHECK_FALSE(even.lists_all());
  CHECK_FALSE(even.lists(38));
  CHECK(even.lists(60));
  CHECK(even.class_of(37) == even.class_of(38));
  ScheduleRule const uneven(std::uint64_t{3072} * 37, std::uint64_t{48} * 466, shape);
  CHECK(uneven.lists_all());
}

TEST_CASE("Workers start with lines that are not long and with no others") {
  Lines lines(1000, std::vector<std::int32_t>(40));
  lines[3].resize(60);
  lines[4].resize(61);
  lines[5].clear();
  std::vector<bool> const started = started_first(lines, {1000, 512, 132});
  CHECK(started[3]);
  CHECK_FALSE(started[4]);
  CHECK(started[5]);
  CHECK(started[131]);
  CHECK_FALSE(started[132]);
  OrderOfWork const order = order_work(lines, {1000, 512, 132}, true);
  CHECK(order.first_tile == 0);  // one worker waits, so bits tell what to pass over
  CHECK(order.has_gaps());
}

TEST_CASE("Scratch of uneven rows depends on shapes alone and small problems take little") {
  CHECK(ScheduleBounds::pieces({1024, 32, 132}) == 0);  // rows of 32 blocks are never split
  CHECK(ScheduleBounds::pieces({1, 512, 132}) == 0);    // nor is a single row
  CHECK(ScheduleBounds::pieces({2, 512, 132}) == 0);    // nor one of two: it cannot exceed twice the mean
  CHECK(ScheduleBounds::pieces({3, 512, 132}) == 32);
  CHECK(ScheduleBounds::pieces({10240, 512, 132}) == 924);
  CHECK(ScheduleBounds::items({10240, 512, 132}) == 32 * 132 + 924);
  Carver carver;
  Schedule::lay_out(carver, {10240, 512, 132}, ForwardConfig::slot_floats(128, 128));
  CHECK(carver.bytes() < std::size_t{62} << 20);
}
