#include "probe.hpp"
#include "support/catch.hpp"
#include "support/gpu.hpp"

using namespace sparge::probe;

namespace {

std::vector<std::uint32_t> row_of(std::vector<int> const& blocks, int count) {
  std::vector<std::uint32_t> row(static_cast<std::size_t>(count + 31) / 32 +
                                 1);  // one word more: never empty
  for (int block : blocks) row[block / 32] |= 1u << block % 32;
  return row;
}

std::vector<int> every(int step, int count) {
  std::vector<int> blocks;
  for (int block = 0; block < count; block += step) blocks.push_back(block);
  return blocks;
}

}  // namespace

TEST_CASE("a row walk visits kept blocks in ascending order in rows of any length", "[gpu]") {
  SKIP_WITHOUT_GPU();
  for (int count : {0, 1, 5, 31, 32, 33, 512, 1023, 1024, 1025, 1182, 2049, 16384})
    for (int step : {1, 2, 37, 1000, 20000}) {
      CAPTURE(count, step);
      auto const blocks = every(step, count);
      CHECK(row_walk(row_of(blocks, count), count) == blocks);
    }
}

TEST_CASE("a row walk finds a lone block anywhere and nothing in an empty row", "[gpu]") {
  SKIP_WITHOUT_GPU();
  for (int block : {0, 31, 32, 1023, 1024, 2047, 5000})
    CHECK(row_walk(row_of({block}, 5001), 5001) == std::vector<int>{block});
  CHECK(row_walk(row_of({}, 5001), 5001).empty());
}

TEST_CASE("a walk of a part of a row visits its kept blocks alone", "[gpu]") {
  SKIP_WITHOUT_GPU();
  for (int step : {1, 3, 700})
    for (int first : {0, 1, 31, 32, 33, 1000, 1023, 1024, 1025, 2100})
      for (int end : {first, first + 1, first + 40, first + 1024, first + 1500}) {
        CAPTURE(step, first, end);
        std::vector<int> wanted;
        for (int block : every(step, 4000))
          if (block >= first && block < end) wanted.push_back(block);
        CHECK(part_walk(row_of(every(step, 4000), 4000), first, end) == wanted);
      }
}

TEST_CASE("U31 a row walk ignores bits past the last block", "[gpu]") {
  SKIP_WITHOUT_GPU();
  std::vector<std::uint32_t> const ones(64, 0xFFFFFFFFu);
  for (int count : {0, 1, 40, 1024, 1030}) CHECK(row_walk(ones, count) == every(1, count));
}

TEST_CASE("a tile walk expands blocks and leaves out tiles past the last token", "[gpu]") {
  SKIP_WITHOUT_GPU();
  CHECK(tile_walk(row_of({0, 3}, 4), 4, 2, 8) == std::vector<int>{0, 1, 6, 7});
  CHECK(tile_walk(row_of({0, 3}, 4), 4, 2, 7) == std::vector<int>{0, 1, 6});
  CHECK(tile_walk(row_of({3}, 4), 4, 2, 7) == std::vector<int>{6});
  CHECK(tile_walk(row_of({1, 2}, 4), 4, 1, 4) == std::vector<int>{1, 2});
  CHECK(tile_walk(row_of({}, 4), 4, 2, 8).empty());
}

TEST_CASE("a group walk visits the query tiles that keep a key block in one head after the other", "[gpu]") {
  SKIP_WITHOUT_GPU();
  constexpr int heads = 3, row_words = 3;
  for (int q_blocks : {1, 31, 32, 33, 255, 256, 257, 1024, 1100})
    for (int kv_block : {0, 31, 32, 69})
      for (int tiles_per_block : {1, 2}) {
        CAPTURE(q_blocks, kv_block, tiles_per_block);
        // The first head keeps the block often, the second never, the third in its last query block alone. All other bits
        // of the mask are set, those past the last key block too.
        auto const keeps = [&](int head, int q_block) {
          return head == 0 ? q_block % 5 != 3 : head == 2 && q_block == q_blocks - 1;
        };
        int const tiles = q_blocks * tiles_per_block - (tiles_per_block - 1);  // a half block at the end
        std::vector<std::uint32_t> mask(static_cast<std::size_t>(heads) * q_blocks * row_words, 0xFFFFFFFFu);
        std::vector<int> expected;
        for (int head = 0; head < heads; ++head)
          for (int q_block = 0; q_block < q_blocks; ++q_block)
            if (!keeps(head, q_block))
              mask[(head * q_blocks + q_block) * row_words + kv_block / 32] &= ~(1u << kv_block % 32);
            else
              for (int tile = q_block * tiles_per_block;
                   tile < (q_block + 1) * tiles_per_block && tile < tiles; ++tile)
                expected.push_back(head * tiles + tile);
        CHECK(group_walk(mask, heads, kv_block, q_blocks, row_words, tiles_per_block, tiles) == expected);
      }
}

TEST_CASE("tiles are ordered head by head and each comes once", "[gpu]") {
  SKIP_WITHOUT_GPU();
  auto const order = tile_order(2, 3, 5);
  std::size_t i = 0;
  for (int batch = 0; batch < 2; ++batch)
    for (int head = 0; head < 3; ++head)
      for (int tile = 0; tile < 5; ++tile, i += 3) {
        CHECK(order[i] == batch);
        CHECK(order[i + 1] == head);
        CHECK(order[i + 2] == tile);
      }
}
