#define SPARGE_INLINE

#include "sparge/kernel/mask_form.cuh"
#include "sparge/kernel/mask_slice.cuh"
#include "sparge/kernel/mask_transpose.cuh"
