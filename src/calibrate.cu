#define SPARGE_INLINE

#include "sparge/kernel/calibrate.cuh"
