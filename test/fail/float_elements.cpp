// error: .*incomplete type .sparge::element_traits<float>
#include "sparge/op/forward.hpp"

#ifdef CORRECT
using Element = sparge::float16;
#else
using Element = float;
#endif

sparge::Status plan(sparge::AttentionProblem const& problem, sparge::Device const& device) {
  sparge::ForwardPlan<Element> plan;
  return sparge::plan_forward(problem, device, {}, &plan);
}
