/// An inference engine around sparge: it plans every layer when it loads, holds all memory in one arena, captures a step of a video
/// diffusion transformer into a CUDA graph and replays it, with dense and with sparse attention. docs/inference_engine.md goes through it.

#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "inference_engine/check.hpp"
#include "inference_engine/options.hpp"
#include "inference_engine/report.hpp"
#include "support/attention_run.hpp"

namespace engine {
namespace {

constexpr int exit_without_gpu = 77;

Shape shape_of(Options const& options) {
  Shape shape = options.model.shape;
  shape.layers = options.layers > 0 ? options.layers : options.model.measured_layers;
  if (options.tokens > 0) shape.tokens = options.tokens;
  return shape;
}

std::string kernel_of(Plans const& plans) {
  sparge::KernelInfo info;
  sparge::check(sparge::supported_kernel(plans.layers[0].self.kernel, &info));
  return info.name;
}

/// An H200, described by hand.
sparge::Device absent_device() { return {0, 9, 0, 132, 232448, 233472, 62914560}; }

int plan_only(Options const& options) {
  Shape const shape = shape_of(options);
  Plans const plans(shape, absent_device());
  std::printf("%s, planned for an H200; nothing is run.\n", options.model.name);
  std::printf("  %zu layers, self-attention by %s\n", plans.layers.size(), kernel_of(plans).c_str());
  std::printf("  mask of %zu bytes, workspace of %zu bytes, arena of %.2f GB\n",
              plans.mask_words * sizeof(std::uint32_t), plans.workspace_bytes,
              double(measure(shape, plans, training::MatrixProduct::scratch_bytes)) * 1e-9);
  return 0;
}

/// Of all layers and heads of a step that was counted.
sparge::MaskStats count_masks(Engine& engine) {
  engine.enqueue_step(Attention::counted);
  engine.stream().wait();
  std::vector<sparge::MaskStats> all;
  for (sparge::MaskStats const* layer : engine.buffers().stats)
    for (sparge::MaskStats const& head : to_host(layer, engine.shape().heads())) all.push_back(head);
  return demo::total(all);
}

std::string name_of(sparge::Device const& device) {
  cudaDeviceProp properties{};
  demo::check_cuda(cudaGetDeviceProperties(&properties, device.ordinal));
  return properties.name;
}

int measure_model(Options const& options, sparge::Device const& device) {
  Report report;
  report.model = options.model, report.shape = shape_of(options);
  report.rule.top_k = options.top_k, report.rule.top_p = options.top_p;
  report.generation.layers = options.model.shape.layers, report.generation.steps = options.steps;
  report.other_dense = options.other_dense, report.sources = options.sources;
  Engine engine(report.shape, report.rule, device, std::uint64_t(options.seed));
  report.gpu = name_of(device), report.kernel = kernel_of(engine.plans());
  report.arena_bytes = engine.arena_bytes();
  report.kept = count_masks(engine);
  report.dense = StepTimer(engine, Attention::dense, options.repeats).run();
  report.sparse = StepTimer(engine, Attention::sparse, options.repeats).run();
  print(report);
  if (!options.json.empty()) append_line(options.json, json_of(report));
  return 0;
}

int main_of(int argc, char** argv) {
  Options const options = parse_options(argc, argv);
  if (options.is_help) {
    std::fputs(usage, stdout);
    return 0;
  }
  if (options.is_plan) return plan_only(options);
  sparge::Device device;
  if (sparge::Status const found = sparge::query_device(0, &device); !found.ok()) {
    std::fprintf(stderr, "inference_engine: no GPU here (%s)\n", sparge::Error(found).what());
    return exit_without_gpu;
  }
  demo::check_cuda(cudaSetDevice(device.ordinal));
  if (!options.is_check) return measure_model(options, device);
  bool const holds = Check(device).run();
  std::puts(holds ? "The engine computes what it should." : "NOT MET: the engine computes what it should.");
  return holds ? 0 : 1;
}

}  // namespace
}  // namespace engine

int main(int argc, char** argv) {
  try {
    return engine::main_of(argc, argv);
  } catch (std::exception const& error) {
    std::fprintf(stderr, "inference_engine: %s\n", error.what());
    return 2;
  }
}
