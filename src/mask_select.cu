#define SPARGE_INLINE

#include "sparge/kernel/mask_select.cuh"
