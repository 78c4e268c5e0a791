#pragma once
/// C structs to those of sparge.hpp. Only what C writes differently is checked here; the rest is checked by the calls.

#include "c_api/structs.hpp"
#include "sparge/sparge.hpp"

namespace sparge::c_api {

inline Status check_reserved(char const* field, std::int32_t value) {
  return value == 0 ? Status{} : unsupported(field, "is reserved and must be 0", value);
}

/// A member that counts only where its switch is 1.
struct SwitchNames {
  char const *has, *value;
};

inline Status check_switch(SwitchNames const& name, std::int32_t has, std::int64_t value) {
  if (has != 0 && has != 1) return refuse(name.has, "must be 0 or 1", has);
  if (has == 0 && value != 0) return refuse(name.value, "must be 0 where its has_ member is 0", value);
  if (value < 0) return refuse(name.value, "must be at least 0", value);
  return {};
}

// ---- Element types -------------------------------------------------------------------------------------------------

template <class T>
inline constexpr sparge_dtype dtype_of = element_type_of<T> == ElementType::bf16 ? SPARGE_BF16 : SPARGE_F16;

template <>
inline constexpr sparge_dtype dtype_of<float> = SPARGE_F32;

constexpr sparge_dtype as_c(ElementType type) {
  return type == ElementType::bf16 ? dtype_of<bfloat16> : dtype_of<float16>;
}

/// A type as a value.
template <class T>
struct Element {
  using type = T;
};

/// Calls `use` with the Element of a number that attention takes.
template <class Use>
Status with_element(sparge_dtype dtype, Use use) {
  if (dtype == dtype_of<bfloat16>) return use(Element<bfloat16>{});
  if (dtype == dtype_of<float16>) return use(Element<float16>{});
  if (dtype == dtype_of<float>)
    return unsupported(
        "dtype", "SPARGE_F32 is for merging and distillation: must be SPARGE_BF16 (1) or SPARGE_F16 (2)",
        dtype);
  return unsupported("dtype", "must be SPARGE_BF16 (1) or SPARGE_F16 (2)", dtype);
}

/// Calls `use` with the Element of a number that merging and distillation take.
template <class Use>
Status with_any_element(sparge_dtype dtype, Use use) {
  if (dtype == dtype_of<float>) return use(Element<float>{});
  if (dtype == dtype_of<bfloat16> || dtype == dtype_of<float16>) return with_element(dtype, use);
  return unsupported("dtype", "must be SPARGE_BF16 (1), SPARGE_F16 (2) or SPARGE_F32 (3)", dtype);
}

// ---- What plans take -----------------------------------------------------------------------------------------------

inline Status convert(sparge_problem const* from, AttentionProblem* to) {
  sparge_problem p;
  SPARGE_TRY(read(from, &p));
  SPARGE_TRY(check_reserved("problem.reserved", p.reserved));
  *to = {p.batch, p.heads, p.kv_heads, p.q_tokens, p.kv_tokens, p.head_dim};
  if (p.q_block != 0) to->q_block = p.q_block;
  if (p.kv_block != 0) to->kv_block = p.kv_block;
  to->scale = p.scale;
  to->order = static_cast<TokenOrder>(p.order);
  to->q_offset = p.q_offset;
  to->all_q_tokens = p.all_q_tokens;
  return {};
}

inline Status convert(sparge_distillation_problem const* from, DistillationProblem* to) {
  sparge_distillation_problem p;
  SPARGE_TRY(read(from, &p));
  *to = {p.samples, p.sample_elements};
  return {};
}

inline Status convert(sparge_device const* from, Device* to) {
  sparge_device d;
  SPARGE_TRY(read(from, &d));
  *to = {d.ordinal,  d.capability_major,       d.capability_minor,
         d.sm_count, d.shared_bytes_per_block, d.shared_bytes_per_sm,
         d.l2_bytes};
  return {};
}

inline sparge_device as_c(Device const& device) {
  sparge_device out{};
  out.ordinal = device.ordinal;
  out.capability_major = device.capability_major;
  out.capability_minor = device.capability_minor;
  out.sm_count = device.sm_count;
  out.shared_bytes_per_block = device.shared_bytes_per_block;
  out.shared_bytes_per_sm = device.shared_bytes_per_sm;
  out.l2_bytes = device.l2_bytes;
  return out;
}

inline Status convert(sparge_options const* from, PlanOptions* to) {
  *to = {};
  if (from == nullptr) return {};
  sparge_options o;
  SPARGE_TRY(read(from, &o));
  SPARGE_TRY(check_reserved("options.reserved", o.reserved));
  SPARGE_TRY(
      check_switch({"options.has_force_kernel", "options.force_kernel"}, o.has_force_kernel, o.force_kernel));
  if (o.has_force_kernel != 0) to->force_kernel = o.force_kernel;
  to->pointer_check = static_cast<PointerCheck>(o.pointer_check);
  return {};
}

// ---- What calls take -----------------------------------------------------------------------------------------------

inline Status convert(sparge_mask_rule const* from, MaskRule* to) {
  sparge_mask_rule r;
  SPARGE_TRY(read(from, &r));
  SPARGE_TRY(check_switch({"rule.has_band", "rule.band_tokens"}, r.has_band, r.band_tokens));
  *to = {r.top_k, r.top_p, r.min_blocks, r.top_k_of_head, r.top_p_of_head, {}};
  to->keep.kv_front_tokens = r.kv_front_tokens;
  to->keep.kv_back_tokens = r.kv_back_tokens;
  if (r.has_band != 0) to->keep.band_tokens = r.band_tokens;
  to->keep.dense_q_front_tokens = r.dense_q_front_tokens;
  to->keep.dense_q_back_tokens = r.dense_q_back_tokens;
  return {};
}

/// What messages call the members of a tensor that the C++ views do not have.
struct TensorName {
  char const *dtype, *reserved;
};

/// T may be const: C has one struct for tensors that are read and written.
template <class T>
Status convert(TensorName const& name, sparge_tensor const& from, TensorView<T>* to) {
  constexpr sparge_dtype expected = dtype_of<std::remove_const_t<T>>;
  if (from.dtype != expected)
    return mismatch(name.dtype, "must be the element type that the plan was made for", from.dtype, expected);
  SPARGE_TRY(check_reserved(name.reserved, from.reserved));
  to->data = static_cast<T*>(from.data);
  for (int axis = 0; axis < 4; ++axis)
    to->shape[axis] = from.shape[axis], to->stride[axis] = from.stride[axis];
  return {};
}

inline MaskOut mask_out(sparge_mask const& mask) { return {mask.data, mask.words}; }
inline MaskView mask_view(sparge_mask const& mask) { return {mask.data, mask.words}; }

}  // namespace sparge::c_api
