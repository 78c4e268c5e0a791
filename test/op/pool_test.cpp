/// Pooling against the f64 mean of the valid tokens of each block.

#include <cmath>
#include <limits>

#include "op/mask_runs.hpp"
#include "sparge/reference/pool.hpp"
#include "sparge/sparge.hpp"
#include "support/catch.hpp"
#include "support/gpu.hpp"

using namespace sparge;
using namespace sparge::test;

namespace {

template <class T>
HostTensor<T> magnitudes(HostTensor<T> const& x) {
  HostTensor<T> y(x.shape());
  fill(y, [&](auto... index) { return std::abs(reference::to_double(x.at(index...))); });
  return y;
}

/// Elements whose error is beyond 2^-22 * mean|x|. A result below the smallest normal number may lose its last bit.
template <class T>
std::int64_t count_wrong(HostTensor<T> const& x, std::int64_t block, HostTensor<float> const& pooled) {
  std::vector<double> const mean = reference::pool(x.view(), block),
                            size = reference::pool(magnitudes(x).view(), block);
  std::vector<double> const actual = pooled.values();
  REQUIRE(actual.size() == mean.size());
  std::int64_t wrong = 0;
  for (std::size_t i = 0; i < mean.size(); ++i)
    wrong += !(std::abs(actual[i] - mean[i]) <= std::ldexp(size[i], -22) + 0x1p-150);
  return wrong;
}

template <class T>
void check_pool(AttentionProblem const& p, HostTensor<T> const& q, HostTensor<T> const& k) {
  CAPTURE(p.batch, p.heads, p.kv_heads, p.q_tokens, p.kv_tokens, p.head_dim, p.q_block, p.kv_block);
  PooledInputs const pooled = run_pool(p, q, k);
  CHECK(count_wrong(q, p.q_block, pooled.q) == 0);
  CHECK(count_wrong(k, p.kv_block, pooled.k) == 0);
}

template <class T, class Fill>
void check_pool_of(AttentionProblem const& p, Fill fill_with) {
  HostTensor<T> q(q_shape(p)), k(kv_shape(p));
  Random random(static_cast<std::uint64_t>(p.q_tokens + 7 * p.kv_tokens));
  fill_with(q, random), fill_with(k, random);
  check_pool(p, q, k);
}

template <class Fill>
void check_both_types(AttentionProblem const& p, Fill fill_with) {
  check_pool_of<bfloat16>(p, fill_with);
  check_pool_of<float16>(p, fill_with);
}

/// Both pooled tensors as bits, NaN included.
std::vector<std::uint32_t> bits_of(PooledInputs const& pooled) {
  std::vector<std::uint32_t> bits(pooled.q.storage().size() + pooled.k.storage().size());
  std::memcpy(bits.data(), pooled.q.storage().data(), pooled.q.storage().size() * sizeof(float));
  std::memcpy(bits.data() + pooled.q.storage().size(), pooled.k.storage().data(),
              pooled.k.storage().size() * sizeof(float));
  return bits;
}

}  // namespace

TEST_CASE("U62 means of every shape and block are right to 2^-22", "[gpu]") {
  SKIP_WITHOUT_GPU();
  auto const gaussian = [](auto& x, Random& random) { fill_gaussian(x, random); };
  for (int head_dim : {64, 128})
    for (int q_block : {64, 128})
      for (int kv_block : {64, 128}) {
        check_both_types({2, 4, 2, 300, 1029, head_dim, q_block, kv_block}, gaussian);
        check_both_types({1, 3, 3, 1000, 77, head_dim, q_block, kv_block}, gaussian);
      }
}

TEST_CASE("U37 U62 every tail is averaged over its own tokens", "[gpu]") {
  SKIP_WITHOUT_GPU();
  auto const offset = [](auto& x, Random& random) { fill_common_offset(x, random); };
  for (int head_dim : {64, 128})
    for (std::int64_t tokens :
         {1, 2, 3, 7, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 127, 128, 129, 191, 193, 255, 257})
      check_both_types({1, 2, 1, tokens, 258 - tokens, head_dim}, offset);
}

TEST_CASE("U08 U62 means of offsets and heavy tails and large and tiny numbers are right to 2^-22", "[gpu]") {
  SKIP_WITHOUT_GPU();
  for (int head_dim : {64, 128}) {
    AttentionProblem const p{2, 2, 2, 500, 333, head_dim};
    check_both_types(p, [](auto& x, Random& random) { fill_heavy_tailed(x, random); });
    check_both_types(p, [](auto& x, Random& random) { fill_gaussian(x, random, 1e-1, 1e4); });
    check_both_types(p, [](auto& x, Random& random) { fill_gaussian(x, random, 6e-6); });  // f16 subnormals
    check_both_types(p, [](auto& x, Random&) { fill_constant(x, 60000); });
    check_pool_of<bfloat16>(p, [](auto& x, Random&) { fill_constant(x, 3.38e38); });  // four of them pass f32
    check_pool_of<bfloat16>(p, [](auto& x, Random& random) { fill_gaussian(x, random, 1e37); });
    check_pool_of<bfloat16>(p, [](auto& x, Random& random) { fill_gaussian(x, random, 1e-37); });
  }
}

TEST_CASE("U62 the mean of one token is that token", "[gpu]") {
  SKIP_WITHOUT_GPU();
  AttentionProblem const p{1, 2, 2, 129, 65, 128};
  HostTensor<bfloat16> q(q_shape(p)), k(kv_shape(p));
  Random random(3);
  fill_gaussian(q, random), fill_gaussian(k, random);
  PooledInputs const pooled = run_pool(p, q, k);
  for (std::int64_t h = 0; h < 2; ++h)
    for (std::int64_t c = 0; c < 128; ++c) {
      CHECK(pooled.q.at(0, h, 1, c) == reference::to_float(q.at(0, h, 128, c)));
      CHECK(pooled.k.at(0, h, 1, c) == reference::to_float(k.at(0, h, 64, c)));
    }
}

TEST_CASE("U65 every layout pools to the bits of the contiguous one", "[gpu]") {
  SKIP_WITHOUT_GPU();
  for (int head_dim : {64, 128}) {
    AttentionProblem const p{2, 4, 2, 200, 333, head_dim};
    HostTensor<bfloat16> q(q_shape(p)), k(kv_shape(p));
    Random random(5);
    fill_heavy_tailed(q, random), fill_heavy_tailed(k, random);
    auto const wanted = bits_of(run_pool(p, q, k));
    for (Layout layout : {Layout::bnhd, Layout::padded_rows, Layout::fused_qkv})  // gaps hold NaN
      CHECK(bits_of(run_pool(p, relaid(q, layout), relaid(k, layout))) == wanted);
  }
}

TEST_CASE("U71 strides of 0 broadcast", "[gpu]") {
  SKIP_WITHOUT_GPU();
  AttentionProblem const p{3, 4, 4, 200, 333, 64};
  for (Shape const& stride :
       {Shape{333 * 64, 0, 64, 1}, Shape{0, 333 * 64, 64, 1}, Shape{0, 0, 64, 1}, Shape{64, 64, 0, 1}}) {
    HostTensor<bfloat16> q(q_shape(p)), k(kv_shape(p), stride);
    Random random(7);
    fill_gaussian(q, random);
    for (bfloat16& x : k.storage()) x = reference::round_to<bfloat16>(static_cast<float>(random.gaussian()));
    check_pool(p, q, k);
  }
}

TEST_CASE("U32 U33 NaN and infinity stay in their own block and channel", "[gpu]") {
  SKIP_WITHOUT_GPU();
  float const infinity = std::numeric_limits<float>::infinity(),
              nan = std::numeric_limits<float>::quiet_NaN();
  AttentionProblem const p{1, 1, 1, 300, 300, 64};
  HostTensor<bfloat16> q(q_shape(p)), k(kv_shape(p));
  Random random(9);
  fill_gaussian(q, random), fill_gaussian(k, random);
  PooledInputs const before = run_pool(p, q, k);
  k.at(0, 0, 70, 3) = reference::round_to<bfloat16>(nan);
  k.at(0, 0, 130, 4) = reference::round_to<bfloat16>(infinity);
  k.at(0, 0, 299, 5) = reference::round_to<bfloat16>(-infinity);
  k.at(0, 0, 2, 6) = reference::round_to<bfloat16>(infinity);
  k.at(0, 0, 50, 6) = reference::round_to<bfloat16>(-infinity);
  PooledInputs const after = run_pool(p, q, k);
  for (std::int64_t j = 0; j < p.kv_blocks(); ++j)
    for (std::int64_t c = 0; c < 64; ++c) {
      float const mean = after.k.at(0, 0, j, c);
      if ((j == 1 && c == 3) || (j == 0 && c == 6))
        CHECK(std::isnan(mean));
      else if (j == 2 && c == 4)
        CHECK(mean == infinity);
      else if (j == 4 && c == 5)
        CHECK(mean == -infinity);
      else
        CHECK(mean == before.k.at(0, 0, j, c));
    }
}

TEST_CASE("U72 U73 more than 65535 heads and batch items are pooled", "[gpu]") {
  SKIP_WITHOUT_GPU();
  for (AttentionProblem const& p :
       {AttentionProblem{65537, 1, 1, 3, 2, 64}, AttentionProblem{1, 65537, 65537, 3, 2, 64},
        AttentionProblem{80000, 1, 1, 2, 1, 64}}) {
    HostTensor<bfloat16> q(q_shape(p)), k(kv_shape(p));
    std::uint32_t state = 1;  // a quick generator: 12 uniforms an element would take longer than the test
    for (HostTensor<bfloat16>* x : {&q, &k})
      for (bfloat16& element : x->storage())
        element = reference::round_to<bfloat16>(
            static_cast<float>((state = state * 1664525u + 1013904223u) >> 8) * 0x1p-24f);
    check_pool(p, q, k);
  }
}

TEST_CASE("U66 U79 offsets beyond 2^31 elements are 64-bit", "[gpu]") {
  SKIP_WITHOUT_GPU();
  std::int64_t const far = (std::int64_t{1} << 31) + 4096;  // elements from one batch item to the next
  std::size_t free_bytes = 0, all_bytes = 0;
  CHECK_CUDA(cudaMemGetInfo(&free_bytes, &all_bytes));
  if (free_bytes < static_cast<std::size_t>(3 * far)) SKIP("needs 6.4 GB of device memory");
  AttentionProblem const p{2, 2, 2, 200, 200, 128};
  HostTensor<bfloat16> near(kv_shape(p));
  Random random(11);
  fill_gaussian(near, random);
  PooledInputs const wanted = run_pool(p, near, near);
  std::int64_t const item = p.heads * p.kv_tokens * p.head_dim;
  DeviceBuffer<bfloat16> const storage(far + item);
  std::vector<bfloat16> const& elements = near.storage();
  for (std::int64_t b = 0; b < 2; ++b)
    CHECK_CUDA(cudaMemcpy(storage.data() + b * far, elements.data() + b * item,
                          static_cast<std::size_t>(item) * sizeof(bfloat16), cudaMemcpyHostToDevice));
  TensorView<bfloat16 const> view = near.const_view();
  view.data = storage.data();
  view.stride[0] = far;
  CHECK(bits_of(run_pool<bfloat16>(p, view, view)) == bits_of(wanted));
}

TEST_CASE("U05 no batch item and no query and no key are pooled", "[gpu]") {
  SKIP_WITHOUT_GPU();
  auto const gaussian = [](auto& x, Random& random) { fill_gaussian(x, random); };
  check_both_types({0, 2, 1, 100, 100, 64}, gaussian);
  check_both_types({2, 2, 1, 0, 100, 64}, gaussian);
  check_both_types({2, 2, 1, 100, 0, 64}, gaussian);
}
