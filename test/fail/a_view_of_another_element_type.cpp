// error: no match for .operator=.*TensorView<const __nv_bfloat16>.*TensorView<__half>
#include "sparge/sparge.hpp"

#ifdef CORRECT
using Element = sparge::bfloat16;
#else
using Element = sparge::float16;
#endif

sparge::ForwardArgs<sparge::bfloat16> arguments(sparge::TensorView<Element> q) {
  sparge::ForwardArgs<sparge::bfloat16> args;
  args.q = q;
  return args;
}
