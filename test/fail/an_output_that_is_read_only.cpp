// error: no match for .operator=.*TensorView<__half>.*TensorView<const __half>
#include "sparge/sparge.hpp"

#ifdef CORRECT
using Element = sparge::float16;
#else
using Element = sparge::float16 const;
#endif

sparge::ForwardArgs<sparge::float16> arguments(sparge::TensorView<Element> out) {
  sparge::ForwardArgs<sparge::float16> args;
  args.out = out;
  return args;
}
