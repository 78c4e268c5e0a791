#pragma once
/// The structs of sparge.h from those of sparge.hpp, for tests that make the same call through both.

#include <string>
#include <type_traits>

#include "sparge/sparge.h"
#include "sparge/sparge.hpp"
#include "support/catch.hpp"

namespace sparge::test {

/// Zeros, but for the size.
template <class T>
T sized() {
  T object{};
  object.struct_size = sizeof object;
  return object;
}

inline sparge_problem c_problem(AttentionProblem const& p) {
  auto out = sized<sparge_problem>();
  out.batch = p.batch, out.heads = p.heads, out.kv_heads = p.kv_heads;
  out.q_tokens = p.q_tokens, out.kv_tokens = p.kv_tokens, out.head_dim = p.head_dim;
  out.q_block = p.q_block, out.kv_block = p.kv_block, out.scale = p.scale;
  out.order = static_cast<sparge_order>(p.order), out.q_offset = p.q_offset;
  out.all_q_tokens = p.all_q_tokens;
  return out;
}

inline sparge_device c_device(Device const& device) {
  auto out = sized<sparge_device>();
  out.ordinal = device.ordinal, out.sm_count = device.sm_count;
  out.capability_major = device.capability_major, out.capability_minor = device.capability_minor;
  out.shared_bytes_per_block = device.shared_bytes_per_block;
  out.shared_bytes_per_sm = device.shared_bytes_per_sm, out.l2_bytes = device.l2_bytes;
  return out;
}

inline sparge_mask_rule c_rule(MaskRule const& rule) {
  auto out = sized<sparge_mask_rule>();
  out.top_k = rule.top_k, out.top_p = rule.top_p, out.min_blocks = rule.min_blocks;
  out.top_k_of_head = rule.top_k_of_head, out.top_p_of_head = rule.top_p_of_head;
  out.has_band = rule.keep.band_tokens >= 0, out.band_tokens = out.has_band ? rule.keep.band_tokens : 0;
  out.kv_front_tokens = rule.keep.kv_front_tokens, out.kv_back_tokens = rule.keep.kv_back_tokens;
  out.dense_q_front_tokens = rule.keep.dense_q_front_tokens;
  out.dense_q_back_tokens = rule.keep.dense_q_back_tokens;
  return out;
}

template <class T>
constexpr sparge_dtype c_dtype() {
  using Element = std::remove_const_t<T>;
  if constexpr (std::is_same_v<Element, float>)
    return SPARGE_F32;
  else
    return element_type_of<Element> == ElementType::bf16 ? SPARGE_BF16 : SPARGE_F16;
}

template <class T>
sparge_tensor c_tensor(TensorView<T> const& view) {
  sparge_tensor out{};
  out.data = const_cast<std::remove_const_t<T>*>(view.data);
  for (int axis = 0; axis < 4; ++axis)
    out.shape[axis] = view.shape[axis], out.stride[axis] = view.stride[axis];
  out.dtype = c_dtype<T>();
  return out;
}

inline sparge_mask c_mask(MaskView mask) { return {const_cast<std::uint32_t*>(mask.data), mask.words}; }

template <class T>
sparge_backward_args c_backward_args(BackwardArgs<T> const& from) {
  auto args = sized<sparge_backward_args>();
  args.q = c_tensor(from.q), args.k = c_tensor(from.k), args.v = c_tensor(from.v);
  args.out = c_tensor(from.out), args.grad_out = c_tensor(from.grad_out);
  args.lse = from.lse, args.grad_lse = from.grad_lse, args.mask = c_mask(from.mask);
  args.grad_q = c_tensor(from.grad_q);
  args.grad_k = c_tensor(from.grad_k), args.grad_v = c_tensor(from.grad_v);
  return args;
}

template <class T>
sparge_partial c_partial(Partial<T> const& from) {
  return {c_tensor(from.out), from.lse};
}

/// A plan call of bf16 as one that takes no element type.
template <sparge_code (*make)(sparge_problem const*, sparge_dtype, sparge_device const*,
                              sparge_options const*, sparge_plan*, sparge_status*)>
sparge_code with_bf16(sparge_problem const* problem, sparge_device const* device,
                      sparge_options const* options, sparge_plan* plan, sparge_status* status) {
  return make(problem, SPARGE_BF16, device, options, plan, status);
}

/// The code, the field and the text are those of a refusal that names the field and these numbers.
inline void check_c_refused(sparge_code code, sparge_status const& status, sparge_code wanted,
                            char const* field, std::int64_t given, std::int64_t expected = 0) {
  std::string const text = status.text;
  CAPTURE(text);
  CHECK(code == wanted);
  CHECK(status.code == wanted);
  CHECK(std::string(status.field) == field);
  CHECK(status.given == given);
  CHECK(status.expected == expected);
  CHECK(text.find(field) != std::string::npos);
  if (given != 0) CHECK(text.find(std::to_string(given)) != std::string::npos);
  if (expected != 0) CHECK(text.find(std::to_string(expected)) != std::string::npos);
}

/// For calls that must succeed.
inline void check_c_ok(sparge_code code, sparge_status const& status) {
  std::string const text = status.text;
  CAPTURE(text);
  CHECK(code == SPARGE_OK);
  CHECK(status.code == SPARGE_OK);
  CHECK(std::string(status.field) == "");
}

}  // namespace sparge::test
