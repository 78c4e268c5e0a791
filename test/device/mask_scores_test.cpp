/// Scores of every kernel that this GPU runs, the one that no plan for it would choose too, against the f64 reference.

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "op/mask_runs.hpp"
#include "sparge/op/score_rows.hpp"
#include "support/catch.hpp"
#include "support/device_buffer.hpp"
#include "support/gpu.hpp"

using namespace sparge;
using namespace sparge::test;

namespace {

/// Scores of all rows, as the kernels leave them: [row tile, row of the tile, pitch].
std::vector<float> score(PooledInputs const& x, RowLayout const& layout, bool code_is_90a) {
  AttentionProblem const& p = x.problem;
  DeviceBuffer<float> const q(x.q.storage()), k(x.k.storage());
  Carver measure;
  SelectScratch::lay_out(measure, p, layout, true);
  DeviceBuffer<unsigned char> const memory(static_cast<std::int64_t>(measure.bytes()));
  Carver carver(memory.data());
  SelectScratch const scratch = SelectScratch::lay_out(carver, p, layout, true);
  detail::PooledVectors const pooled{q.data(), k.data()};
  MaskKeysParams keys = detail::keys_params(p, layout, scratch, pooled);
  MaskScoresParams scores = detail::scores_params(p, layout, scratch, pooled);
  keys.code_is_90a = scores.code_is_90a = code_is_90a;
  scores.chunk = {0, layout.tiles};
  Stream const stream;
  CHECK_CUDA(launch_mask_keys(keys, layout.groups, stream));
  CHECK_CUDA(launch_mask_scores(scores, stream));
  stream.wait();
  std::int64_t const tile_rows = RowLayout::tile_rows, count = layout.tiles * tile_rows * layout.pitch;
  std::vector<float> all(static_cast<std::size_t>(count), 0.0f);
  auto const copy_row = [&](std::int64_t row) {  // what no kernel writes is not read
    CHECK_CUDA(cudaMemcpy(all.data() + row * layout.pitch, scratch.scores + row * layout.pitch,
                          static_cast<std::size_t>(p.kv_blocks()) * sizeof(float), cudaMemcpyDeviceToHost));
  };
  for (std::int64_t tile = 0; tile < layout.tiles; ++tile) {
    std::int64_t const first = tile % layout.group_tiles * tile_rows;
    for (std::int64_t row = 0; row < std::min(tile_rows, layout.group_rows - first); ++row)
      copy_row(tile * tile_rows + row);
  }
  return all;
}

void check_scores(PooledInputs const& x, bool code_is_90a) {
  AttentionProblem const& p = x.problem;
  RowLayout const layout = RowLayout::of(p, test_device());
  REQUIRE(layout.chunk_tiles == layout.tiles);
  std::vector<float> const scores = score(x, layout, code_is_90a);
  reference::BlockSelector const reference(p, {}, x.q.storage().data(), x.k.storage().data());
  std::int64_t const shared_heads = p.heads / p.kv_heads;
  for (std::int64_t batch = 0; batch < p.batch; ++batch)
    for (std::int64_t head = 0; head < p.heads; ++head)
      for (std::int64_t i = 0; i < p.q_blocks(); ++i) {
        reference::RowSelection const wanted = reference.row(batch, head, i);
        std::int64_t const group = batch * p.kv_heads + head / shared_heads,
                           row = head % shared_heads * p.q_blocks() + i;
        float const* const line =
            scores.data() + (group * layout.group_tiles * RowLayout::tile_rows + row) * layout.pitch;
        // The mean that keys are centred by is rounded, which shifts all scores of a row alike and changes no choice.
        double least = std::numeric_limits<double>::infinity(), most = -least;
        bool all_are_numbers = true;
        for (std::int64_t j = 0; j < p.kv_blocks(); ++j) {
          double const error = line[j] - wanted.scores[static_cast<std::size_t>(j)];
          least = std::min(least, error), most = std::max(most, error);
          all_are_numbers &= !std::isnan(error);
        }
        INFO("batch " << batch << " head " << head << " row " << i << " code for 9.0a " << code_is_90a);
        CHECK(all_are_numbers);
        CHECK(most - least <= 2 * wanted.score_error);
      }
}

void check_all_kernels(PooledInputs const& x) {
  check_scores(x, false);
  if (detail::runs_code_for_90a(RowLayout::of(x.problem, test_device()))) check_scores(x, true);
}

}  // namespace

TEST_CASE("Every scoring kernel is as accurate as the contract asks", "[gpu]") {
  SKIP_WITHOUT_GPU();
  for (AttentionProblem const& p :
       {AttentionProblem{1, 1, 1, 1, 1, 64}, AttentionProblem{2, 4, 2, 300, 2100, 64},
        AttentionProblem{1, 6, 1, 4097, 500, 128}, AttentionProblem{2, 2, 2, 129, 8191, 128, 64, 64},
        AttentionProblem{1, 3, 3, 9000, 16500, 128}})
    for (PooledKind kind : {PooledKind::gaussian, PooledKind::clustered, PooledKind::common_offset})
      check_all_kernels(make_pooled(p, kind, 37));
}

TEST_CASE("Scoring is clean", "[gpu][sanitize]") {
  SKIP_WITHOUT_GPU();
  for (std::int32_t head_dim : {64, 128})
    check_all_kernels(make_pooled({1, 2, 1, 1000, 64 * 70 - 3, head_dim}, PooledKind::gaussian, 41));
}
