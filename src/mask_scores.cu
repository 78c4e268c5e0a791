#define SPARGE_INLINE

#include "sparge/kernel/mask_centre.cuh"
#include "sparge/kernel/mask_scores.cuh"
