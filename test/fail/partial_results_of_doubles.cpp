// error: static assertion failed: partial results are bfloat16, float16 or float
#include "sparge/op/merge_partials.hpp"

#ifdef CORRECT
using Element = float;
#else
using Element = double;
#endif

sparge::Status plan(sparge::AttentionProblem const& problem, sparge::Device const& device) {
  sparge::MergePlan<Element> plan;
  return sparge::plan_merge_partials(problem, device, {}, &plan);
}
