/// Conversions of a mask, each against plain loops on the host.

#include <algorithm>
#include <limits>

#include "op/mask_runs.hpp"
#include "sparge/sparge.hpp"
#include "support/catch.hpp"
#include "support/gpu.hpp"

using namespace sparge;
using namespace sparge::test;

namespace {

/// Row widths around words and rows around 32, tails on both axes.
std::vector<AttentionProblem> problems() {
  std::vector<AttentionProblem> all;
  for (std::int64_t kv_blocks : {1, 5, 31, 32, 33, 64, 65, 1182, 1861})
    all.push_back({2, 3, 1, 128 * 5 - 1, 64 * kv_blocks - 7, 64});
  for (std::int64_t q_blocks : {1, 31, 32, 33, 65}) all.push_back({1, 2, 2, 128 * q_blocks - 9, 64 * 70, 64});
  all.push_back({1, 1, 1, 1, 1, 128, 64, 128});
  return all;
}

/// Rows of 0, 1, all, 2 and all but one blocks: no two neighbours alike.
MaskWords some_mask(AttentionProblem const& p) {
  Random random(static_cast<std::uint64_t>(p.kv_tokens));
  return uneven_mask(p, random);
}

std::vector<std::uint8_t> bytes_of(AttentionProblem const& p, MaskWords const& words) {
  std::vector<std::uint8_t> bytes;
  for (std::int64_t row = 0; row < mask_rows(p); ++row)
    for (bool bit : row_bits(p, words, row)) bytes.push_back(bit);
  return bytes;
}

MaskWords transposed_of(AttentionProblem const& p, MaskWords const& words) {
  std::int64_t const column_words = (p.q_blocks() + 31) / 32;
  MaskWords transposed(static_cast<std::size_t>(p.batch * p.heads * p.kv_blocks() * column_words), 0);
  for (std::int64_t row = 0; row < mask_rows(p); ++row) {
    std::int64_t const head = row / p.q_blocks(), i = row % p.q_blocks();
    std::vector<bool> const bits = row_bits(p, words, row);
    for (std::int64_t j = 0; j < p.kv_blocks(); ++j)
      if (bits[j]) transposed[(head * p.kv_blocks() + j) * column_words + i / 32] |= 1u << (i % 32);
  }
  return transposed;
}

HostLists lists_of(AttentionProblem const& p, MaskWords const& words, std::int64_t capacity) {
  HostLists lists{{}, {}, capacity};
  for (std::int64_t row = 0; row < mask_rows(p); ++row) {
    std::vector<bool> const bits = row_bits(p, words, row);
    for (std::int64_t j = 0; j < p.kv_blocks(); ++j)
      if (bits[j]) lists.indices.push_back(static_cast<std::int32_t>(j));
    lists.counts.push_back(static_cast<std::int32_t>(count_row(p, words, row)));
    lists.indices.resize(static_cast<std::size_t>((row + 1) * capacity), -1);
  }
  return lists;
}

}  // namespace

TEST_CASE("a transposed mask has each bit at its place and zeros in its padding", "[gpu]") {
  SKIP_WITHOUT_GPU();
  for (AttentionProblem const& p : problems()) {
    CAPTURE(p.q_blocks(), p.kv_blocks());
    MaskWords words = some_mask(p);
    CHECK(run_transpose(p, words) == transposed_of(p, words));
    MaskWords const clean = transposed_of(p, words);
    dirty_padding(p, words);
    CHECK(run_transpose(p, words) == clean);
  }
}

TEST_CASE("U69 bits become bytes and bytes become bits at any byte alignment", "[gpu]") {
  SKIP_WITHOUT_GPU();
  for (AttentionProblem const& p : problems())
    for (std::size_t offset : {0, 1, 2, 3, 7, 15}) {
      CAPTURE(p.q_blocks(), p.kv_blocks(), offset);
      MaskWords words = some_mask(p);
      std::vector<std::uint8_t> bytes = bytes_of(p, words);
      CHECK(run_from_bytes(p, bytes, offset) == words);
      MaskWords const clean = words;
      dirty_padding(p, words);
      CHECK(run_to_bytes(p, words, offset) == bytes);
      for (std::uint8_t& byte : bytes) byte = byte == 0 ? 0 : 0x80;  // any byte that is not 0 keeps
      CHECK(run_from_bytes(p, bytes, offset) == clean);
    }
}

TEST_CASE("U59 bits become ascending lists with rows of none and one and all", "[gpu]") {
  SKIP_WITHOUT_GPU();
  for (AttentionProblem const& p : problems())
    for (std::int64_t capacity : {p.kv_blocks(), p.kv_blocks() + 1, p.kv_blocks() + 37}) {
      CAPTURE(p.q_blocks(), p.kv_blocks(), capacity);
      MaskWords words = some_mask(p);
      HostLists const wanted = lists_of(p, words, capacity);
      dirty_padding(p, words);
      HostLists const lists = run_to_lists(p, words, capacity);
      CHECK(lists.counts == wanted.counts);
      CHECK(lists.indices == wanted.indices);
    }
}

TEST_CASE("lists in any order become bits", "[gpu]") {
  SKIP_WITHOUT_GPU();
  for (AttentionProblem const& p : problems()) {
    CAPTURE(p.q_blocks(), p.kv_blocks());
    MaskWords const words = some_mask(p);
    HostLists lists = lists_of(p, words, p.kv_blocks());
    CHECK(run_from_lists(p, lists) == words);
    Random random(5);
    for (std::int64_t row = 0; row < mask_rows(p); ++row) {
      auto const first = lists.indices.begin() + row * lists.capacity;
      for (std::int64_t i = lists.counts[row] - 1; i > 0; --i)
        std::swap(first[i], first[random.below(i + 1)]);
    }
    CHECK(run_from_lists(p, lists) == words);
  }
}

TEST_CASE("duplicate entries of a list are idempotent and foreign ones are skipped", "[gpu]") {
  SKIP_WITHOUT_GPU();
  AttentionProblem const p{1, 2, 1, 300, 64 * 40, 64};
  std::int32_t const most = std::numeric_limits<std::int32_t>::max(),
                     least = std::numeric_limits<std::int32_t>::min();
  std::int64_t const capacity = 200;
  HostLists lists{{}, {}, capacity};
  for (std::int64_t row = 0; row < mask_rows(p); ++row) {
    for (std::int64_t i = 0; i < capacity; ++i) {
      std::int32_t const foreign[] = {-1, 40, 63, 64, most, least};
      std::int32_t const entry = i % 3 == 0 ? foreign[(i / 3) % 6] : static_cast<std::int32_t>(7 * (i % 5));
      lists.indices.push_back(entry);
    }
    lists.counts.push_back(static_cast<std::int32_t>(capacity));
  }
  MaskWords const words = run_from_lists(p, lists);
  for (std::int64_t row = 0; row < mask_rows(p); ++row)
    for (std::int64_t j = 0; j < p.kv_blocks(); ++j)
      CHECK(row_bits(p, words, row)[j] == (j % 7 == 0 && j <= 28));
  CHECK(padding_is_zero(p, words));
}

TEST_CASE("counts of lists are clamped to none and to the capacity", "[gpu]") {
  SKIP_WITHOUT_GPU();
  AttentionProblem const p{1, 1, 1, 128 * 5, 64 * 50, 64};
  std::int32_t const most = std::numeric_limits<std::int32_t>::max(),
                     least = std::numeric_limits<std::int32_t>::min();
  HostLists lists{{-1, least, 0, 4, most}, {}, 3};
  for (std::int32_t i = 0; i < 15; ++i) lists.indices.push_back(i);
  MaskWords const words = run_from_lists(p, lists);
  for (std::int64_t row = 0; row < 5; ++row)
    for (std::int64_t j = 0; j < 50; ++j)
      CHECK(row_bits(p, words, row)[j] == (row >= 3 && j >= 3 * row && j < 3 * row + 3));
}

TEST_CASE("lists of no capacity are an empty mask", "[gpu]") {
  SKIP_WITHOUT_GPU();
  AttentionProblem const p{1, 2, 1, 300, 64 * 40, 64};
  CHECK(run_from_lists(p, {std::vector<std::int32_t>(6, 5), {}, 0}) == MaskWords(words_of(p), 0));
}

TEST_CASE("U76 the densest mask of 32 heads and 384 blocks fits its forms", "[gpu]") {
  SKIP_WITHOUT_GPU();
  AttentionProblem const p{1, 32, 32, 49152, 64 * 384, 64};
  MaskWords const words = full_mask(p);
  HostLists const lists = run_to_lists(p, words, p.kv_blocks());
  CHECK(std::all_of(lists.counts.begin(), lists.counts.end(), [](auto count) { return count == 384; }));
  CHECK(run_from_lists(p, lists) == words);
  CHECK(run_from_bytes(p, run_to_bytes(p, words)) == words);
  CHECK(run_transpose(p, words) == transposed_of(p, words));
}

TEST_CASE("U05 forms of no query or no key", "[gpu]") {
  SKIP_WITHOUT_GPU();
  for (AttentionProblem const& p :
       {AttentionProblem{0, 2, 1, 100, 100, 64}, AttentionProblem{2, 2, 1, 0, 100, 64},
        AttentionProblem{2, 2, 1, 100, 0, 64}}) {
    CHECK(run_to_bytes(p, {}).empty());
    CHECK(run_from_bytes(p, {}).empty());
    HostLists const lists = run_to_lists(p, {}, 3);
    CHECK(lists.counts == std::vector<std::int32_t>(static_cast<std::size_t>(mask_rows(p)), 0));
    CHECK(lists.indices == std::vector<std::int32_t>(static_cast<std::size_t>(3 * mask_rows(p)), -1));
    CHECK(run_from_lists(p, lists).empty());
    MaskWords const transposed = run_transpose(p, {});
    CHECK(transposed == transposed_of(p, {}));
  }
}
