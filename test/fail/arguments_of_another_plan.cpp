// error: no matching function for call to .forward\(
#include "sparge/sparge.hpp"

#ifdef CORRECT
using Element = sparge::bfloat16;
#else
using Element = sparge::float16;
#endif

sparge::Status run(sparge::ForwardPlan<sparge::bfloat16> const& plan,
                   sparge::ForwardArgs<Element> const& args, sparge::Workspace workspace,
                   cudaStream_t stream) {
  return sparge::forward(plan, args, workspace, stream);
}
