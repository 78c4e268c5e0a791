/// The order of uneven work as a rule of lengths: what is split, what goes first, and how much scratch that can take.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <numeric>
#include <queue>
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
  CHECK(static_cast<std::int64_t>(order.all_items().size()) <= ScheduleBounds::items(shape));
}

/// What the queue hands out, in its order. A tile that is not an item is all of its line.
std::vector<WorkItem> handed_out(OrderOfWork const& order, ScheduleShape const& shape) {
  auto const items = static_cast<std::uint32_t>(order.items.size());
  bool const has_gaps = order.has_gaps();
  std::vector<WorkItem> const all = order.all_items();
  std::vector<WorkItem> out = order.items;
  for (std::uint32_t place = items; place < order.all_end(); ++place) {
    std::uint32_t const tile = place - items + order.first_tile;
    if (tile >= order.tiles_end)
      out.push_back(all[items + tile - order.tiles_end]);
    else if (!has_gaps || !order.is_gap(tile))
      out.push_back({tile, 0, static_cast<std::int32_t>(shape.blocks), -1});
  }
  return out;
}

/// Each kept block is visited once, and an empty line is handed out once too.
void check_covers(Lines const& lines, ScheduleShape const& shape, bool starts_first) {
  OrderOfWork const order = order_work(lines, shape, starts_first);
  Lines visited(lines.size());
  for (std::size_t tile = 0; tile < lines.size(); ++tile)
    if (order.is_started[tile]) visited[tile] = lines[tile];
  std::vector<bool> is_out = order.is_started;
  for (WorkItem const& item : handed_out(order, shape)) {
    bool const is_new = !is_out[item.tile];
    if (item.first == 0) CHECK(is_new);
    is_out[item.tile] = true;
    for (std::int32_t block : lines[item.tile])
      if (block >= item.first && block < item.end) visited[item.tile].push_back(block);
  }
  CHECK(visited == lines);
  CHECK(std::count(is_out.begin(), is_out.end(), false) == 0);
}

/// Where lines are uneven something goes last: of the tiles at the end all that do not go first, long before short, head-major within a
/// class. In a small grid these are all tiles.
void check_last(Lines const& lines, ScheduleShape const& shape, bool starts_first) {
  OrderOfWork const order = order_work(lines, shape, starts_first);
  ScheduleRule const rule = rule_for(lines, shape);
  auto const tiles = static_cast<std::uint32_t>(shape.tiles);
  if (rule.last_from() == tiles) {
    CHECK(order.last.empty());
    return;
  }
  if (shape.tiles <= ScheduleBounds::all_sorted_a_worker * shape.workers)
    CHECK(rule.last_from() == 0);
  else
    CHECK(tiles - rule.last_from() == ScheduleBounds::last_a_worker * shape.workers);
  std::size_t left = 0;
  for (std::uint32_t tile = rule.last_from(); tile < tiles; ++tile)
    left += !order.is_started[tile] && !rule.lists(tile, length_of(lines[tile]));
  CHECK(order.last.size() == left);
  for (std::size_t i = 0; i < order.last.size(); ++i) {
    WorkItem const& item = order.last[i];
    CHECK(item.tile >= rule.last_from());
    CHECK(item.slot == -1);
    if (i == 0) continue;
    std::uint32_t const before = order.last[i - 1].tile;
    int const here = rule.class_of_last(length_of(lines[item.tile])),
              there = rule.class_of_last(length_of(lines[before]));
    CHECK((here < there || (here == there && before < item.tile)));
  }
}

/// The share of the perfect balance that the longest worker takes where each line takes its blocks and 2.5 more.
double share_of_balance(Lines const& lines, ScheduleShape const& shape) {
  OrderOfWork const order = order_work(lines, shape, true);
  std::priority_queue<double, std::vector<double>, std::greater<double>> ends;
  double sum = 0, longest = 0;
  auto const take = [&](std::int64_t blocks) {
    double const time = static_cast<double>(blocks) + 2.5;
    sum += time;
    return time;
  };
  for (std::size_t worker = 0; worker < static_cast<std::size_t>(shape.workers); ++worker) {
    double from = 0;
    for (std::size_t tile = worker; tile < lines.size(); tile += static_cast<std::size_t>(shape.workers))
      if (order.is_started[tile]) from += take(length_of(lines[tile]));
    ends.push(from);
  }
  for (WorkItem const& item : handed_out(order, shape)) {
    double const from = ends.top();
    ends.pop();
    std::int64_t length = 0;
    for (std::int32_t block : lines[item.tile]) length += block >= item.first && block < item.end;
    ends.push(from + take(length));
    longest = std::max(longest, from + static_cast<double>(length) + 2.5);
  }
  return longest * static_cast<double>(shape.workers) / sum;
}

/// `blocks` of them, from the first on.
Lines lines_of(std::vector<std::uint32_t> const& lengths) {
  Lines lines;
  for (std::uint32_t length : lengths) {
    lines.emplace_back(length);
    std::iota(lines.back().begin(), lines.back().end(), 0);
  }
  return lines;
}

/// What starts last is short: nothing follows in the order of tiles that exceeds 2/5 of the load that follows it, or 1.5 times the mean, or
/// where lines are uneven twice, and no item exceeds a third of the load, or twice the mean or 32 blocks where those are more.
void check_lengths(Lines const& lines, ScheduleShape const& shape, bool starts_first) {
  OrderOfWork const order = order_work(lines, shape, starts_first);
  auto const kept = static_cast<double>(count_kept(lines));
  double const load = kept / static_cast<double>(shape.workers),
               mean = kept / static_cast<double>(shape.tiles);
  bool const are_uneven = rule_for(lines, shape).last_from() != shape.tiles;
  for (WorkItem const& item : order.items) {
    std::int64_t length = 0;
    for (std::int32_t block : lines[item.tile]) length += block >= item.first && block < item.end;
    CHECK(static_cast<double>(length) <= std::max({load / 3, 2 * mean, 32.0}));
    if (item.slot >= 0) CHECK(length >= 8);
  }
  for (std::size_t tile = 0; tile < lines.size(); ++tile) {
    double const following =
        mean * static_cast<double>(lines.size() - tile) / static_cast<double>(shape.workers);
    // Classes have a 20th of the mean.
    if (!order.is_gap(tile))
      CHECK(static_cast<double>(lines[tile].size()) <=
            std::max(0.4 * following + mean / 20, (are_uneven ? 2 : 1.5) * mean));
  }
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
          check_last(rows_of(p, mask), row_shape(p, workers), starts_first);
        }
        check_covers(columns_of(p, mask), column_shape(p, workers), false);
        check_lengths(columns_of(p, mask), column_shape(p, workers), false);
        check_bounds(columns_of(p, mask), column_shape(p, workers), false);
        check_last(columns_of(p, mask), column_shape(p, workers), false);
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
          std::uint32_t at = 0;
          for (std::uint32_t length : lengths) {
            if (rule.splits(length)) ++splits, pieces += rule.pieces(length);
            listed += rule.lists(at, length) || at >= rule.last_from();
            CHECK((!rule.splits(length) || (rule.lists(at, length) && rule.pieces(length) >= 2)));
            ++at;
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
    CHECK(early.first_tile == ScheduleBounds::first_tiles(row_shape(p, 132)));
    CHECK_FALSE(early.has_gaps());
    CHECK(early.tiles_end == p.batch * p.heads * p.q_blocks());
  }
  // 40 heads of 32,768 tokens at 26 blocks a row: nothing is listed.
  ScheduleShape const shape{10240, 512, 132};
  ScheduleRule const rule(std::uint64_t{10240} * 26, 0, shape);
  CHECK(rule.last_from() == 10240);
  CHECK_FALSE(rule.lists(10239, 26));
  CHECK_FALSE(rule.splits(512));
  // A row of 20 times the mean goes first where less than 2.5 times that follows, and in its turn before.
  CHECK(rule.lists(10239, 512));
  CHECK(rule.lists(10240 - 45 * 132, 512));
  CHECK_FALSE(rule.lists(10240 - 55 * 132, 512));
  CHECK_FALSE(rule.lists(0, 512));
}

TEST_CASE("Whatever the lengths are each line is handed out once and the last ones are sorted") {
  Random random(5);
  for (std::int64_t workers : {1, 3, 40})
    for (std::uint32_t tiles : {1u, 2u, 31u, 33u, 95u, 97u, 120u, 1280u, 1281u, 1500u}) {
      ScheduleShape const shape{tiles, 600, workers};
      std::vector<std::uint32_t> const none(tiles, 0), same(tiles, 9);
      std::vector<std::uint32_t> one_long(tiles, 3), one_left = none, any = none, falling = none,
                                                     last_long = none;
      one_long[tiles / 2] = 600;
      one_left[tiles - 1] = 600;
      for (std::uint32_t i = 0; i < tiles; ++i) {
        any[i] = random.below(random.below(600) + 1);
        falling[i] = 600 - 600 * i / tiles;
        last_long[i] = i + 5 * static_cast<std::uint32_t>(workers) < tiles ? 2 : 500;
      }
      for (auto const& lengths : {none, same, one_long, one_left, any, falling, last_long}) {
        CAPTURE(workers, tiles, lengths[0], lengths[tiles - 1]);
        Lines const lines = lines_of(lengths);
        for (bool starts_first : {false, true}) {
          check_covers(lines, shape, starts_first);
          check_lengths(lines, shape, starts_first);
          check_bounds(lines, shape, starts_first);
          check_last(lines, shape, starts_first);
        }
      }
    }
}

TEST_CASE("The launch of a big grid of uneven lines ends with short ones") {
  Random random(9);
  ScheduleShape const shape{10240, 512, 132};  // 40 heads of 32,768 tokens
  std::vector<std::uint32_t> uniform, many_short, two_lengths;
  for (int i = 0; i < 10240; ++i) {
    uniform.push_back(10 + random.below(93));
    many_short.push_back(1 + random.below(1 + random.below(100)));
    two_lengths.push_back(random.chance(0.5) ? 8 : 44);
  }
  for (auto const& lengths : {uniform, many_short, two_lengths}) {
    Lines const lines = lines_of(lengths);
    OrderOfWork const order = order_work(lines, shape, true);
    CHECK(order.last.size() > 4 * 132);
    CHECK(order.items.size() < 1000);
    CHECK(order.tiles_end == 10240 - 12 * 132);
    CHECK(share_of_balance(lines, shape) < 1.004);  // head-major to the end they are 1.012 to 1.018
  }
}

TEST_CASE("A dense row of a small grid is split and rows up to a fifth are not") {
  // 4 heads of 32,768 tokens: 132 workers have 7.8 rows each.
  ScheduleShape const shape{1024, 512, 132};
  ScheduleRule const dense(std::uint64_t{1024} * 26 + 16 * 512, std::uint64_t{16} * 470, shape);
  CHECK(dense.last_from() == 0);
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
  CHECK(even.last_from() == 3072);
  CHECK_FALSE(even.lists(3071, 38));
  CHECK(even.lists(3071, 60));
  CHECK_FALSE(even.lists(1000, 60));
  CHECK(even.class_of(37) == even.class_of(38));
  ScheduleRule const uneven(std::uint64_t{3072} * 37, std::uint64_t{48} * 466, shape);
  CHECK(uneven.last_from() == 3072 - 12 * 132);
}

TEST_CASE("Each worker starts with one tile and with an eighth of many") {
  CHECK(ScheduleBounds::first_tiles({0, 512, 132}) == 0);
  CHECK(ScheduleBounds::first_tiles({100, 512, 132}) == 100);
  CHECK(ScheduleBounds::first_tiles({1024, 512, 132}) == 132);
  CHECK(ScheduleBounds::first_tiles({8 * 132, 512, 132}) == 132);
  CHECK(ScheduleBounds::first_tiles({8 * 132 + 1, 512, 132}) == 2 * 132);
  CHECK(ScheduleBounds::first_tiles({10240, 512, 132}) == 10 * 132);
  CHECK(ScheduleBounds::first_tiles({1024, 512, 264}, 3) == 2 * 264);
  // What goes last is never among them.
  for (std::int64_t workers : {1, 7, 132})
    for (std::int64_t tiles = 32 * workers + 1; tiles < 400 * workers; ++tiles)
      REQUIRE(ScheduleBounds::first_tiles({tiles, 512, workers}) <=
              tiles - ScheduleBounds::last_a_worker * workers);
}

TEST_CASE("A line that may start before the order is known is never split where it is short") {
  for (std::uint64_t sampled : {0u, 3u, 1000u}) {
    CHECK(ScheduleRule::starts_first(32, sampled));
    CHECK(ScheduleRule::is_never_split(32));
  }
  CHECK_FALSE(ScheduleRule::starts_first(33, 100));
  CHECK_FALSE(ScheduleRule::is_never_split(33));
  for (std::uint64_t kept : {0u, 5u, 100u, 100000u})
    for (std::int64_t tiles : {1, 3, 5000}) CHECK_FALSE(ScheduleRule(kept, 0, {tiles, 512, 132}).splits(32));
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
  CHECK(ScheduleBounds::items({10240, 512, 132}) == 2599 + 16 * 132 + 924);
  Carver carver;
  Schedule::lay_out(carver, {10240, 512, 132}, ForwardConfig::slot_floats(128, 128));
  CHECK(carver.bytes() < std::size_t{62} << 20);
}
