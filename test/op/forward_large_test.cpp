/// Sizes at which 16-bit grids, 32-bit offsets and fixed tables give up. Rows are sampled, the last ones included.

#include <cstdint>

#include "op/large_forward.hpp"
#include "op/mask_band.hpp"
#include "op/mask_runs.hpp"
#include "sparge/sparge.hpp"
#include "support/catch.hpp"
#include "support/gpu.hpp"

using namespace sparge;
using namespace sparge::test;

TEST_CASE("U72 U73 more batch items or heads than a grid dimension holds", "[gpu][slow]") {
  SKIP_WITHOUT_GPU();
  for (AttentionProblem const& p :
       {AttentionProblem{65536, 1, 1, 64, 64, 64}, AttentionProblem{1, 65536, 65536, 64, 64, 64},
        AttentionProblem{80000, 1, 1, 16, 16, 64}, AttentionProblem{300, 300, 100, 16, 70, 64}})
    LargeForward<bfloat16>(p, full_mask(p)).check(8);
}

TEST_CASE("U77 token counts about powers of two", "[gpu][slow]") {
  SKIP_WITHOUT_GPU();
  for (std::int64_t tokens : {65535, 65536, 65537, 131073}) {
    AttentionProblem const p{1, 4, 2, tokens, tokens, 64};
    LargeForward<float16>(p, sixteenth_mask(p, 5)).check(8);
  }
}

TEST_CASE("U75 U76 tables of blocks that are wholly full", "[gpu][slow]") {
  SKIP_WITHOUT_GPU();
  AttentionProblem const p{1, 48, 16, 49152, 49152, 64};
  LargeForward<bfloat16>(p, full_mask(p)).check(4);
}

TEST_CASE("U77 a million keys", "[gpu][slow][sm90]") {
  SKIP_WITHOUT_GPU();
  for (int head_dim : {64, 128}) {
    AttentionProblem const p{1, 2, 1, 400, 1000003, head_dim};
    LargeForward<bfloat16>(p, sixteenth_mask(p, 10)).check(8);
  }
}

TEST_CASE("U78 tensors near two gigabytes", "[gpu][slow]") {
  SKIP_WITHOUT_GPU();
  AttentionProblem const p{2, 28, 28, 128000, 128000, 128};
  LargeForward<bfloat16>(p, sixteenth_mask(p, 6)).check(8);
}

TEST_CASE("U79 tensors just past two gigabytes", "[gpu][slow]") {
  SKIP_WITHOUT_GPU();
  for (std::int64_t tokens : {149796, 149797, 165000}) {
    AttentionProblem const p{1, 56, 56, tokens, tokens, 128};
    LargeForward<bfloat16>(p, sixteenth_mask(p, 7)).check(8);
  }
}

TEST_CASE("U80 more elements than 31 bits count", "[gpu][slow]") {
  SKIP_WITHOUT_GPU();
  AttentionProblem const p{1, 40, 40, 419431, 419431, 128};
  LargeForward<bfloat16>(p, sixteenth_mask(p, 8)).check(8);
}

TEST_CASE("U66 a fused view of more than 31 bits of elements equals contiguous tensors", "[gpu][slow]") {
  SKIP_WITHOUT_GPU();
  std::int64_t const tokens = 99900, heads = 56, channels = 128, row = heads * channels;
  AttentionProblem const p{1, heads, heads, tokens, tokens, channels};
  TiledTensor<bfloat16> const fused({1, tokens, 3, row}, 4);
  MaskWords const host_mask = sixteenth_mask(p, 9);
  DeviceBuffer<std::uint32_t> const mask(host_mask);
  auto const run = [&](TensorView<bfloat16> q, TensorView<bfloat16> k, TensorView<bfloat16> v) {
    DeviceBuffer<bfloat16> out(tokens * row);
    ForwardPlan<bfloat16> plan;
    must(plan_forward(p, test_device(), {}, &plan));
    ScratchBuffer const scratch(plan.workspace_bytes);
    Stream const stream;
    must(forward(
        plan,
        {q, k, v, {mask.data(), host_mask.size()}, contiguous_bnhd(out.data(), 1, heads, tokens, channels)},
        scratch.workspace(), stream));
    stream.wait();
    return out.download_bytes();
  };
  auto const slice = [&](std::int64_t which) {
    TensorView<bfloat16> view = contiguous_bnhd(fused.view().data + which * row, 1, heads, tokens, channels);
    view.stride[0] *= 3, view.stride[2] *= 3;
    return view;
  };
  auto const strided = run(slice(0), slice(1), slice(2));
  DeviceBuffer<bfloat16> const q(tokens * row), k(tokens * row), v(tokens * row);
  auto const copied = [&](std::int64_t which, DeviceBuffer<bfloat16> const& to) {
    auto const width = static_cast<std::size_t>(row) * sizeof(bfloat16);
    CHECK_CUDA(cudaMemcpy2D(to.data(), width, slice(which).data, 3 * width, width,
                            static_cast<std::size_t>(tokens), cudaMemcpyDeviceToDevice));
    CHECK_CUDA(cudaDeviceSynchronize());
    return contiguous_bnhd(to.data(), 1, heads, tokens, channels);
  };
  CHECK((run(copied(0, q), copied(1, k), copied(2, v)) == strided));
}

TEST_CASE("U72 U79 U80 masks are built right at sizes past 31 bits", "[gpu][slow]") {
  SKIP_WITHOUT_GPU();
  for (AttentionProblem const& p :
       {AttentionProblem{1, 40, 40, 419431, 419431, 128}, AttentionProblem{65536, 1, 1, 70, 130, 64},
        AttentionProblem{1, 65536, 65536, 70, 130, 64}}) {
    TiledTensor<bfloat16> const q(q_shape(p), 1), k(kv_shape(p), 2);
    PooledInputs const pooled = run_pool<bfloat16>(p, q.view(), k.view());
    HostTensor<bfloat16> const last = k.head(p.batch - 1, p.kv_heads - 1);
    std::vector<double> const wanted = reference::pool(last.const_view(), p.kv_block);
    double worst = 0;
    for (std::int64_t j = 0; j < p.kv_blocks(); ++j)
      for (std::int64_t c = 0; c < p.head_dim; ++c)
        worst = max_or_nan(worst, std::abs(pooled.k.at(p.batch - 1, p.kv_heads - 1, j, c) -
                                           wanted[static_cast<std::size_t>(j * p.head_dim + c)]));
    CHECK(worst <= 1e-6);
    BuildMaskPlan<bfloat16> plan;
    must(plan_build_mask(p, test_device(), {}, &plan));
    MaskRule const rule = rule_of(0.03, 0.05);
    DeviceMask const mask(words_of(p));
    ScratchBuffer const scratch(plan.workspace_bytes);
    Stream const stream;
    must(build_mask(plan, {q.view(), k.view(), rule, mask.bits()}, scratch.workspace(), stream));
    stream.wait();
    check_rows(pooled, rule, mask.download(), 1009);
  }
}
