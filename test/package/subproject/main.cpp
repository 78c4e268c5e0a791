#include "../plans.hpp"

int main() {
  if (int const failed = make_plans()) return failed;
  sparge::ForwardPlan<sparge::float16> left_out;
  sparge::Status const refused = sparge::plan_forward(some_problem(64), some_device(), {}, &left_out);
  print_refusal(refused);
  return refused ? 1 : 0;
}
