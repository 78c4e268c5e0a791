/// The vocabulary: checked sizes, the carver, problems as keys, views.

#include <limits>
#include <type_traits>
#include <unordered_set>
#include <vector>

#include "sparge/core/carver.hpp"
#include "sparge/core/checked.hpp"
#include "sparge/core/mask_view.hpp"
#include "sparge/core/problem.hpp"
#include "sparge/core/status.hpp"
#include "sparge/core/tensor_view.hpp"
#include "support/catch.hpp"

using namespace sparge;

namespace {
constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();
}

TEST_CASE("a checked product is exact or absent") {
  CHECK(checked_product({}) == 1);
  CHECK(checked_product({6, 7}) == 42);
  CHECK(checked_product({largest, 1}) == largest);
  CHECK(checked_product({largest / 2, 2}) == largest - 1);
  CHECK_FALSE(checked_product({largest / 2 + 1, 2}));
  CHECK_FALSE(checked_product({std::int64_t{1} << 32, std::int64_t{1} << 31}));
  CHECK(checked_product({std::int64_t{1} << 31, std::int64_t{1} << 31}) == std::int64_t{1} << 62);
  CHECK_FALSE(checked_product({3, -1}));
}

TEST_CASE("a factor of 0 makes a product 0 however large the others are") {
  CHECK(checked_product({largest, largest, 0}) == 0);
  CHECK(checked_product({0, largest, largest}) == 0);
}

TEST_CASE("a checked sum is exact or absent") {
  CHECK(checked_sum(1, 2) == 3);
  CHECK(checked_sum(largest - 1, 1) == largest);
  CHECK_FALSE(checked_sum(largest, 1));
  CHECK_FALSE(checked_sum(std::nullopt, 1));
  CHECK_FALSE(checked_sum(1, std::nullopt));
}

TEST_CASE("ceil_div rounds up without overflow") {
  CHECK(ceil_div(0, 64) == 0);
  CHECK(ceil_div(1, 64) == 1);
  CHECK(ceil_div(64, 64) == 1);
  CHECK(ceil_div(65, 64) == 2);
  CHECK(ceil_div(largest, 64) == largest / 64 + 1);
}

TEST_CASE("the carver counts what it cuts, in aligned pieces that do not overlap") {
  std::int64_t const counts[] = {0, 1, 255, 256, 257, 1000};
  Carver counter;
  for (std::int64_t count : counts) {
    CHECK(counter.take<float>(count) == nullptr);
    CHECK(counter.take<double>(count) == nullptr);
    CHECK(counter.take<char>(count) == nullptr);
  }
  auto const base = std::uintptr_t{1} << 40;
  Carver cutter(reinterpret_cast<void*>(base));
  std::uintptr_t end = base;
  auto const check_piece = [&](auto* piece, std::int64_t count) {
    auto const start = reinterpret_cast<std::uintptr_t>(piece);
    CHECK(start % workspace_alignment == 0);
    CHECK(start >= end);
    end = start + static_cast<std::uintptr_t>(count) * sizeof(*piece);
  };
  for (std::int64_t count : counts) {
    check_piece(cutter.take<float>(count), count);
    check_piece(cutter.take<double>(count), count);
    check_piece(cutter.take<char>(count), count);
  }
  CHECK(cutter.bytes() == counter.bytes());
  CHECK(base + cutter.bytes() >= end);
}

TEST_CASE("a carver that took nothing needs nothing") {
  Carver counter;
  counter.take<float>(0);
  CHECK(counter.bytes() == 0);
}

TEST_CASE("U50 a problem counts partial blocks as blocks") {
  AttentionProblem const wan{1, 12, 12, 32760, 32760, 128};
  CHECK(wan.q_blocks() == 256);
  CHECK(wan.kv_blocks() == 512);
  CHECK(wan.row_words() == 16);
  AttentionProblem const large{1, 40, 40, 75600, 75600, 128};
  CHECK(large.q_blocks() == 591);
  CHECK(large.kv_blocks() == 1182);
  CHECK(large.row_words() == 37);
  AttentionProblem const none{1, 1, 1, 0, 0, 64};
  CHECK(none.q_blocks() == 0);
  CHECK(none.kv_blocks() == 0);
  CHECK(none.row_words() == 0);
}

TEST_CASE("a scale of 0 means 1 over the root of head_dim") {
  AttentionProblem p{1, 1, 1, 1, 1, 64};
  CHECK(p.logit_scale() == 0.125f);
  p.scale = 0.3f;
  CHECK(p.logit_scale() == 0.3f);
}

TEST_CASE("problems differ when any field differs, and equal ones hash alike") {
  AttentionProblem const base{1, 12, 4, 200, 300, 128};
  std::vector<AttentionProblem> all(13, base);
  all[1].batch = 2;
  all[2].heads = 16;
  all[3].kv_heads = 6;
  all[4].q_tokens = 201;
  all[5].kv_tokens = 301;
  all[6].head_dim = 64;
  all[7].q_block = 64;
  all[8].kv_block = 128;
  all[9].scale = 0.5f;
  all[10].order = TokenOrder::causal_bottom_right;
  all[11].q_offset = 1;
  all[12].all_q_tokens = 1;
  std::hash<AttentionProblem> const hash;
  std::unordered_set<AttentionProblem> const set(all.begin(), all.end());
  CHECK(set.size() == all.size());
  for (std::size_t i = 0; i < all.size(); ++i)
    for (std::size_t j = 0; j < all.size(); ++j) {
      CHECK((all[i] == all[j]) == (i == j));
      CHECK((all[i] != all[j]) == (i != j));
      CHECK((hash(all[i]) == hash(all[j])) == (i == j));
    }
  AttentionProblem const copy = base;
  CHECK(hash(copy) == hash(base));
  AttentionProblem swapped = base;
  std::swap(swapped.q_tokens, swapped.kv_tokens);
  CHECK(hash(swapped) != hash(base));
}

TEST_CASE("equal scales of either zero hash alike") {
  AttentionProblem a{1, 1, 1, 1, 1, 64}, b = a;
  b.scale = -0.0f;
  CHECK(a == b);
  CHECK(std::hash<AttentionProblem>{}(a) == std::hash<AttentionProblem>{}(b));
}

TEST_CASE("views that may write convert to views that only read, and not back") {
  float data[2 * 3 * 4 * 8];
  TensorView<float> const view = contiguous_bhnd(data, 2, 3, 4, 8);
  TensorView<float const> const read = view;
  CHECK(read.data == data);
  CHECK(read.shape[1] == 3);
  CHECK(read.stride[0] == 3 * 4 * 8);
  CHECK_FALSE(std::is_convertible_v<TensorView<float const>, TensorView<float>>);
  CHECK(std::is_convertible_v<MaskOut, MaskView>);
  CHECK_FALSE(std::is_convertible_v<MaskView, MaskOut>);
}

TEST_CASE("U70 the two contiguous layouts address the same logical element") {
  TensorView<float> const bhnd = contiguous_bhnd<float>(nullptr, 2, 3, 4, 8);
  TensorView<float> const bnhd = contiguous_bnhd<float>(nullptr, 2, 3, 4, 8);
  for (int axis = 0; axis < 4; ++axis) CHECK(bhnd.shape[axis] == bnhd.shape[axis]);
  auto const strides = [](TensorView<float> const& v) {
    return std::vector<std::int64_t>(v.stride, v.stride + 4);
  };
  CHECK(strides(bhnd) == std::vector<std::int64_t>{96, 32, 8, 1});
  CHECK(strides(bnhd) == std::vector<std::int64_t>{96, 8, 24, 1});
}

TEST_CASE("a status is ok until it says otherwise") {
  CHECK(Status{}.ok());
  CHECK(static_cast<bool>(Status{}));
  CHECK_FALSE(Status{StatusCode::unsupported}.ok());
}
