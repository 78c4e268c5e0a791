/// The order of uneven work as the device makes it, against plain loops on the host.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "probe.hpp"
#include "sparge/kernel/schedule_params.hpp"
#include "support/catch.hpp"
#include "support/device_buffer.hpp"
#include "support/gpu.hpp"
#include "support/schedule_case.hpp"

using namespace sparge;
using namespace sparge::test;

namespace {

/// Scratch of one pass.
class PassScratch {
public:
  explicit PassScratch(ScheduleShape const& shape) : shape_(shape), memory_(bytes_for(shape)) {
    Carver carver(memory_.data());
    schedule_ = Schedule::lay_out(carver, shape, 1);
  }

  SchedulePass pass(ScheduleLines lines, bool starts_first = false) const {
    auto const first_tiles = starts_first ? ScheduleBounds::first_tiles(shape_) : 0;
    return {schedule_, shape_, lines, static_cast<std::uint32_t>(first_tiles)};
  }

  /// `count` values of a piece of the scratch.
  template <class Value>
  std::vector<Value> read(Value const* from, std::size_t count) const {
    std::int64_t const offset = reinterpret_cast<unsigned char const*>(from) - memory_.data();
    std::vector<unsigned char> const bytes =
        memory_.download(offset, static_cast<std::int64_t>(count * sizeof(Value)));
    std::vector<Value> values(count);
    if (count > 0) std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }

  Schedule const& schedule() const { return schedule_; }

private:
  static std::int64_t bytes_for(ScheduleShape const& shape) {
    Carver carver;
    Schedule::lay_out(carver, shape, 1);
    return static_cast<std::int64_t>(carver.bytes());
  }

  ScheduleShape shape_;
  DeviceBuffer<unsigned char> memory_;
  Schedule schedule_;
};

void check_pass(PassScratch const& scratch, Lines const& lines, OrderOfWork const& order) {
  Schedule const& schedule = scratch.schedule();
  std::vector<std::uint32_t> lengths;
  for (auto const& line : lines) lengths.push_back(length_of(line));
  CHECK(scratch.read(schedule.counts, lines.size()) == lengths);
  auto const items = static_cast<std::uint32_t>(order.items.size()),
             splits = static_cast<std::uint32_t>(order.splits.size());
  CHECK(scratch.read(schedule.header, Schedule::next + 1) ==
        std::vector<std::uint32_t>{items, order.all_end(),
                                   order.first_tile | (order.has_gaps() ? Schedule::has_gaps : 0),
                                   order.tiles_end, splits, 0});
  std::vector<WorkItem> const all = order.all_items();
  CHECK(fields_of(scratch.read(schedule.items, all.size())) == fields_of(all));
  CHECK(fields_of(scratch.read(schedule.splits, splits)) == fields_of(order.splits));
  if (!order.has_gaps()) return;  // nobody reads which tiles are listed
  auto const listed = scratch.read(schedule.listed, (lines.size() + 31) / 32);
  for (std::size_t tile = 0; tile < lines.size(); ++tile)
    CHECK((listed[tile / 32] >> tile % 32 & 1) == order.is_gap(tile));
}

/// Of the items and the tiles after them each goes to one producer.
void check_queue(PassScratch const& scratch, Lines const& lines, ScheduleShape const& shape,
                 OrderOfWork const& order, int producers) {
  std::vector<std::pair<int, int>> wanted, taken;
  for (WorkItem const& item : order.all_items()) wanted.emplace_back(static_cast<int>(item.tile), item.slot);
  for (std::size_t tile = 0; tile < lines.size(); ++tile)
    if (!order.is_gap(tile)) wanted.emplace_back(static_cast<int>(tile), -1);
  std::vector<int> const all = probe::take_all(scratch.schedule(), static_cast<int>(shape.tiles),
                                               static_cast<int>(shape.blocks), producers);
  for (std::size_t i = 0; i < all.size(); i += 2) taken.emplace_back(all[i], all[i + 1]);
  std::sort(wanted.begin(), wanted.end());
  std::sort(taken.begin(), taken.end());
  CHECK(taken == wanted);
}

/// Of O: by few warps of many thread blocks, more than are resident too, and of one.
void check_inside(AttentionProblem const& p, MaskWords const& mask, std::int64_t workers) {
  DeviceBuffer<std::uint32_t> const on_device(mask);
  ScheduleShape const shape = row_shape(p, workers);
  Lines const lines = rows_of(p, mask);
  OrderOfWork const order = order_work(lines, shape, true);
  for (int crew_warps : {2, 3})
    for (int thread_blocks : {1, 132, 5000}) {
      CAPTURE(crew_warps, thread_blocks);
      PassScratch const scratch(shape);
      probe::order_inside(scratch.schedule(), shape, on_device.data(), crew_warps, thread_blocks);
      check_pass(scratch, lines, order);
      check_queue(scratch, lines, shape, order, 3);
    }
}

void check_mask(AttentionProblem const& p, MaskWords const& mask, std::int64_t workers) {
  DeviceBuffer<std::uint32_t> const on_device(mask);
  ScheduleShape const row = row_shape(p, workers), column = column_shape(p, workers);
  PassScratch const rows(row), columns(column);
  ScheduleParams params;
  params.passes[0] = columns.pass(ScheduleLines::columns);
  params.passes[1] = rows.pass(ScheduleLines::rows);
  params.count = 2;
  params.mask = on_device.data();
  params.kv_blocks = static_cast<std::int32_t>(p.kv_blocks());
  params.row_words = static_cast<std::int32_t>(p.row_words());
  Stream const stream;
  CHECK_CUDA(launch_schedule(params, stream));
  stream.wait();
  Lines const in_rows = rows_of(p, mask), in_columns = columns_of(p, mask);
  OrderOfWork const order = order_work(in_rows, row), of_columns = order_work(in_columns, column);
  check_pass(rows, in_rows, order);
  check_pass(columns, in_columns, of_columns);
  check_queue(rows, in_rows, row, order, 3);
  check_queue(columns, in_columns, column, of_columns, 40);
  // Rows alone, without what workers start with.
  params.passes[0] = rows.pass(ScheduleLines::rows, true);
  params.count = 1;
  CHECK_CUDA(launch_schedule(params, stream));
  stream.wait();
  OrderOfWork const after_first = order_work(in_rows, row, true);
  check_pass(rows, in_rows, after_first);
  check_queue(rows, in_rows, row, after_first, 3);
}

}  // namespace

TEST_CASE("The device orders and splits lines as plain loops do", "[gpu]") {
  SKIP_WITHOUT_GPU();
  AttentionProblem const problems[] = {
      {1, 1, 1, 128 * 20, 64 * 200, 64},
      {2, 6, 2, 128 * 9 + 5, 64 * 45 + 7, 64},
      {1, 1, 1, 100, 60, 64},
      {1, 4, 4, 128 * 70, 64 * 40, 64},
      {1, 8, 1, 128 * 30, 64 * 33, 64},
      {1, 2, 2, 128, 64 * 1300, 64},
      {1, 3, 1, 128 * 3, 64 * 2100, 64},
      {1, 40, 40, 128 * 130, 64 * 65, 64},
  };
  for (AttentionProblem const& p : problems)
    for (Unevenness kind : every_unevenness)
      for (std::int64_t workers : {1, 16, 132}) {
        CAPTURE(p.heads, p.q_tokens, p.kv_tokens, static_cast<int>(kind), workers);
        check_mask(p, make_uneven_mask(p, kind, 5), workers);
      }
}

TEST_CASE("Warps beside others order and split rows as plain loops do", "[gpu]") {
  SKIP_WITHOUT_GPU();
  AttentionProblem const problems[] = {
      {2, 6, 2, 128 * 9 + 5, 64 * 45 + 7, 64}, {1, 1, 1, 100, 60, 64},
      {1, 4, 4, 128 * 70, 64 * 40, 64},        {1, 3, 1, 128 * 3, 64 * 2100, 64},
      {1, 40, 40, 128 * 130, 64 * 65, 64},
  };
  for (AttentionProblem const& p : problems)
    for (Unevenness kind : every_unevenness)
      for (std::int64_t workers : {1, 16, 132}) {
        CAPTURE(p.heads, p.q_tokens, p.kv_tokens, static_cast<int>(kind), workers);
        check_inside(p, make_uneven_mask(p, kind, 5), workers);
      }
}

TEST_CASE("Ordering and splitting lines is clean", "[gpu][sanitize]") {
  SKIP_WITHOUT_GPU();
  AttentionProblem const p{1, 4, 2, 128 * 9 + 5, 64 * 45 + 7, 64};
  for (Unevenness kind : {Unevenness::dense_lines, Unevenness::dense_row, Unevenness::dense_column})
    for (std::int64_t workers : {1, 16}) {  // a grid that is big, or not
      check_mask(p, make_uneven_mask(p, kind, 5), workers);
      check_inside(p, make_uneven_mask(p, kind, 5), workers);
    }
}
