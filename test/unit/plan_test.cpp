/// The plan layer: the table of kernels and the choice among them, scratch layouts.

#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "sparge/plan/calibrate_config.hpp"
#include "sparge/plan/forward_config.hpp"
#include "sparge/plan/mask_config.hpp"
#include "sparge/plan/validate.hpp"
#include "support/catch.hpp"

using namespace sparge;

namespace {

constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();

/// Capability, shared memory of a thread block and of an SM.
constexpr Device big{0, 9, 0, 132, 232448, 233472, 62914560};
constexpr Device ampere{0, 8, 0, 108, 166912, 167936, 41943040};
constexpr Device small{0, 8, 9, 128, 101376, 102400, 75497472};

AttentionProblem problem_of(std::int32_t head_dim, std::int32_t q_block, std::int32_t kv_block) {
  return {1, 2, 2, 1000, 1000, head_dim, q_block, kv_block};
}

void check_sm80(ForwardConfig const& row) {
  CHECK(row.q_tile % (16 * row.warps) == 0);
  CHECK(row.smem_bytes() == 2 * row.head_dim * (row.q_tile + 2 * row.stages * row.kv_tile));
  CHECK(row.runs_on(ampere));
  CHECK(row.schedule_shape(1000, 100, ampere).tiles == 0);
  CHECK(row.blocks(1000, 100, ampere) == 1000);
}

/// A warpgroup that loads and whole teams of those that compute, whose registers fit an SM.
void check_sm90a(ForwardConfig const& row) {
  int const consumers = row.warps - 4;
  CHECK(row.q_tile == 128);
  CHECK(row.kv_tile % 64 == 0);
  CHECK(row.teams() >= 1);
  CHECK(row.teams() * row.q_tile == 16 * consumers);
  CHECK(row.stages >= 4);  // K and V of two tiles
  CHECK(row.producer_registers() % 8 == 0);
  CHECK(row.consumer_registers() % 8 == 0);
  CHECK(row.consumer_registers() <= 240);
  CHECK(row.ctas_per_sm * (128 * row.producer_registers() + 32 * consumers * row.consumer_registers()) <=
        65536);
  CHECK_FALSE(row.runs_on(ampere));
  ScheduleShape const shape = row.schedule_shape(1000, 100, big);
  CHECK(shape.tiles == 1000);
  CHECK(shape.blocks == 100);
  CHECK(shape.workers == 132 * row.ctas_per_sm * row.teams());
  CHECK(row.blocks(1000, 100, big) == 132 * row.ctas_per_sm);
  CHECK(row.blocks(0, 100, big) == 0);
  CHECK(row.blocks(2, 20, big) == (row.teams() == 1 ? 2 : 1));
  CHECK(row.blocks(3, 512, big) > 3);  // for the pieces of a long row
}

}  // namespace

TEST_CASE("each row of the forward table is a kernel that could run") {
  using Key = std::tuple<Arch, ElementType, int, int, int, int, int>;
  std::set<Key> rows;
  for (ForwardConfig const& row : forward_table) {
    CAPTURE(rows.size());
    CHECK(rows.insert({row.arch, row.dtype, row.head_dim, row.q_tile, row.kv_tile, row.stages, row.warps})
              .second);
    CHECK(row.kv_tile % 16 == 0);
    CHECK(row.head_dim % 16 == 0);
    CHECK(row.stages >= 1);
    CHECK(row.threads() <= 1024);
    CHECK(row.fits(big));
    if (row.arch == Arch::sm80)
      check_sm80(row);
    else
      check_sm90a(row);
  }
  CHECK(forward_rows == static_cast<std::int32_t>(rows.size()));
  CHECK(forward_rows <= 63);  // built rows are a set of bits, which CMake computes with signed numbers
}

TEST_CASE("every promised problem has a kernel on every promised device") {
  for (ElementType type : {ElementType::bf16, ElementType::f16})
    for (std::int32_t head_dim : {64, 128})
      for (std::int32_t q_block : {64, 128})
        for (std::int32_t kv_block : {64, 128})
          for (Device const& device : {big, ampere, small}) {
            AttentionProblem const p = problem_of(head_dim, q_block, kv_block);
            std::int32_t const row = choose_forward(type, p, device);
            CAPTURE(name_of(type), head_dim, q_block, kv_block, device.shared_bytes_per_block, row);
            REQUIRE(row >= 0);
            ForwardConfig const& config = forward_table[row];
            CHECK(config.dtype == type);
            CHECK(config.head_dim == head_dim);
            CHECK(config.serves_blocks(q_block, kv_block));
            CHECK(config.is_for(device));
            CHECK(config.smem_bytes() <= device.shared_bytes_per_block);
            if (config.arch == Arch::sm90a)  // tiles of the second team begin at a multiple of 1024
              CHECK((config.smem_bytes() - config.order_bytes()) % (1024 * config.teams()) == 0);
            CHECK(config.ctas_per_sm * (config.smem_bytes() + 1024) <= device.shared_bytes_per_sm);
            for (std::int32_t better = 0; better < row; ++better)
              CHECK_FALSE((is_built(better) && forward_table[better].serves(type, p) &&
                           forward_table[better].fits(device)));
          }
}

TEST_CASE(
    "kernels for 9.0a are chosen on 9.0 alone and for their mask blocks where the build has their code") {
  constexpr Device consumer_hopper{0, 9, 0, 128, 101376, 102400, 75497472};
  constexpr Device blackwell{0, 10, 0, 148, 232448, 233472, 132644864};
  bool const has_code = has_kernels_of(Arch::sm90a, built::targets);
  for (ElementType type : {ElementType::bf16, ElementType::f16})
    for (std::int32_t head_dim : {64, 128})
      for (std::int32_t q_block : {64, 128})
        for (std::int32_t kv_block : {64, 128})
          for (Device const& device : {big, ampere, small, consumer_hopper, blackwell}) {
            std::int32_t const row = choose_forward(type, problem_of(head_dim, q_block, kv_block), device);
            CAPTURE(name_of(type), head_dim, q_block, kv_block, device.capability(), row);
            REQUIRE(row >= 0);
            bool const is_big_hopper = device.capability() == 90 && device.shared_bytes_per_block == 232448;
            bool const wanted = has_code && is_big_hopper && q_block == 128 && kv_block == 64;
            CHECK((forward_table[row].arch == Arch::sm90a) == wanted);
          }
}

TEST_CASE("wgmma needs code for 9.0a where that for 9.0 or PTX will not do") {
  constexpr built::Target exact[] = {{80, true, false}, {90, false, true}};
  constexpr built::Target plain[] = {{80, true, false}, {90, true, false}};
  constexpr built::Target later[] = {{100, false, true}};
  CHECK(has_kernels_of(Arch::sm90a, exact));
  CHECK_FALSE(has_kernels_of(Arch::sm90a, plain));
  CHECK_FALSE(has_kernels_of(Arch::sm90a, later));
  CHECK(has_kernels_of(Arch::sm80, later));
}

TEST_CASE("a launch of a kernel for 9.0a is as large as the GPU or as the work") {
  ForwardConfig two_teams{Arch::sm90a, ElementType::bf16, 64, 128, 64, 10, 20, 1};
  REQUIRE(two_teams.teams() == 2);
  CHECK(two_teams.blocks(0, 20, big) == 0);
  CHECK(two_teams.blocks(1, 20, big) == 1);
  CHECK(two_teams.blocks(3, 20, big) == 2);
  CHECK(two_teams.blocks(3, 100, big) == 5);  // with at most 7 pieces
  CHECK(two_teams.blocks(264, 20, big) == 132);
  CHECK(two_teams.blocks(1000000, 100, big) == 132);
  Device unknown = big;
  unknown.sm_count = 0;  // filled by hand, and forgotten
  CHECK(two_teams.blocks(1000000, 20, unknown) == 1);
}

TEST_CASE("U96 a device with 99 KB of shared memory gets a smaller kernel, and one with too little none") {
  AttentionProblem const p = problem_of(128, 128, 64);
  std::int32_t const on_big = choose_forward(ElementType::bf16, p, big);
  std::int32_t const on_small = choose_forward(ElementType::bf16, p, small);
  REQUIRE(on_big >= 0);
  REQUIRE(on_small >= 0);
  CHECK(forward_table[on_small].smem_bytes() < forward_table[on_big].smem_bytes());
  CHECK(forward_table[on_small].smem_bytes() <= 101376);
  Device tiny = small;
  tiny.shared_bytes_per_block = 16384;
  CHECK(choose_forward(ElementType::bf16, p, tiny) == -1);
  // Enough for a block is not enough where too few blocks fit an SM.
  Device narrow = big;
  narrow.shared_bytes_per_sm = forward_table[on_big].smem_bytes();
  CHECK_FALSE(forward_table[on_big].fits(narrow));
}

TEST_CASE("U47 U48 no kernel serves a head_dim or a mask block outside the promise") {
  for (auto const& [head_dim, q_block, kv_block] : std::vector<std::tuple<int, int, int>>{{96, 128, 64},
                                                                                          {64, 32, 64},
                                                                                          {64, 128, 32},
                                                                                          {64, 256, 64},
                                                                                          {64, 128, 256},
                                                                                          {64, 96, 64},
                                                                                          {256, 128, 64},
                                                                                          {0, 128, 64}})
    CHECK(choose_forward(ElementType::bf16, problem_of(head_dim, q_block, kv_block), big) == -1);
}

TEST_CASE("U12 U76 mask words follow from shapes alone") {
  AttentionProblem const wan{1, 40, 40, 75600, 75600, 128};
  CHECK(count_mask_words(wan) * 4 == 40 * 591 * 37 * 4);  // 3.5 MB a layer
  CHECK(count_transposed_words(wan) == 40 * 1182 * 19);
  AttentionProblem const none{3, 4, 4, 0, 0, 64};
  CHECK(count_mask_words(none) == 0);
}

TEST_CASE("U74 problems whose arrays do not fit 64 bits are refused instead of wrapping") {
  AttentionProblem p{1, 1, 1, 128, 128, 128};
  CHECK(validate_problem(p).ok());
  p.batch = largest / (128 * 128 * 4) + 1;
  CHECK(validate_problem(p).code == StatusCode::invalid_argument);
  p = {std::int64_t{1} << 31, std::int64_t{1} << 20, std::int64_t{1} << 20, 128, 128, 128};
  CHECK_FALSE(validate_problem(p).ok());
  p = {1, 1, 1, max_tokens, max_tokens, 128};
  CHECK(validate_problem(p).ok());
  p.kv_tokens = max_tokens + 1;
  CHECK(validate_problem(p).code == StatusCode::unsupported);
  p = {largest, 1, 1, 0, 0, 128};  // holds nothing, and still may not wrap on the way
  CHECK(validate_problem(p).code == StatusCode::invalid_argument);
}

TEST_CASE("scratch is cut exactly as it is counted") {
  for (AttentionProblem const& p :
       {AttentionProblem{1, 12, 12, 32760, 32760, 128}, AttentionProblem{2, 8, 2, 1, 1, 64},
        AttentionProblem{1, 40, 40, 75600, 75600, 128}, AttentionProblem{1, 4, 4, 0, 100, 64},
        AttentionProblem{0, 4, 4, 100, 100, 64}, AttentionProblem{1, 1, 1, 3, 2000000, 64},
        AttentionProblem{1, 4, 1, 100, 0, 64}})
    for (Device const& device : {big, small}) {
      RowLayout const layout = RowLayout::of(p, device);
      auto const check_layout = [&](auto lay_out) {
        Carver counter, cutter(reinterpret_cast<void*>(std::uintptr_t{1} << 40));
        lay_out(counter);
        lay_out(cutter);
        CHECK(counter.bytes() == cutter.bytes());
        CHECK(counter.bytes() % workspace_alignment == 0);
        CHECK(counter.bytes() < std::size_t{1} << 30);
      };
      check_layout([&](Carver& carver) { SelectScratch::lay_out(carver, p, layout, true); });
      check_layout([&](Carver& carver) { BuildMaskScratch::lay_out(carver, p, layout); });
      check_layout([&](Carver& carver) { MaskStatsScratch::lay_out(carver, p, layout); });
      for (CalibrationScope scope : {CalibrationScope::each_head, CalibrationScope::all_heads}) {
        CalibrateLayout const calibrate = CalibrateLayout::of(p, device, scope);
        check_layout([&](Carver& carver) { CalibrateScratch::lay_out(carver, p, calibrate); });
        CHECK(calibrate.shared_bytes + CalibrateLayout::static_bytes <= device.shared_bytes_per_block);
      }
      CHECK(layout.pitch >= p.kv_blocks());
      CHECK(layout.chunk_tiles <= layout.tiles);
      CHECK((layout.tiles == 0 || layout.chunk_tiles >= 1));
      CHECK(layout.shared_bytes() <= device.shared_bytes_per_block);
    }
}

TEST_CASE("rows are held in registers where there is shared memory for what is searched") {
  Device device = big;
  auto const holds = [&](std::int64_t blocks) {
    return RowLayout::of({1, 1, 1, 128, 64 * blocks, 64}, device).in_registers;
  };
  device.shared_bytes_per_block = 99 * 1024;
  CHECK(holds(1));
  CHECK(holds(1280));
  CHECK(holds(4096));
  CHECK_FALSE(holds(16384));
  device.shared_bytes_per_block = 163 * 1024;
  CHECK(holds(16384));
  CHECK_FALSE(holds(16385));
  device.shared_bytes_per_block = 0;
  CHECK_FALSE(holds(1));
}

TEST_CASE("segments of keys are few and hold every key once") {
  CHECK(KeySegments::of(0).count == 0);
  for (std::int64_t blocks : {1, 63, 64, 65, 512, 1182, 2048, 2049, 16384, 100000}) {
    KeySegments const segments = KeySegments::of(blocks);
    CHECK(segments.count >= 1);
    CHECK(segments.count <= KeySegments::most);
    CHECK(segments.count * segments.blocks >= blocks);
    CHECK((segments.count - 1) * segments.blocks < blocks);
  }
}

TEST_CASE("U12 scratch of selection does not grow with the square of the tokens") {
  auto const bytes_of = [](std::int64_t tokens) {
    AttentionProblem const p{1, 40, 40, tokens, tokens, 128};
    Carver carver;
    BuildMaskScratch::lay_out(carver, p, RowLayout::of(p, big));
    return static_cast<double>(carver.bytes());
  };
  CHECK(bytes_of(151200) <= 2.1 * bytes_of(75600));
  CHECK(bytes_of(75600) < 300e6);
}

TEST_CASE("code for an exact target runs on its capability alone") {
  Device device = big;
  auto const runs = [&](built::Target const& target, int capability) {
    device.capability_major = capability / 10, device.capability_minor = capability % 10;
    return runs_code_of(target, device);
  };
  CHECK(runs({90, false, true}, 90));
  CHECK(runs({120, false, true}, 120));
  CHECK_FALSE(runs({120, false, true}, 121));
  CHECK_FALSE(runs({100, false, true}, 103));
  CHECK(runs({120, false, false}, 121));
  CHECK_FALSE(runs({80, false, false}, 90));
  CHECK(runs({80, true, false}, 120));
  CHECK_FALSE(runs({90, true, false}, 80));
}

TEST_CASE("code built for a capability runs on it, on its minor versions, and as PTX on later ones") {
  // This build: see built.hpp; whatever it is, it must serve the devices that it names.
  for (built::Target const& target : built::targets) {
    Device device = big;
    device.capability_major = target.capability / 10;
    device.capability_minor = target.capability % 10;
    CHECK(has_code_for(device));
    device.capability_major = 7;
    device.capability_minor = 5;
    CHECK_FALSE(has_code_for(device));
  }
}
