#pragma once
/// For callers who prefer exceptions: `check(forward(plan, args, workspace, stream));`

#include <stdexcept>
#include <string>

#include "sparge/sparge.hpp"

namespace sparge {

class Error : public std::runtime_error {
public:
  explicit Error(Status const& status) : std::runtime_error(text_of(status)), status_(status) {}
  Status const& status() const noexcept { return status_; }

private:
  static std::string text_of(Status const& status) {
    std::string text(describe(status, nullptr, 0), '\0');
    describe(status, text.data(), text.size() + 1);
    return text;
  }
  Status status_;
};

/// Throws Error unless the call succeeded.
inline void check(Status const& status) {
  if (!status.ok()) throw Error(status);
}

}  // namespace sparge
