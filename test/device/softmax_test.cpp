#include <cmath>
#include <limits>

#include "bits.hpp"
#include "probe.hpp"
#include "support/catch.hpp"
#include "support/compare.hpp"
#include "support/gpu.hpp"

using namespace sparge::probe;
using sparge::test::max_or_nan;

namespace {

constexpr double log2_e = 1.4426950408889634;
constexpr float inf = std::numeric_limits<float>::infinity();

/// Checks sum, lse and the weights brought to the last reference against f64.
void check_rows(Reference reference, std::vector<float> const& logits, float scale, int valid_columns) {
  int const tiles = static_cast<int>(logits.size()) / 1024;
  auto const got = online_softmax(reference, logits, static_cast<float>(scale * log2_e), valid_columns);
  for (int row = 0; row < 16; ++row) {
    CAPTURE(row);
    std::vector<double> kept, weight;
    for (int tile = 0; tile < tiles; ++tile)
      for (int column = 0; column < (tile + 1 == tiles ? valid_columns : 64); ++column) {
        double factor = got.weights[(tile * 16 + row) * 64 + column];
        for (int later = tile + 1; later < tiles; ++later) factor *= got.rescale[later * 16 + row];
        kept.push_back(double{scale} * logits[(tile * 16 + row) * 64 + column]);
        weight.push_back(factor);
      }
    double maximum = -inf, sum = 0;
    for (double logit : kept) maximum = std::max(maximum, logit);
    if (maximum == -inf) {
      CHECK(got.sum[row] == 0);
      CHECK(got.lse[row] == -inf);
      continue;
    }
    for (double logit : kept) sum += std::exp(logit - maximum);
    double const lse = maximum + std::log(sum);
    double const rounding = 4e-6 + 3e-7 * std::abs(maximum);
    CHECK(std::abs(got.lse[row] - lse) <= rounding);
    double worst = 0;
    for (std::size_t i = 0; i < kept.size(); ++i)
      worst = max_or_nan(worst, std::abs(weight[i] / got.sum[row] - std::exp(kept[i] - lse)));
    CHECK(worst <= rounding);
  }
}

void check_rows(std::vector<float> const& logits, float scale, int valid_columns) {
  check_rows(Reference::scaled, logits, scale, valid_columns);
  check_rows(Reference::exact, logits, scale, valid_columns);
}

std::vector<float> random_logits(int tiles, float spread, std::uint32_t seed) {
  auto logits = small_integers(static_cast<std::size_t>(tiles) * 1024, seed);
  for (std::size_t i = 0; i < logits.size(); ++i)
    logits[i] = spread * (logits[i] + 0.013f * static_cast<float>(i % 71));
  return logits;
}

}  // namespace

TEST_CASE("online softmax over tiles equals softmax over the whole row", "[gpu]") {
  SKIP_WITHOUT_GPU();
  for (int valid : {1, 8, 63, 64}) {
    check_rows(random_logits(1, 1.0f, 1), 0.125f, valid);
    check_rows(random_logits(5, 1.0f, 2), 0.125f, valid);
    check_rows(random_logits(3, 10.0f, 3), 1.0f, valid);
  }
}

TEST_CASE("online softmax keeps its sum when a far larger logit comes last", "[gpu]") {
  SKIP_WITHOUT_GPU();
  auto logits = random_logits(3, 1.0f, 4);
  for (int row = 0; row < 16; ++row) logits[(2 * 16 + row) * 64 + 5] = 200.0f;
  check_rows(logits, 1.0f, 64);
}

TEST_CASE("online softmax of a row without finite logits is empty until one comes", "[gpu]") {
  SKIP_WITHOUT_GPU();
  std::vector<float> const none(2 * 1024, -inf);
  check_rows(none, 0.5f, 64);
  auto late = none;
  auto const last = random_logits(1, 1.0f, 6);
  std::copy(last.begin(), last.end(), late.begin() + 1024);
  check_rows(late, 0.5f, 64);
}

TEST_CASE("online softmax turns a NaN or infinite logit into a NaN row and leaves the others alone",
          "[gpu]") {
  SKIP_WITHOUT_GPU();
  auto logits = random_logits(2, 1.0f, 7);
  logits[3 * 64 + 9] = std::nanf("");
  logits[(16 + 8) * 64 + 1] = inf;
  for (Reference reference : {Reference::scaled, Reference::exact}) {
    auto const got = online_softmax(reference, logits, 0.2f, 64);
    for (int row = 0; row < 16; ++row) CHECK(std::isnan(got.sum[row]) == (row == 3 || row == 8));
  }
}

TEST_CASE("equal logits of a million share their weight exactly", "[gpu]") {
  SKIP_WITHOUT_GPU();
  std::vector<float> const logits(2 * 1024, 1e6f);
  for (Reference reference : {Reference::scaled, Reference::exact}) {
    auto const got = online_softmax(reference, logits, 0.7213f, 64);
    CHECK(got.needs_exact);
    for (int row = 0; row < 16; ++row)
      for (int i = 0; i < 64; ++i) {
        CHECK(got.weights[row * 64 + i] == got.weights[(16 + row) * 64 + i]);
        CHECK((reference == Reference::scaled || got.weights[row * 64 + i] == 1));
        CHECK(got.rescale[16 + row] == 1);
      }
  }
}

TEST_CASE("scaled logits past the largest float still have one winner", "[gpu]") {
  SKIP_WITHOUT_GPU();
  std::vector<float> logits(1024, 1e30f);
  for (int row = 0; row < 16; ++row) logits[row * 64 + row] = 3e31f;
  CHECK(online_softmax(Reference::scaled, logits, 1.44e7f, 64).needs_exact);
  auto const got = online_softmax(Reference::exact, logits, 1.44e7f, 64);
  for (int row = 0; row < 16; ++row)
    for (int i = 0; i < 64; ++i) CHECK(got.weights[row * 64 + i] == (i == row ? 1 : 0));
}

TEST_CASE("the largest weight rounds to 1 in every element type whatever the size of the logits", "[gpu]") {
  SKIP_WITHOUT_GPU();
  for (float offset : {0.0f, 3.0f, 1234.567f, 2800.25f, 3000.125f, 98765.43f, 1.2345e6f, -77777.7f}) {
    CAPTURE(offset);
    auto logits = random_logits(2, 1.0f, 8);
    for (float& logit : logits) logit += offset;
    auto got = online_softmax(Reference::scaled, logits, 0.7213475f, 64);
    CHECK(got.needs_exact == (std::abs(offset) > 2820));
    if (got.needs_exact) got = online_softmax(Reference::exact, logits, 0.7213475f, 64);
    for (int row = 0; row < 16; ++row) {
      float largest = 0;
      for (int i = 0; i < 64; ++i) largest = std::max(largest, got.weights[row * 64 + i]);
      CHECK(from_bits(Type::bf16, to_bits(Type::bf16, largest)) == 1);
      CHECK(from_bits(Type::f16, to_bits(Type::f16, largest)) == 1);
    }
  }
}
