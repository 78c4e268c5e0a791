// error: static assertion failed: elements are bfloat16, float16 or float
#include "sparge/op/distillation_loss.hpp"

#ifdef CORRECT
using Element = float;
#else
using Element = double;
#endif

sparge::Status plan(sparge::DistillationProblem const& problem, sparge::Device const& device) {
  sparge::DistillationLossPlan<Element> plan;
  return sparge::plan_distillation_loss(problem, device, {}, &plan);
}
