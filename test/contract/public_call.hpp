#pragma once
/// One face for every public call.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "sparge/sparge.hpp"
#include "support/random.hpp"

namespace sparge::test {

/// A planned call on device memory of its own, which the functions keep alive.
struct PublicCall {
  std::string name;
  std::size_t workspace_bytes = 0;
  std::function<Status(Workspace, cudaStream_t)> run;
  std::function<void(std::uint64_t seed)> set_inputs;  ///< new values at the same addresses
  std::function<void()> poison_outputs;
  std::function<std::vector<unsigned char>()> outputs;  ///< as bytes
};

namespace detail {

inline void append(std::vector<unsigned char>& all, std::vector<unsigned char> const& more) {
  all.insert(all.end(), more.begin(), more.end());
}

inline std::vector<float> random_floats(std::int64_t count, Random& random) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = static_cast<float>(random.gaussian());
  return values;
}

}  // namespace detail

}  // namespace sparge::test
