// error: no match for .operator=.
#include "sparge/sparge.hpp"

sparge::CalibrateArgs arguments() {
  sparge::CalibrateArgs args;
#ifdef CORRECT
  args.target = {sparge::CalibrationGoal::sparsity, 0.95};
#else
  args.target = 0.95;
#endif
  return args;
}
