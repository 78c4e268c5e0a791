/// Gradients at sizes at which 16-bit grids and 32-bit offsets give up. Whole heads are checked, the last one included.

#include <cstdint>

#include "op/large_backward.hpp"
#include "support/catch.hpp"
#include "support/gpu.hpp"

using namespace sparge;
using namespace sparge::test;

TEST_CASE("U74 gradients of so many batch items that their elements pass 31 bits", "[gpu][slow]") {
  SKIP_WITHOUT_GPU();
  for (std::int64_t batch : {12000, 17000}) {
    AttentionProblem const p{batch, 8, 8, 128, 128, 128};
    LargeBackward<bfloat16>(p, full_mask(p)).check();
  }
}

TEST_CASE("U72 U73 gradients of more batch items or heads than a grid dimension holds", "[gpu][slow]") {
  SKIP_WITHOUT_GPU();
  for (AttentionProblem const& p :
       {AttentionProblem{65537, 1, 1, 70, 64, 64}, AttentionProblem{1, 65537, 65537, 64, 70, 64}})
    LargeBackward<float16>(p, full_mask(p)).check();
}

TEST_CASE("U77 gradients of token counts about powers of two", "[gpu][slow]") {
  SKIP_WITHOUT_GPU();
  for (std::int64_t tokens : {65535, 65537, 131073}) {
    AttentionProblem const p{1, 2, 2, tokens, tokens, 64};
    LargeBackward<bfloat16>(p, few_blocks_mask(p, 2)).check_head(0, 1);
  }
}

TEST_CASE("U79 U80 gradients of more elements than 31 bits count", "[gpu][slow]") {
  SKIP_WITHOUT_GPU();
  AttentionProblem const p{1, 40, 40, 419431, 419431, 128};
  LargeBackward<bfloat16>(p, few_blocks_mask(p, 1)).check_head(0, 39);
}
