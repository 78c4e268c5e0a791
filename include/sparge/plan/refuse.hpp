#pragma once
/// Short ways to build a Status. Texts are literals: what is wrong, then what would work.

#include "sparge/core/status.hpp"

namespace sparge {

constexpr Status refuse(char const* field, char const* reason) {
  return {StatusCode::invalid_argument, field, reason};
}

constexpr Status refuse(char const* field, char const* reason, std::int64_t given) {
  return {StatusCode::invalid_argument, field, reason, -1, StatusValue::given, given};
}

constexpr Status refuse(char const* field, char const* reason, std::int64_t given, std::int64_t expected) {
  return {StatusCode::invalid_argument, field, reason, -1, StatusValue::given_and_expected, given, expected};
}

constexpr Status refuse_real(char const* field, char const* reason, double given) {
  return {StatusCode::invalid_argument, field, reason, -1, StatusValue::given_real, 0, 0, given};
}

constexpr Status unsupported(char const* field, char const* reason, std::int64_t given) {
  return {StatusCode::unsupported, field, reason, -1, StatusValue::given, given};
}

constexpr Status mismatch(char const* field, char const* reason, std::int64_t given, std::int64_t expected) {
  return {StatusCode::plan_mismatch, field, reason, -1, StatusValue::given_and_expected, given, expected};
}

constexpr Status at_axis(Status status, int axis) {
  status.axis = axis;
  return status;
}

inline Status cuda_failure(char const* field, cudaError_t error) {
  Status status{StatusCode::cuda_error, field, "the CUDA runtime refused"};
  status.cuda = error;
  return status;
}

inline Status launch_result(char const* kernel, cudaError_t error) {
  return error == cudaSuccess ? Status{} : cuda_failure(kernel, error);
}

}  // namespace sparge
