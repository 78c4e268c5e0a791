#pragma once
/// What the benchmark programs share: the GPU under test, the options, and how a case is registered and reported.

#include <benchmark/benchmark.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "shapes.hpp"
#include "sparge/throwing.hpp"
#include "support/cold_timer.hpp"
#include "support/cuda.hpp"

namespace sparge::bench {

/// The current GPU, and its ceilings as measured in this process.
class Gpu {
public:
  /// Made at first use; throws where there is no GPU.
  static Gpu& current();

  Device device;
  Stream stream;
  ColdTimer timer;
  double copy_bytes_per_s, mma_sync_flop_per_s;

private:
  Gpu();
};

struct Options {
  std::vector<Shape> shapes;  ///< what to run
  PlanOptions plan;           ///< --kernel
};

/// What a case measured. Zeros are left out of the report.
struct Result {
  Timing timing;
  double flop = 0;     ///< of the kept pairs
  double bytes = 0;    ///< that must move: every input read once, every output written once
  double density = 0;  ///< kept block pairs / all block pairs
};

/// Registers a benchmark of one iteration, whose manual time is the median of the timer's samples. What `run` throws
/// fails the case, and with it the program.
void add_case(std::string const& name, std::function<Result(Gpu&)> run);

/// Every program defines this one.
void register_cases(Options const& options);

template <class T>
constexpr char const* dtype_name = "";
template <>
inline constexpr char const* dtype_name<bfloat16> = "bf16";
template <>
inline constexpr char const* dtype_name<float16> = "f16";
template <>
inline constexpr char const* dtype_name<float> = "f32";

}  // namespace sparge::bench
