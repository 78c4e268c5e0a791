/// Pooling: means over valid tokens only, and the law that ties pooled scores to logits.

#include <cmath>

#include "sparge/reference/mask.hpp"
#include "sparge/reference/pool.hpp"
#include "support/catch.hpp"
#include "support/random.hpp"

using namespace sparge;
using namespace sparge::test;

TEST_CASE("a pooled score is the mean of the block pair's scaled logits") {
  AttentionProblem const p{2, 4, 2, 200, 150, 64};
  Random random(1);
  HostTensor<bfloat16> q(q_shape(p)), k(kv_shape(p));
  fill_heavy_tailed(q, random);
  fill_common_offset(k, random);
  std::vector<double> const pooled_q = reference::pool(q.view(), p.q_block);
  std::vector<double> const pooled_k = reference::pool(k.view(), p.kv_block);
  std::int64_t const b = 1, h = 3, kv_head = 1;
  for (std::int64_t i = 0; i < p.q_blocks(); ++i)
    for (std::int64_t j = 0; j < p.kv_blocks(); ++j) {
      auto const rows = reference::block_tokens(i, p.q_block, p.q_tokens);
      auto const keys = reference::block_tokens(j, p.kv_block, p.kv_tokens);
      double sum = 0, pooled = 0, magnitude = 0;
      for (std::int64_t n = rows.begin; n < rows.end; ++n)
        for (std::int64_t m = keys.begin; m < keys.end; ++m)
          for (int c = 0; c < 64; ++c) {
            double const product =
                reference::to_double(q.at(b, h, n, c)) * reference::to_double(k.at(b, kv_head, m, c));
            sum += product, magnitude += std::abs(product);
          }
      for (int c = 0; c < 64; ++c)
        pooled += pooled_q[((b * 4 + h) * p.q_blocks() + i) * 64 + c] *
                  pooled_k[((b * 2 + kv_head) * p.kv_blocks() + j) * 64 + c];
      double const pairs = static_cast<double>(rows.size() * keys.size());
      CHECK(std::abs(sum / pairs - pooled) < 1e-12 * magnitude / pairs);
    }
}

TEST_CASE("U62 a block of one token pools to that token") {
  HostTensor<bfloat16> x({1, 1, 65, 8}, Layout::padded_rows);
  Random random(2);
  fill_gaussian(x, random);
  std::vector<double> const pooled = reference::pool(x.view(), 64);
  REQUIRE(pooled.size() == 2 * 8);
  for (int c = 0; c < 8; ++c) CHECK(pooled[8 + c] == reference::to_double(x.at(0, 0, 64, c)));
}

TEST_CASE("U62 a small signal on a large common value survives the mean") {
  HostTensor<float> x({1, 1, 64, 8});
  Random random(3);
  double sum = 0;
  fill(x, [&](auto, auto, auto, auto c) { return 1e4 + 0.1 * (c == 0 ? random.gaussian() : 0); });
  for (int n = 0; n < 64; ++n) sum += static_cast<double>(x.at(0, 0, n, 0)) - 1e4;
  CHECK(std::abs(reference::pool(x.view(), 64)[0] - 1e4 - sum / 64) < 1e-11);
}

TEST_CASE("U33 NaN stays in its own block and channel") {
  HostTensor<bfloat16> x({1, 2, 200, 16});
  Random random(4);
  fill_gaussian(x, random);
  set(x, 0, 1, 70, 3, std::nan(""));
  std::vector<double> const pooled = reference::pool(x.view(), 64);
  for (std::size_t i = 0; i < pooled.size(); ++i) CHECK(std::isnan(pooled[i]) == (i == (1 * 4 + 1) * 16 + 3));
}

TEST_CASE("pooling any layout gives the same means") {
  HostTensor<float16> x({2, 3, 130, 64});
  Random random(5);
  fill_gaussian(x, random);
  std::vector<double> const expected = reference::pool(x.view(), 64);
  for (Layout layout : {Layout::bnhd, Layout::padded_rows, Layout::fused_qkv})
    CHECK(reference::pool(relaid(x, layout).view(), 64) == expected);
}
