#include <cmath>
#include <limits>
#include <set>

#include "bits.hpp"
#include "probe.hpp"
#include "support/catch.hpp"
#include "support/gpu.hpp"

using namespace sparge::probe;

TEST_CASE("pack rounds to nearest even and puts the lower column in the lower half", "[gpu]") {
  SKIP_WITHOUT_GPU();
  float const inf = std::numeric_limits<float>::infinity();
  std::vector<float> const low{1.0f, -2.5f, 1.00390625f, 1.01171875f, inf, 1e-30f, 65504.0f, -0.0f};
  std::vector<float> const high{3.0f, 0.1f, 1e5f, -inf, 2.0f, 1e-8f, 1e30f, 7.0f};
  auto const bf16 = pack_bf16(low, high), f16 = pack_f16(low, high);
  for (std::size_t i = 0; i < low.size(); ++i) {
    CAPTURE(i);
    CHECK(bf16[i] == (to_bits(Type::bf16, low[i]) | std::uint32_t{to_bits(Type::bf16, high[i])} << 16));
    CHECK(f16[i] == (to_bits(Type::f16, low[i]) | std::uint32_t{to_bits(Type::f16, high[i])} << 16));
  }
}

TEST_CASE("exp2 is right to two units in the last place and exact at the ends", "[gpu]") {
  SKIP_WITHOUT_GPU();
  std::vector<float> x;
  for (int i = 0; i < 512; ++i) x.push_back(-125.0f + 0.4375f * static_cast<float>(i));
  auto const y = exp2_fast(x);
  for (std::size_t i = 0; i < x.size(); ++i)
    CHECK(std::abs(y[i] - std::exp2(double{x[i]})) <= 2 * 1.2e-7 * std::exp2(double{x[i]}));
  float const inf = std::numeric_limits<float>::infinity();
  auto const ends = exp2_fast({-inf, inf, 0.0f, -1000.0f, std::nanf("")});
  CHECK(ends[0] == 0);
  CHECK(ends[1] == inf);
  CHECK(ends[2] == 1);
  CHECK(ends[3] == 0);
  CHECK(std::isnan(ends[4]));
}

TEST_CASE("a swizzled tile is a permutation whose chunk columns hit eight bank groups", "[gpu]") {
  SKIP_WITHOUT_GPU();
  for (int channels : {64, 128}) {
    CAPTURE(channels);
    int const rows = 64, chunks = channels / 8;
    auto const offsets = swizzle_offsets(channels, rows);
    std::set<int> const distinct(offsets.begin(), offsets.end());
    CHECK(distinct.size() == offsets.size());
    CHECK(*distinct.rbegin() == 16 * (rows * chunks - 1));
    for (int row = 0; row < rows; row += 8)
      for (int chunk = 0; chunk < chunks; ++chunk) {
        std::set<int> bank_groups;
        for (int r = 0; r < 8; ++r) bank_groups.insert(offsets[(row + r) * chunks + chunk] / 16 % 8);
        CHECK(bank_groups.size() == 8);
      }
  }
}

TEST_CASE("stepping to a later chunk equals computing its address", "[gpu]") {
  SKIP_WITHOUT_GPU();
  for (int error : swizzle_step_errors(64)) CHECK(error == 0);
}

TEST_CASE("cp async copies valid chunks and zero fills the others", "[gpu]") {
  SKIP_WITHOUT_GPU();
  std::vector<std::uint8_t> source(512);
  std::vector<int> valid(32);
  for (std::size_t i = 0; i < source.size(); ++i) source[i] = static_cast<std::uint8_t>(i * 7 + 1);
  for (std::size_t i = 0; i < valid.size(); ++i) valid[i] = i % 3 != 0;
  auto const copied = cp_async(source, valid);
  for (std::size_t i = 0; i < source.size(); ++i) CHECK(copied[i] == (valid[i / 16] ? source[i] : 0));
}

TEST_CASE("a loaded tile holds its tokens and zeros past the last one", "[gpu]") {
  SKIP_WITHOUT_GPU();
  for (int channels : {64, 128})
    for (int tokens : {1, 63, 64, 100, 129})
      for (int first : {0, 64}) {
        CAPTURE(channels, tokens, first);
        int const stride = channels + 8;
        std::vector<std::uint16_t> tensor(static_cast<std::size_t>(tokens) * stride);
        for (std::size_t i = 0; i < tensor.size(); ++i) tensor[i] = static_cast<std::uint16_t>(i % 65521 + 1);
        auto const tile = load_tile(tensor, tokens, channels, stride, first);
        int wrong = 0;
        for (int row = 0; row < 64; ++row)
          for (int channel = 0; channel < channels; ++channel) {
            bool const exists = first + row < tokens;
            std::uint16_t const expected =
                exists ? tensor[static_cast<std::size_t>(first + row) * stride + channel] : 0;
            wrong += tile[static_cast<std::size_t>(row) * channels + channel] != expected;
          }
        CHECK(wrong == 0);
      }
}
