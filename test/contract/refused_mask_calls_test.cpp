/// Wrong arguments of the mask calls: refused by name before the CUDA runtime is asked for anything. No GPU is needed.

#include "contract/fake_device.hpp"
#include "contract/wrong_mask_calls.hpp"
#include "sparge/sparge.hpp"
#include "support/catch.hpp"

namespace {

using namespace sparge;
using namespace sparge::test;

CallSite imagined_site() { return {{2, 4, 2, 200, 2150, 64}, big_device(), {}, imagined_memory()}; }

template <class Call, class Wrong>
void check_table(Call (*lay_out)(CallSite&), Wrong wrong_calls) {
  CallSite site = imagined_site();
  check_refusals(wrong_calls(lay_out(site)));
}

}  // namespace

TEST_CASE("U16 U68 pool refuses each wrong argument by name") {
  check_table(lay_out_pool<bfloat16>, wrong_pool_calls<bfloat16>);
  check_table(lay_out_pool<float16>, wrong_pool_calls<float16>);
}

TEST_CASE("U46 U57 U86 U89 select_blocks refuses each wrong argument by name") {
  check_table(lay_out_select, wrong_select_calls);
}

TEST_CASE("U16 U46 U57 U68 build_mask refuses each wrong argument by name") {
  check_table(lay_out_build_mask<bfloat16>, wrong_build_mask_calls<bfloat16>);
  check_table(lay_out_build_mask<float16>, wrong_build_mask_calls<float16>);
}

TEST_CASE("U46 U57 mask_stats refuses each wrong argument by name") {
  check_table(lay_out_stats, wrong_stats_calls);
}

TEST_CASE("U57 calibrate refuses each wrong argument by name") {
  check_table(lay_out_calibrate, wrong_calibrate_calls);
}

TEST_CASE("U46 transpose_mask refuses each wrong argument by name") {
  check_table(lay_out_transpose, wrong_transpose_calls);
}

TEST_CASE("U46 slice_mask refuses each wrong argument by name") {
  check_table(lay_out_slice, wrong_slice_calls);
}

TEST_CASE("U46 mask_to_bytes and mask_from_bytes refuse each wrong argument by name") {
  check_table(lay_out_to_bytes, wrong_to_bytes_calls);
  check_table(lay_out_from_bytes, wrong_from_bytes_calls);
}

TEST_CASE("U46 mask_to_lists and mask_from_lists refuse each wrong argument by name") {
  check_table(lay_out_to_lists, wrong_to_lists_calls);
  check_table(lay_out_from_lists, wrong_from_lists_calls);
}
