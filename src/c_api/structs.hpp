#pragma once
/// Structs that begin with their size: reading and writing the part that caller and library both know.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "sparge/plan/refuse.hpp"
#include "sparge/plan/validate.hpp"
#include "sparge/sparge.h"

namespace sparge::c_api {

/// What messages call a struct.
struct StructName {
  char const *self, *size;
};

inline constexpr StructName args_name{"args", "args.struct_size"};

template <class T>
inline constexpr StructName name_of_struct = args_name;
template <>
inline constexpr StructName name_of_struct<sparge_device>{"device", "device.struct_size"};
template <>
inline constexpr StructName name_of_struct<sparge_problem>{"problem", "problem.struct_size"};
template <>
inline constexpr StructName name_of_struct<sparge_distillation_problem>{"problem", "problem.struct_size"};
template <>
inline constexpr StructName name_of_struct<sparge_options>{"options", "options.struct_size"};
template <>
inline constexpr StructName name_of_struct<sparge_mask_rule>{"rule", "rule.struct_size"};
template <>
inline constexpr StructName name_of_struct<sparge_kernel>{"kernel", "kernel.struct_size"};

/// Size of a struct as it was first published. A struct that grows keeps its first size here.
template <class T>
inline constexpr std::size_t first_bytes = sizeof(T);

/// No version of any struct is this large, so a size that was never set is caught before it is believed.
inline constexpr std::size_t most_bytes = 64 * 1024;

template <class T>
constexpr bool is_a_size_of(std::size_t bytes) {
  return bytes >= first_bytes<T> && bytes <= most_bytes;
}

template <class T>
Status check_size(T const* object) {
  static_assert(std::is_trivially_copyable_v<T> && offsetof(T, struct_size) == 0);
  StructName const name = name_of_struct<T>;
  if (object == nullptr) return refuse(name.self, "must not be null");
  if (!is_a_size_of<T>(object->struct_size))
    return refuse(name.size, "must be sizeof the struct, which begins with it",
                  static_cast<std::int64_t>(object->struct_size), sizeof(T));
  return {};
}

/// Copies what both sides know. Members that the caller's version lacks are zero; those that this version lacks must be.
template <class T>
Status read(T const* from, T* to) {
  SPARGE_TRY(check_size(from));
  std::size_t const bytes = from->struct_size;
  auto const* const raw = reinterpret_cast<unsigned char const*>(from);
  for (std::size_t i = sizeof(T); i < bytes; ++i)
    if (raw[i] != 0) {
      Status status = refuse(name_of_struct<T>.size, "uses members that this library is too old to know",
                             static_cast<std::int64_t>(bytes), sizeof(T));
      status.code = StatusCode::unsupported;
      return status;
    }
  *to = T{};
  std::memcpy(to, from, bytes < sizeof(T) ? bytes : sizeof(T));
  return {};
}

/// Fills the caller's struct, whose size was checked and stays. Members that this version does not know become zero.
template <class T>
void write(T const& from, T* to) {
  std::size_t const bytes = to->struct_size;
  std::memset(to, 0, bytes);
  std::memcpy(to, &from, bytes < sizeof(T) ? bytes : sizeof(T));
  to->struct_size = bytes;
}

}  // namespace sparge::c_api
