#include "../plans.hpp"
#include "sparge/sparge.cuh"

int main() {
  if (int const failed = make_plans()) return failed;
  sparge::ForwardPlan<sparge::bfloat16> plan;
  if (!sparge::plan_forward(some_problem(64), some_device(), {}, &plan)) return 1;
  sparge::Status const refused = sparge::forward(plan, {}, {}, nullptr);
  print_refusal(refused);
  return refused ? 1 : 0;
}
