#pragma once
/// The border: a Status as a sparge_code and a sparge_status.

#include "c_api/structs.hpp"
#include "sparge/sparge.hpp"

namespace sparge::c_api {

inline sparge_status as_c(Status const& status) {
  sparge_status out{};
  out.code = static_cast<sparge_code>(status.code);
  out.cuda_error = static_cast<std::int32_t>(status.cuda);
  out.axis = status.axis;
  out.field = status.field;
  out.given = status.given;
  out.expected = status.expected;
  describe(status, out.text, sizeof out.text);
  return out;
}

/// Makes a call and reports it. A status that cannot be written is refused before the call, which would else be silent.
template <class Call>
sparge_code answer(sparge_status* status, Call call) noexcept {
  if (status != nullptr && !is_a_size_of<sparge_status>(status->struct_size)) return SPARGE_INVALID_ARGUMENT;
  Status const result = call();
  if (status != nullptr) write(as_c(result), status);
  return static_cast<sparge_code>(result.code);
}

}  // namespace sparge::c_api
