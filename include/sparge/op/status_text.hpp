#pragma once
/// describe(): a Status as one line of text. Never allocates.

#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstring>

#include "sparge/core/linkage.hpp"
#include "sparge/plan/forward_config.hpp"
#include "sparge/sparge.hpp"

namespace sparge {

namespace detail {

/// Appends to a buffer that may be too short, as snprintf does: what does not fit is only counted.
class LineWriter {
public:
  LineWriter(char* text, std::size_t size) : text_(text), size_(text ? size : 0) {
    if (size_ > 0) text_[0] = '\0';
  }

  LineWriter& operator<<(char const* piece) {
    for (; *piece != '\0'; ++piece, ++length_) {
      if (length_ + 1 >= size_) continue;
      text_[length_] = *piece;
      text_[length_ + 1] = '\0';
    }
    return *this;
  }

  LineWriter& operator<<(std::int64_t value) {
    char digits[24];
    std::snprintf(digits, sizeof digits, "%lld", static_cast<long long>(value));
    return *this << static_cast<char const*>(digits);
  }

  LineWriter& operator<<(double value) {
    char digits[40];
    std::snprintf(digits, sizeof digits, "%.9g", value);
    return *this << static_cast<char const*>(digits);
  }

  std::size_t length() const { return length_; }

private:
  char* text_;
  std::size_t size_, length_ = 0;
};

inline char const* name_of(StatusCode code) {
  switch (code) {
    case StatusCode::ok:
      return "ok";
    case StatusCode::invalid_argument:
      return "invalid argument";
    case StatusCode::unsupported:
      return "unsupported";
    case StatusCode::workspace_too_small:
      return "workspace too small";
    case StatusCode::plan_mismatch:
      return "not what the plan was made for";
    case StatusCode::cuda_error:
      return "CUDA error";
  }
  return "unknown status";
}

/// E.g. "q.stride[2] = 132, expected 8".
inline void write_values(LineWriter& line, Status const& status) {
  line << status.field;
  if (status.axis >= 0) line << "[" << std::int64_t{status.axis} << "]";
  if (status.shows == StatusValue::given_real) line << " = " << status.given_real;
  if (status.shows == StatusValue::given || status.shows == StatusValue::given_and_expected)
    line << " = " << status.given;
  if (status.shows == StatusValue::given_and_expected) line << ", expected " << status.expected;
}

inline void write_built_targets(LineWriter& line) {
  char const* separator = "; built for compute capability ";
  for (built::Target const& target : built::targets) {
    line << separator << std::int64_t{target.capability}
         << (target.ptx ? " and, as PTX, every later one" : "");
    separator = ", ";
  }
}

inline bool names_same_kind(ForwardConfig const& a, ForwardConfig const& b) {
  return a.dtype == b.dtype && a.head_dim == b.head_dim;
}

inline void write_built_kernels(LineWriter& line) {
  char const* separator = "; forward kernels built for ";
  for (std::int32_t row = 0; row < forward_rows; ++row) {
    bool seen = !is_built(row);
    for (std::int32_t earlier = 0; earlier < row && !seen; ++earlier)
      seen = is_built(earlier) && names_same_kind(forward_table[earlier], forward_table[row]);
    if (seen) continue;
    line << separator << sparge::name_of(forward_table[row].dtype) << " head_dim "
         << std::int64_t{forward_table[row].head_dim};
    separator = ", ";
  }
}

/// What would work, where the build decides it.
inline void write_what_is_built(LineWriter& line, Status const& status) {
  if (status.code != StatusCode::unsupported) return;
  if (std::strcmp(status.field, "device.capability") == 0) write_built_targets(line);
  for (char const* field : {"dtype", "problem.head_dim", "options.force_kernel"})
    if (std::strcmp(status.field, field) == 0) write_built_kernels(line);
}

}  // namespace detail

SPARGE_INLINE std::size_t describe(Status const& status, char* text, std::size_t size) noexcept {
  detail::LineWriter line(text, size);
  line << detail::name_of(status.code);
  if (status.ok()) return line.length();
  line << ": ";
  detail::write_values(line, status);
  line << ": " << status.reason;
  if (status.code == StatusCode::cuda_error)
    line << ": " << cudaGetErrorName(status.cuda) << " (" << cudaGetErrorString(status.cuda) << ")";
  detail::write_what_is_built(line, status);
  return line.length();
}

}  // namespace sparge
