#define SPARGE_INLINE

#include "sparge/kernel/mask_stats.cuh"
