/// slice_mask against plain loops on the host.

#include <cstdint>
#include <vector>

#include "op/mask_runs.hpp"
#include "support/catch.hpp"
#include "support/shard_case.hpp"

using namespace sparge;
using namespace sparge::test;

namespace {

void check_slice(AttentionProblem const& p, MaskWords const& words, BlockRange q, BlockRange kv) {
  CAPTURE(p.q_blocks(), p.kv_blocks(), q.first, q.count, kv.first, kv.count);
  MaskWords const wanted = reference::slice_mask(p, view_of(words), q, kv);
  CHECK(run_slice(p, words, q, kv) == wanted);
  CHECK(wanted.size() == words_of(shard_of(p, q, kv)));
}

}  // namespace

TEST_CASE("A mask is cut at every bit of a word", "[gpu]") {
  SKIP_WITHOUT_GPU();
  AttentionProblem const p{2, 3, 1, 128 * 3 - 5, 64 * 100 - 7, 64};
  Random random(3);
  MaskWords const words = make_mask(p, MaskKind::half, random);  // with dirty padding
  for (std::int64_t first = 0; first <= 100; ++first)
    for (std::int64_t count : {0, 1, 2, 31, 32, 33, 63, 64, 65, 99, 100})
      if (first + count <= 100) check_slice(p, words, {1, 2}, {first, count});
}

TEST_CASE("A mask is cut at every row", "[gpu]") {
  SKIP_WITHOUT_GPU();
  AttentionProblem const p{2, 2, 2, 64 * 9 - 1, 64 * 45, 128, 64, 64};
  Random random(4);
  MaskWords const words = make_mask(p, MaskKind::uneven, random);
  for (std::int64_t first = 0; first <= 9; ++first)
    for (std::int64_t count = 0; first + count <= 9; ++count) {
      check_slice(p, words, {first, count}, {0, 45});
      check_slice(p, words, {first, count}, {13, 32});
    }
}

TEST_CASE("Shards of the masks of real models are cut as the host cuts them", "[gpu]") {
  SKIP_WITHOUT_GPU();
  for (std::int64_t tokens : {32760, 75600}) {
    AttentionProblem const p{1, 2, 2, tokens, tokens, 128};
    Random random(5);
    MaskWords const words = make_mask(p, MaskKind::tenth, random);
    for (BlockRange const& q : split_blocks(p.q_blocks(), 3))
      for (BlockRange const& kv : split_blocks(p.kv_blocks(), 8)) check_slice(p, words, q, kv);
  }
}

TEST_CASE("A mask of nothing is cut", "[gpu][sanitize]") {
  SKIP_WITHOUT_GPU();
  AttentionProblem const no_keys{2, 2, 2, 300, 0, 64}, no_queries{2, 2, 2, 0, 300, 64},
      no_batch{0, 2, 2, 300, 300, 64};
  CHECK(run_slice(no_keys, {}, {1, 2}, {0, 0}).empty());
  CHECK(run_slice(no_queries, {}, {0, 0}, {1, 4}).empty());
  CHECK(run_slice(no_batch, {}, {1, 2}, {1, 4}).empty());
}
