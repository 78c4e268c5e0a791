/// Wrong arguments of merge_partials and shards that cannot be: refused by name before the CUDA runtime is asked for anything. No
/// GPU is needed.

#include <cstdint>
#include <limits>

#include "contract/fake_device.hpp"
#include "contract/wrong_merge.hpp"
#include "sparge/sparge.hpp"
#include "support/catch.hpp"

using namespace sparge;
using namespace sparge::test;

namespace {

CallSite imagined_site() { return {{2, 4, 2, 200, 150, 64}, big_device(), {}, imagined_memory()}; }

}  // namespace

TEMPLATE_TEST_CASE("U16 U68 merge_partials refuses each wrong argument by name", "", bfloat16, float16,
                   float) {
  CallSite site = imagined_site();
  MergeCall<TestType> const right = lay_out_merge<TestType>(site);
  check_refusals(wrong_merge_calls(right));
  check_refusals(wrong_running_merge_calls(right));
}

TEST_CASE("The last partial result that a call takes is checked like the first") {
  CallSite site = imagined_site();
  MergeCall<bfloat16> call = lay_out_merge<bfloat16>(site);
  while (call.args.count < most_partials) call.args.partials[call.args.count++] = call.args.partials[0];
  call.args.partials[most_partials - 1].lse = nullptr;
  check_refused(call.run(nullptr), invalid("partials[15].lse"));
  call.args.partials[most_partials - 1] = call.args.partials[0];
  call.args.partials[most_partials - 1].out.data = call.args.out.data;
  check_refused(call.run(nullptr), invalid("out.data"));
}
