#pragma once
/// What messages call the partial results of a merge: "partials[3].out.data" and so on.

#include <array>

#include "sparge/core/partial.hpp"

namespace sparge {

struct PartialName {
  char data[24], shape[24], stride[24], lse[24];
};

namespace detail {

template <std::size_t size>
constexpr void write_name(char (&to)[size], int index, char const* member) {
  int length = 0;
  for (char const* c = "partials["; *c != 0; ++c) to[length++] = *c;
  if (index >= 10) to[length++] = static_cast<char>('0' + index / 10);
  to[length++] = static_cast<char>('0' + index % 10);
  for (char const* c = member; *c != 0; ++c) to[length++] = *c;
}

constexpr std::array<PartialName, most_partials> name_partials() {
  std::array<PartialName, most_partials> names{};
  for (int i = 0; i < most_partials; ++i) {
    write_name(names[i].data, i, "].out.data");
    write_name(names[i].shape, i, "].out.shape");
    write_name(names[i].stride, i, "].out.stride");
    write_name(names[i].lse, i, "].lse");
  }
  return names;
}

}  // namespace detail

inline constexpr std::array<PartialName, most_partials> partial_names = detail::name_partials();

}  // namespace sparge
