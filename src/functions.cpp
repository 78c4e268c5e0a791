// The public functions that are no templates, each compiled here once.
#define SPARGE_INLINE

#include "sparge/op/calibrate.hpp"
#include "sparge/op/device.hpp"
#include "sparge/op/mask_form.hpp"
#include "sparge/op/mask_stats.hpp"
#include "sparge/op/select_blocks.hpp"
#include "sparge/op/status_text.hpp"
