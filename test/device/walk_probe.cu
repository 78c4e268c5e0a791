#include "probe.hpp"
#include "probe_run.cuh"
#include "sparge/collective/column_walk.cuh"
#include "sparge/collective/row_walk.cuh"
#include "sparge/collective/tile_order.cuh"

namespace sparge::probe {

/// Lane l writes column l of `visited` [capacity][32]: all lanes must agree. Ends with two more calls past the end.
__global__ void row_walk_kernel(std::uint32_t const* row, int blocks, int* visited) {
  RowWalk walk({row}, blocks);
  int count = 0;
  for (int block = walk.next(); block >= 0; block = walk.next()) visited[32 * count++ + threadIdx.x] = block;
  for (int extra = 0; extra < 2; ++extra) visited[32 * count++ + threadIdx.x] = walk.next();
}

/// Of blocks first .. end - 1 alone.
__global__ void part_walk_kernel(std::uint32_t const* row, int first, int end, int* visited) {
  RowWords const words{row};
  RowWalk walk(words, first, end, words.load(RowWalk::chunk_of(first), end));
  int count = 0;
  for (int block = walk.next(); block >= 0; block = walk.next()) visited[32 * count++ + threadIdx.x] = block;
  for (int extra = 0; extra < 2; ++extra) visited[32 * count++ + threadIdx.x] = walk.next();
}

__global__ void tile_walk_kernel(std::uint32_t const* row, int blocks, int tiles_per_block, int tiles,
                                 int* visited) {
  TileWalk<RowWalk> walk(RowWalk({row}, blocks), tiles_per_block, tiles);
  int count = 0;
  for (int tile = walk.next(); tile >= 0; tile = walk.next()) visited[32 * count++ + threadIdx.x] = tile;
  for (int extra = 0; extra < 2; ++extra) visited[32 * count++ + threadIdx.x] = walk.next();
}

/// Visits are head * tiles + tile.
__global__ void group_walk_kernel(std::uint32_t const* mask, int heads, int kv_block, int q_blocks,
                                  int row_words, int tiles_per_block, int tiles, int* visited) {
  ColumnWords const words{mask + kv_block / 32, row_words, kv_block % 32};
  GroupWalk walk(words, std::int64_t{q_blocks} * row_words, heads, q_blocks, tiles_per_block, tiles);
  auto const next = [&] {
    TilePlace const place = walk.next();
    return place.exists() ? place.head * tiles + place.tile : -1;
  };
  int count = 0;
  for (int at = next(); at >= 0; at = next()) visited[32 * count++ + threadIdx.x] = at;
  for (int extra = 0; extra < 2; ++extra) visited[32 * count++ + threadIdx.x] = next();
}

/// What lane 0 visited, up to the first -1, provided that every lane saw the same and that the end stays the end.
static std::vector<int> agreed(std::vector<int> const& visited) {
  std::vector<int> result;
  std::size_t step = 0;
  for (; visited[32 * step] >= 0; ++step) result.push_back(visited[32 * step]);
  for (std::size_t i = 0; i < step + 2; ++i)
    for (int lane = 0; lane < 32; ++lane)
      if (visited[32 * i + lane] != (i < step ? result[i] : -1)) throw std::runtime_error("lanes disagree");
  return result;
}

std::vector<int> row_walk(std::vector<std::uint32_t> const& row, int blocks) {
  Array<std::uint32_t> const in(row);
  Array<int> const visited(32 * (static_cast<std::size_t>(blocks) + 3));
  row_walk_kernel<<<1, 32>>>(in.data(), blocks, visited.data());
  return agreed(visited.download());
}

std::vector<int> part_walk(std::vector<std::uint32_t> const& row, int first, int end) {
  Array<std::uint32_t> const in(row);
  Array<int> const visited(32 * (static_cast<std::size_t>(end) + 3));
  part_walk_kernel<<<1, 32>>>(in.data(), first, end, visited.data());
  return agreed(visited.download());
}

std::vector<int> tile_walk(std::vector<std::uint32_t> const& row, int blocks, int tiles_per_block,
                           int tiles) {
  Array<std::uint32_t> const in(row);
  Array<int> const visited(32 * (static_cast<std::size_t>(blocks) * tiles_per_block + 3));
  tile_walk_kernel<<<1, 32>>>(in.data(), blocks, tiles_per_block, tiles, visited.data());
  return agreed(visited.download());
}

std::vector<int> group_walk(std::vector<std::uint32_t> const& mask, int heads, int kv_block, int q_blocks,
                            int row_words, int tiles_per_block, int tiles) {
  Array<std::uint32_t> const in(mask);
  Array<int> const visited(32 * (static_cast<std::size_t>(heads) * tiles + 3));
  group_walk_kernel<<<1, 32>>>(in.data(), heads, kv_block, q_blocks, row_words, tiles_per_block, tiles,
                               visited.data());
  return agreed(visited.download());
}

__global__ void tile_order_kernel(int heads, int q_tiles, int* out) {
  TilePosition const at = head_major_tile(blockIdx.x, q_tiles, heads);
  out[3 * blockIdx.x] = at.batch, out[3 * blockIdx.x + 1] = at.head, out[3 * blockIdx.x + 2] = at.tile;
}

std::vector<int> tile_order(int batches, int heads, int q_tiles) {
  int const tiles = batches * heads * q_tiles;
  Array<int> const out(static_cast<std::size_t>(3) * tiles);
  tile_order_kernel<<<tiles, 1>>>(heads, q_tiles, out.data());
  return out.download();
}

}  // namespace sparge::probe
