/// The table of backward kernels, the choice among them, and scratch of backward.

#include <cstdint>
#include <set>
#include <tuple>

#include "sparge/plan/backward_config.hpp"
#include "support/catch.hpp"

using namespace sparge;

namespace {

/// Capability, shared memory of a thread block and of an SM.
constexpr Device big{0, 9, 0, 132, 232448, 233472, 62914560};
constexpr Device ampere{0, 8, 0, 108, 166912, 167936, 41943040};
constexpr Device small{0, 8, 9, 128, 101376, 102400, 75497472};

AttentionProblem problem_of(std::int32_t head_dim, std::int32_t q_block, std::int32_t kv_block) {
  return {1, 2, 2, 1000, 1000, head_dim, q_block, kv_block};
}

/// A warpgroup that loads and two that compute, whose registers fit those that a launch of so many threads gets.
void check_sm90a(BackwardConfig const& row) {
  CHECK(row.q_tile == 128);
  CHECK(row.kv_tile == (row.pass == BackwardPass::dkdv ? 64 : 128));
  CHECK(row.stages >= 2);
  CHECK(row.threads() == 384);
  CHECK(row.ctas_per_sm == 1);
  if (row.teams() == 2)
    CHECK(row.smem_bytes() % 2048 == 0);  // tiles of the second team begin at a multiple of 1024
  CHECK(128 * row.producer_registers() + 256 * row.consumer_registers() <= 65536 / 384 / 8 * 8 * 384);
  bool const hands_over_f16 =
      row.pass == BackwardPass::dkdv && row.head_dim == 128 && row.dtype == ElementType::f16;
  CHECK(row.weight_exponent() == (hands_over_f16 ? 15 : 0));
  CHECK_FALSE(row.runs_on(ampere));
}

}  // namespace

TEST_CASE("each row of the backward table is a kernel that could run") {
  using Key = std::tuple<BackwardPass, Arch, ElementType, int, int, int, int, int>;
  std::set<Key> rows;
  for (BackwardConfig const& row : backward_table) {
    CAPTURE(rows.size());
    CHECK(rows.insert({row.pass, row.arch, row.dtype, row.head_dim, row.q_tile, row.kv_tile, row.stages,
                       row.warps})
              .second);
    CHECK(row.q_tile % 16 == 0);
    CHECK(row.kv_tile % 16 == 0);
    CHECK(row.stages >= 1);
    CHECK(row.smem_bytes() >= 4 * row.head_dim * (row.q_tile + row.kv_tile));
    CHECK(row.fits(big));
    if (row.arch == Arch::sm90a)
      check_sm90a(row);
    else
      CHECK(row.weight_exponent() == 0);
  }
  CHECK(backward_rows == static_cast<std::int32_t>(rows.size()));
  CHECK(backward_rows < 64);  // built rows are a 64-bit set
}

TEST_CASE("every promised problem has a kernel of both backward passes on every promised device") {
  for (BackwardPass pass : {BackwardPass::dkdv, BackwardPass::dq})
    for (ElementType type : {ElementType::bf16, ElementType::f16})
      for (std::int32_t head_dim : {64, 128})
        for (std::int32_t q_block : {64, 128})
          for (std::int32_t kv_block : {64, 128})
            for (Device const& device : {big, ampere, small}) {
              AttentionProblem const p = problem_of(head_dim, q_block, kv_block);
              std::int32_t const row = choose_backward(pass, type, p, device);
              CAPTURE(name_of(type), head_dim, q_block, kv_block, device.shared_bytes_per_block, row);
              REQUIRE(row >= 0);
              BackwardConfig const& config = backward_table[row];
              CHECK(config.pass == pass);
              CHECK(config.serves(type, p));
              CHECK(config.fits(device));
            }
}

TEST_CASE(
    "backward kernels for 9.0a are chosen on 9.0 alone and for their mask blocks where the build has their "
    "code") {
  constexpr Device consumer_hopper{0, 9, 0, 128, 101376, 102400, 75497472};
  constexpr Device blackwell{0, 10, 0, 148, 232448, 233472, 132644864};
  bool const has_code = has_kernels_of(Arch::sm90a, built::targets);
  for (BackwardPass pass : {BackwardPass::dkdv, BackwardPass::dq})
    for (ElementType type : {ElementType::bf16, ElementType::f16})
      for (std::int32_t head_dim : {64, 128})
        for (std::int32_t q_block : {64, 128})
          for (std::int32_t kv_block : {64, 128})
            for (Device const& device : {big, ampere, small, consumer_hopper, blackwell}) {
              std::int32_t const row =
                  choose_backward(pass, type, problem_of(head_dim, q_block, kv_block), device);
              CAPTURE(name_of(type), head_dim, q_block, kv_block, device.capability(), row);
              REQUIRE(row >= 0);
              bool const is_big_hopper = device.capability() == 90 && device.shared_bytes_per_block == 232448;
              bool const wanted = has_code && is_big_hopper && q_block == 128 && kv_block == 64;
              CHECK((backward_table[row].arch == Arch::sm90a) == wanted);
            }
}

TEST_CASE("a launch of a backward kernel for 9.0a is as large as the GPU or as the work") {
  Device unknown = big;
  unknown.sm_count = 0;  // filled by hand, and forgotten
  BackwardConfig one_team{BackwardPass::dkdv, Arch::sm90a, ElementType::bf16, 128, 128, 64, 3, 12, 1};
  REQUIRE(one_team.teams() == 1);
  AttentionProblem const few{1, 1, 1, 1000, 3 * 64, 128}, many{1, 8, 8, 100000, 100000, 128};
  CHECK(one_team.blocks(few, big) == 3);
  CHECK(one_team.blocks(many, big) == 132);
  BackwardConfig short_rows{BackwardPass::dkdv, Arch::sm90a, ElementType::bf16, 64, 128, 64, 2, 12, 1};
  REQUIRE(short_rows.teams() == 2);
  CHECK(short_rows.blocks(few, big) == 2);
  CHECK(short_rows.blocks({1, 1, 1, 1000, 0, 64}, big) == 0);
  CHECK(short_rows.blocks(many, unknown) == 1);
  // Three columns of 100 query blocks: one of them may be split.
  CHECK(one_team.blocks({1, 1, 1, 12800, 3 * 64, 128}, big) == 3 + 7);
}

TEST_CASE("lines of backward are rows for dQ and columns over a group of heads for dK and dV") {
  AttentionProblem const p{2, 12, 4, 1000, 3000, 128};
  for (BackwardConfig const& config : backward_table) {
    if (config.head_dim != 128) continue;
    ScheduleShape const shape = config.schedule_shape(p, big);
    if (config.arch == Arch::sm80) {
      CHECK(shape.tiles == 0);
    } else if (config.pass == BackwardPass::dq) {
      CHECK(shape.tiles == 2 * 12 * 8);
      CHECK(shape.blocks == 47);
    } else {
      CHECK(shape.tiles == 2 * 4 * 47);
      CHECK(shape.blocks == 3 * 8);
      CHECK(config.slot_floats() == 2 * config.kv_tile * config.head_dim);
    }
    if (shape.tiles > 0) CHECK(shape.workers == 132 * config.teams());
  }
}

TEST_CASE("scratch of backward has the order of work where a kernel for 9.0a has a tile") {
  BackwardConfig const dkdv{BackwardPass::dkdv, Arch::sm90a, ElementType::bf16, 128, 128, 64, 3, 12, 1};
  BackwardConfig const dq{BackwardPass::dq, Arch::sm90a, ElementType::bf16, 128, 128, 128, 2, 12, 1};
  BackwardConfig portable = dq;
  portable.arch = Arch::sm80;
  auto const bytes_of = [&](AttentionProblem const& p, BackwardConfig const& of_dkdv,
                            BackwardConfig const& of_dq) {
    Carver carver;
    BackwardScratch::lay_out(carver, p, of_dkdv, of_dq, big);
    return carver.bytes();
  };
  std::size_t const rows = 2 * 6 * 128 * 4, order = 4 * 256;  // counters, counts, items, bits
  CHECK(bytes_of({2, 3, 1, 128, 64, 128}, portable, portable) == rows);
  CHECK(bytes_of({2, 3, 1, 128, 64, 128}, dkdv, portable) == rows + order);
  CHECK(bytes_of({2, 3, 1, 128, 64, 128}, dkdv, dq) == rows + 2 * order);
  CHECK(bytes_of({1, 1, 1, 0, 64, 128}, dkdv, dq) == order);
  CHECK(bytes_of({1, 1, 1, 0, 0, 128}, dkdv, dq) == 0);
  CHECK(bytes_of({0, 1, 1, 128, 64, 128}, dkdv, dq) == 0);
  // Both passes share the slots: three rows of 512 key blocks, one of them split in at most 32 pieces; columns are short.
  CHECK(bytes_of({1, 1, 1, 300, 64 * 512, 128}, portable, dq) ==
        2 * 384 * 4 + 256 + 256 + 768 + 256 + 256 + std::size_t{32} * 128 * 128 * 4);
}
