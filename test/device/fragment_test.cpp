#include "bits.hpp"
#include "probe.hpp"
#include "support/catch.hpp"
#include "support/gpu.hpp"

using namespace sparge::probe;

TEST_CASE("a warp's product with B stored by rows of columns is exact on small integers", "[gpu]") {
  SKIP_WITHOUT_GPU();
  for (Type type : {Type::bf16, Type::f16}) {
    auto const a = small_integers(256, 1), b = small_integers(128, 2);
    auto const d = product_by_rows(type, to_bits(type, a), to_bits(type, b));
    for (int row = 0; row < 16; ++row)
      for (int column = 0; column < 8; ++column) {
        float expected = 0;
        for (int k = 0; k < 16; ++k) expected += a[row * 16 + k] * b[column * 16 + k];
        CHECK(d[row * 8 + column] == expected);
      }
  }
}

TEST_CASE("a warp's product with B stored by rows of k is exact on small integers", "[gpu]") {
  SKIP_WITHOUT_GPU();
  for (Type type : {Type::bf16, Type::f16}) {
    auto const a = small_integers(256, 3), b = small_integers(128, 4);
    auto const d = product_by_columns(type, to_bits(type, a), to_bits(type, b));
    for (int row = 0; row < 16; ++row)
      for (int column = 0; column < 8; ++column) {
        float expected = 0;
        for (int k = 0; k < 16; ++k) expected += a[row * 16 + k] * b[k * 8 + column];
        CHECK(d[row * 8 + column] == expected);
      }
  }
}

TEST_CASE("an accumulator becomes the A operand of the next product element by element", "[gpu]") {
  SKIP_WITHOUT_GPU();
  for (Type type : {Type::bf16, Type::f16})
    for (int first = 0; first < 64; first += 8) {
      std::vector<float> accumulator(16 * 64);
      for (std::size_t i = 0; i < accumulator.size(); ++i)
        accumulator[i] = 0.001f * static_cast<float>(i) - 0.4f;
      auto const d = operand_round_trip(type, accumulator, first);
      for (int row = 0; row < 16; ++row)
        for (int column = 0; column < 8; ++column)
          CHECK(d[row * 8 + column] ==
                from_bits(type, to_bits(type, accumulator[row * 64 + first + column])));
    }
}

TEST_CASE("staged rows reach memory in order and rows past the valid ones are untouched", "[gpu]") {
  SKIP_WITHOUT_GPU();
  auto const accumulator = small_integers(16 * 128, 5);
  for (int valid_rows : {0, 1, 7, 16, 100}) {
    CAPTURE(valid_rows);
    int const row_stride = 136;
    std::vector<std::uint16_t> const before(16 * row_stride, 0x7777);
    auto const after = stage_and_store(accumulator, before, row_stride, valid_rows);
    int wrong = 0;
    for (int row = 0; row < 16; ++row)
      for (int channel = 0; channel < row_stride; ++channel) {
        bool const written = row < valid_rows && channel < 128;
        std::uint16_t const expected =
            written ? to_bits(Type::bf16, accumulator[row * 128 + channel]) : std::uint16_t{0x7777};
        wrong += after[row * row_stride + channel] != expected;
      }
    CHECK(wrong == 0);
  }
}
