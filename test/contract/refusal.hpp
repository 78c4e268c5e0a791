#pragma once
/// What a refusal must say, and the check of it.

#include <cstdint>
#include <optional>
#include <string>

#include "sparge/sparge.hpp"
#include "support/catch.hpp"
#include "support/gpu.hpp"

namespace sparge::test {

struct Refusal {
  StatusCode code;
  char const* field;
  int axis = -1;
  std::optional<std::int64_t> given = std::nullopt, expected = std::nullopt;
};

inline Refusal invalid(char const* field) { return {StatusCode::invalid_argument, field}; }
inline Refusal invalid(char const* field, std::int64_t given) {
  return {StatusCode::invalid_argument, field, -1, given};
}
inline Refusal invalid(char const* field, std::int64_t given, std::int64_t expected) {
  return {StatusCode::invalid_argument, field, -1, given, expected};
}
inline Refusal invalid_axis(char const* field, int axis, std::int64_t given) {
  return {StatusCode::invalid_argument, field, axis, given};
}
inline Refusal not_built(char const* field, std::int64_t given) {
  return {StatusCode::unsupported, field, -1, given};
}
inline Refusal not_the_plans(char const* field, std::int64_t given, std::int64_t expected) {
  return {StatusCode::plan_mismatch, field, -1, given, expected};
}
inline Refusal not_the_plans_axis(char const* field, int axis, std::int64_t given, std::int64_t expected) {
  return {StatusCode::plan_mismatch, field, axis, given, expected};
}

/// Code, field and numbers are those promised, and the one line of text names the field and the numbers.
inline void check_refused(Status const& status, Refusal const& wanted) {
  std::string const text = text_of(status);
  CAPTURE(text);
  CHECK(status.code == wanted.code);
  CHECK(std::string(status.field) == wanted.field);
  CHECK(status.axis == wanted.axis);
  CHECK(text.find(wanted.field) != std::string::npos);
  CHECK(text.find('\n') == std::string::npos);
  CHECK(std::string(status.reason) != "");
  if (wanted.given) {
    CHECK(status.shows != StatusValue::none);
    CHECK(status.given == *wanted.given);
    CHECK(text.find(std::to_string(*wanted.given)) != std::string::npos);
  }
  if (wanted.expected) {
    CHECK(status.shows == StatusValue::given_and_expected);
    CHECK(status.expected == *wanted.expected);
    CHECK(text.find(std::to_string(*wanted.expected)) != std::string::npos);
  }
}

}  // namespace sparge::test
