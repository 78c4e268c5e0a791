// error: no match for .operator=.*MaskBits<unsigned int>.*MaskBits<const unsigned int>
#include "sparge/sparge.hpp"

#ifdef CORRECT
using Mask = sparge::MaskOut;
#else
using Mask = sparge::MaskView;
#endif

sparge::SelectArgs arguments(Mask mask) {
  sparge::SelectArgs args;
  args.mask = mask;
  return args;
}
