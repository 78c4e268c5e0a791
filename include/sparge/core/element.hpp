#pragma once
/// The element types of Q, K, V and O, and their names.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace sparge {

using bfloat16 = __nv_bfloat16;
using float16 = __half;

enum class ElementType : std::int32_t { bf16, f16 };

template <class T>
struct element_traits;

template <>
struct element_traits<bfloat16> {
  static constexpr ElementType type = ElementType::bf16;
};

template <>
struct element_traits<float16> {
  static constexpr ElementType type = ElementType::f16;
};

template <class T>
inline constexpr ElementType element_type_of = element_traits<T>::type;

constexpr char const* name_of(ElementType type) { return type == ElementType::bf16 ? "bf16" : "f16"; }

}  // namespace sparge
