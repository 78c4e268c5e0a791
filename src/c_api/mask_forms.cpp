// Conversions of masks, which share one plan.

#include "c_api/answer.hpp"
#include "c_api/plan_bytes.hpp"

using namespace sparge;
using namespace sparge::c_api;

namespace {

/// Calls `use` with the plan and with the part of the arguments that this version knows.
template <class Args, class Use>
sparge_code convert_mask(sparge_plan const* plan, Args const* args, sparge_status* status, Use use) {
  return answer(status, [&]() -> Status {
    Args known;
    SPARGE_TRY(check_plan<MaskFormPlan>(plan));
    SPARGE_TRY(read(args, &known));
    return use(load<MaskFormPlan>(plan), known);
  });
}

}  // namespace

sparge_code sparge_transpose_mask(sparge_plan const* plan, sparge_transpose_mask_args const* args,
                                  sparge_stream stream, sparge_status* status) {
  return convert_mask(plan, args, status, [&](MaskFormPlan const& form, sparge_transpose_mask_args const& a) {
    return transpose_mask(form, mask_view(a.mask), mask_out(a.transposed), stream);
  });
}

sparge_code sparge_slice_mask(sparge_plan const* plan, sparge_slice_mask_args const* args,
                              sparge_stream stream, sparge_status* status) {
  return convert_mask(plan, args, status, [&](MaskFormPlan const& form, sparge_slice_mask_args const& a) {
    return slice_mask(form, mask_view(a.mask), {a.q_first_block, a.q_block_count},
                      {a.kv_first_block, a.kv_block_count}, mask_out(a.shard), stream);
  });
}

sparge_code sparge_mask_to_bytes(sparge_plan const* plan, sparge_byte_mask_args const* args,
                                 sparge_stream stream, sparge_status* status) {
  return convert_mask(plan, args, status, [&](MaskFormPlan const& form, sparge_byte_mask_args const& a) {
    return mask_to_bytes(form, mask_view(a.mask), {a.bytes, a.bytes_count}, stream);
  });
}

sparge_code sparge_mask_from_bytes(sparge_plan const* plan, sparge_byte_mask_args const* args,
                                   sparge_stream stream, sparge_status* status) {
  return convert_mask(plan, args, status, [&](MaskFormPlan const& form, sparge_byte_mask_args const& a) {
    return mask_from_bytes(form, {a.bytes, a.bytes_count}, mask_out(a.mask), stream);
  });
}

sparge_code sparge_mask_to_lists(sparge_plan const* plan, sparge_block_lists_args const* args,
                                 sparge_stream stream, sparge_status* status) {
  return convert_mask(plan, args, status, [&](MaskFormPlan const& form, sparge_block_lists_args const& a) {
    return mask_to_lists(form, mask_view(a.mask), {a.counts, a.indices, a.capacity}, stream);
  });
}

sparge_code sparge_mask_from_lists(sparge_plan const* plan, sparge_block_lists_args const* args,
                                   sparge_stream stream, sparge_status* status) {
  return convert_mask(plan, args, status, [&](MaskFormPlan const& form, sparge_block_lists_args const& a) {
    return mask_from_lists(form, {a.counts, a.indices, a.capacity}, mask_out(a.mask), stream);
  });
}
