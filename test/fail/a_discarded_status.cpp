// error: ignoring returned value of type .sparge::Status.
#include "sparge/sparge.hpp"

void query() {
  sparge::Device device;
#ifdef CORRECT
  sparge::Status const status =
#endif
      sparge::query_device(0, &device);
#ifdef CORRECT
  static_cast<void>(status);
#endif
}
