/// The main of every benchmark program. Fails where a case fails, where none ran, and where the build is not optimised.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <string>

#include "support/bench.hpp"
#include "support/context.hpp"

namespace sparge::bench {
namespace {

int failures = 0;

char const* const usage =
    "  --shapes=default|all|NAME,NAME..   shapes of bench/shapes.hpp (default: default)\n"
    "  --kernel=N                         the kernel of that index (forward_bench: supported_kernel(), "
    "backward_bench:\n"
    "                                     supported_backward_kernel()), instead of the best one\n"
    "and the options of Google Benchmark (--help)\n";

std::vector<Shape> shapes_named(std::string const& names) {
  std::vector<Shape> chosen;
  if (names == "all" || names == "default") {
    std::copy_if(std::begin(shapes), std::end(shapes), std::back_inserter(chosen),
                 [&](Shape const& shape) { return names == "all" || shape.run == Run::by_default; });
    return chosen;
  }
  std::istringstream list(names);
  for (std::string name; std::getline(list, name, ',');) {
    Shape const* shape = find_shape(name);
    if (shape == nullptr) throw std::invalid_argument("--shapes: there is no shape '" + name + "'");
    chosen.push_back(*shape);
  }
  return chosen;
}

/// Takes our options out of argv, so that Google Benchmark sees only its own.
Options take_options(int* argc, char** argv) {
  Options options;
  std::string names = "default";
  int kept = 1;
  for (int i = 1; i < *argc; ++i) {
    std::string const argument = argv[i];
    if (argument.rfind("--shapes=", 0) == 0)
      names = argument.substr(std::strlen("--shapes="));
    else if (argument.rfind("--kernel=", 0) == 0)
      options.plan.force_kernel = std::stoi(argument.substr(std::strlen("--kernel=")));
    else
      argv[kept++] = argv[i];
  }
  *argc = kept;
  options.shapes = shapes_named(names);
  return options;
}

bool only_lists(int argc, char** argv) {
  return std::any_of(argv + 1, argv + argc, [](char const* argument) {
    return std::string(argument).rfind("--benchmark_list_tests", 0) == 0;
  });
}

void report(benchmark::State& state, Gpu const& gpu, Result const& result) {
  double const seconds = result.timing.ms * 1e-3;
  auto add = [&](char const* name, double value) {
    if (value > 0) state.counters[name] = value;
  };
  add("ms", result.timing.ms);
  add("ms_min", result.timing.ms_min);
  add("ms_max", result.timing.ms_max);
  add("samples", result.timing.samples);
  add("density", result.density);
  add("TFLOP/s", result.flop / seconds * 1e-12);
  add("of_mma_sync", result.flop / seconds / gpu.mma_sync_flop_per_s);
  add("GB/s", result.bytes / seconds * 1e-9);
  add("of_copy", result.bytes / seconds / gpu.copy_bytes_per_s);
  add("sm_mhz", result.timing.sm_mhz);
}

void run_case(benchmark::State& state, std::function<Result(Gpu&)> const& run) {
  try {
    for (auto _ : state) {
      Gpu& gpu = Gpu::current();
      Result const result = run(gpu);
      state.SetIterationTime(result.timing.ms * 1e-3);
      report(state, gpu, result);
    }
  } catch (std::exception const& error) {
    ++failures;
    state.SkipWithError(error.what());
  }
}

}  // namespace

Gpu& Gpu::current() {
  static Gpu gpu;
  return gpu;
}

static Device current_device() {
  int ordinal = 0;
  check(cudaGetDevice(&ordinal), "cudaGetDevice");
  Device device;
  sparge::check(query_device(ordinal, &device));
  return device;
}

Gpu::Gpu()
    : device(current_device()),
      timer(stream, device.l2_bytes),
      copy_bytes_per_s(measure_copy_bytes_per_s(stream)),
      mma_sync_flop_per_s(measure_mma_sync_flop_per_s(device.sm_count, stream)) {}

void add_case(std::string const& name, std::function<Result(Gpu&)> run) {
  benchmark::RegisterBenchmark(name.c_str(), [run](benchmark::State& state) { run_case(state, run); })
      ->UseManualTime()
      ->Iterations(1)
      ->Unit(benchmark::kMillisecond);
}

static int run_program(int argc, char** argv) {
  if (char const* reason = why_not_optimised()) throw std::runtime_error(reason);
  Options const options = take_options(&argc, argv);
  bool const lists = only_lists(argc, argv);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) {
    std::fputs(usage, stderr);
    return EXIT_FAILURE;
  }
  add_build_context();
  if (!lists) add_gpu_context();
  register_cases(options);
  std::size_t const cases = benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  if (cases == 0) throw std::runtime_error("no benchmark was asked for");
  if (failures > 0) std::fprintf(stderr, "%d failed\n", failures);
  return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace sparge::bench

int main(int argc, char** argv) {
  try {
    return sparge::bench::run_program(argc, argv);
  } catch (std::exception const& error) {
    std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
    return EXIT_FAILURE;
  }
}
