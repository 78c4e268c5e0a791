// error: cannot convert .sparge::Status. to .int.
#include "sparge/sparge.hpp"

#ifdef CORRECT
bool works(sparge::Device* device) { return sparge::query_device(0, device).ok(); }
#else
int works(sparge::Device* device) { return sparge::query_device(0, device); }
#endif
