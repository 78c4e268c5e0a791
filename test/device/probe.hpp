#pragma once
/// Runs one warp or block of device code and brings back what it computed. The kernels are in the .cu files beside this;
/// Catch2 stays out of nvcc's sight.

#include <cstdint>
#include <vector>

#include "sparge/plan/schedule.hpp"

namespace sparge::probe {

// ---- convert, math, swizzle ----
std::vector<std::uint32_t> pack_bf16(std::vector<float> const& low, std::vector<float> const& high);
std::vector<std::uint32_t> pack_f16(std::vector<float> const& low, std::vector<float> const& high);
std::vector<float> exp2_fast(std::vector<float> const& x);
/// Offsets of all (row, chunk) of a tile with 64 or 128 channels, row-major.
std::vector<int> swizzle_offsets(int channels, int rows);
/// Address of chunk c + on reached by step() from chunk c, minus the one computed directly; all rows and chunks of 128 channels.
std::vector<int> swizzle_step_errors(int rows);

// ---- copies ----
/// Copies 32 chunks of 16 bytes, chunk i only where valid[i].
std::vector<std::uint8_t> cp_async(std::vector<std::uint8_t> const& source, std::vector<int> const& valid);
/// Loads tokens first .. first + 63 of a [tokens, channels] tensor of 16-bit values and returns the tile unswizzled.
std::vector<std::uint16_t> load_tile(std::vector<std::uint16_t> const& tensor, int tokens, int channels,
                                     int token_stride, int first);

// ---- fragments and products, 16-bit inputs as bf16 or f16 bit patterns ----
enum class Type { bf16, f16 };
/// D[16][8] = A[16][16] B[8][16]^T through ldmatrix and mma.sync, read back through Fragment's rows and columns.
std::vector<float> product_by_rows(Type type, std::vector<std::uint16_t> const& a,
                                   std::vector<std::uint16_t> const& b);
/// D[16][8] = A[16][16] B[16][8], B through the transposing ldmatrix.
std::vector<float> product_by_columns(Type type, std::vector<std::uint16_t> const& a,
                                      std::vector<std::uint16_t> const& b);
/// Rounds a 16x64 accumulator to an A operand and multiplies it with the 64x8 identity columns `first` .. first + 7.
std::vector<float> operand_round_trip(Type type, std::vector<float> const& accumulator, int first);
/// Stages a 16x128 accumulator in bf16 and stores its first `valid_rows` rows over `out` [16, row_stride].
std::vector<std::uint16_t> stage_and_store(std::vector<float> const& accumulator,
                                           std::vector<std::uint16_t> out, int row_stride, int valid_rows);

// ---- softmax and masks ----
struct Softmax {
  std::vector<float> weights;   ///< [tiles][16][64], each in units of its own tile's reference
  std::vector<float> rescale;   ///< [tiles][16]
  std::vector<float> sum, lse;  ///< [16]
  bool needs_exact;             ///< some row does
};
enum class Reference { scaled, exact };
/// Feeds 16x64 tiles of logits one after another; columns at or past valid_columns of the last tile do not exist.
Softmax online_softmax(Reference reference, std::vector<float> const& logits, float scale_log2,
                       int valid_columns);

// ---- walks ----
std::vector<int> row_walk(std::vector<std::uint32_t> const& row, int blocks);
/// Of blocks first .. end - 1 alone.
std::vector<int> part_walk(std::vector<std::uint32_t> const& row, int first, int end);
std::vector<int> tile_walk(std::vector<std::uint32_t> const& row, int blocks, int tiles_per_block, int tiles);
/// Visits of key block `kv_block` in a mask [heads][q_blocks][row_words], as head * tiles + tile.
std::vector<int> group_walk(std::vector<std::uint32_t> const& mask, int heads, int kv_block, int q_blocks,
                            int row_words, int tiles_per_block, int tiles);
/// Tile and slot of every item that `producers` warps get from the queue of a schedule in device memory, in any order.
std::vector<int> take_all(Schedule const& schedule, int tiles, int blocks, int producers);
/// Orders rows by warps of thread blocks whose others do nothing, as O does: 3 warps of a block, or 2. `mask` is in device memory.
void order_inside(Schedule const& schedule, ScheduleShape const& shape, std::uint32_t const* mask,
                  int crew_warps, int thread_blocks);
/// (batch, head, q_tile) of every index below batches * heads * q_tiles.
std::vector<int> tile_order(int batches, int heads, int q_tiles);

}  // namespace sparge::probe
