/// Plans of velocity distillation: how the work is cut, from the problem alone.

#include <cstdint>
#include <vector>

#include "contract/fake_device.hpp"
#include "sparge/plan/distillation.hpp"
#include "sparge/sparge.hpp"
#include "support/catch.hpp"
#include "support/gpu.hpp"

using namespace sparge;
using namespace sparge::test;

namespace {

template <class T>
std::size_t workspace_of(DistillationProblem const& p, Device const& device = big_device()) {
  DistillationLossPlan<T> plan;
  must(plan_distillation_loss(p, device, {}, &plan));
  CHECK(plan.problem == p);
  CHECK(plan.device.sm_count == device.sm_count);
  return plan.workspace_bytes;
}

bool apart(NamedRange const& output, NamedRange const& input) {
  return validate_ranges_apart({output}, {input}).ok();
}

}  // namespace

TEMPLATE_TEST_CASE("Thread blocks cover every element and are bounded", "", bfloat16, float16, float) {
  constexpr std::int64_t tile = distillation::tile_loads * distillation::load_elements<TestType>;
  auto const blocks = [](std::int64_t samples, std::int64_t elements) {
    return distillation::count_blocks<TestType>({samples, elements});
  };
  CHECK(blocks(1, 0) == 0);
  CHECK(blocks(0, 7) == 0);
  CHECK(blocks(1, 1) == 1);
  CHECK(blocks(1, tile) == 1);
  CHECK(blocks(1, tile + 1) == 2);
  CHECK(blocks(tile + 1, 1) == 2);
  CHECK(blocks(4096, tile) == 4096);
  CHECK(blocks(4097, tile) == 4096);
  CHECK(blocks(1, std::int64_t{1} << 60) == 4096);
}

TEST_CASE("The workspace of the loss depends on the problem alone and stays below 32 KiB") {
  for (DistillationProblem const& p :
       {DistillationProblem{1, 0}, DistillationProblem{1, 1}, DistillationProblem{16, 1 << 22},
        DistillationProblem{64, std::int64_t{1} << 40}}) {
    Device few = big_device();
    few.sm_count = 1, few.l2_bytes = 1 << 20;
    CHECK(workspace_of<bfloat16>(p) == workspace_of<bfloat16>(p, few));
    CHECK(workspace_of<bfloat16>(p) == workspace_of<float16>(p));
    CHECK(workspace_of<float>(p) <= 32768);
  }
  CHECK(workspace_of<float>({1, 0}) == 0);
  CHECK(workspace_of<float>({1, 1}) == 256);
  CHECK(workspace_of<float>({1, std::int64_t{1} << 40}) == 32768);
}

TEST_CASE("A distillation problem starts as one sample of nothing and compares by value") {
  DistillationProblem const p;
  CHECK(p.elements() == 0);
  CHECK(p == DistillationProblem{1, 0});
  CHECK(DistillationProblem{2, 3} != DistillationProblem{3, 2});
}

TEST_CASE("U70 ranges overlap where they share a byte") {
  std::vector<char> memory(64);
  auto const range = [&](int first, int bytes) { return NamedRange("x", memory.data() + first, bytes); };
  CHECK(apart(range(0, 16), range(16, 16)));
  CHECK(apart(range(16, 16), range(0, 16)));
  CHECK_FALSE(apart(range(0, 17), range(16, 16)));
  CHECK_FALSE(apart(range(16, 16), range(0, 17)));
  CHECK_FALSE(apart(range(0, 64), range(20, 1)));
  CHECK_FALSE(apart(range(20, 1), range(0, 64)));
  CHECK_FALSE(apart(range(8, 8), range(8, 8)));
  CHECK(apart(range(0, 0), range(0, 16)));
  CHECK(apart(range(0, 16), range(4, 0)));
  CHECK(apart(NamedRange("x", nullptr, 16), NamedRange("y", nullptr, 16)));
  CHECK_FALSE(validate_ranges_apart({range(0, 8), range(4, 8)}, {}).ok());
  CHECK(validate_ranges_apart({range(0, 8)}, {range(8, 8), range(12, 8)}).ok());  // inputs may overlap
}
