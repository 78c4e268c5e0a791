/// Velocity distillation of one attention layer, after the method's second stage: a student with sparse attention learns to
/// predict the velocity that a frozen teacher with full attention predicts. On a GPU if there is one, each step one replay
/// of a CUDA graph; else on the host reference. docs/training.md goes through it.

#include <cstdio>
#include <exception>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "training/gpu_trainer.hpp"
#include "training/gradient_check.hpp"
#include "training/host_trainer.hpp"
#include "training/options.hpp"
#include "training/training_run.hpp"

namespace training {
namespace {

constexpr int exit_without_gpu = 4;

/// No value where the host is to compute.
std::optional<sparge::Device> device_of(Options const& options) {
  if (options.where == Where::cpu) {
    std::puts("The host computes everything, by the library's reference in f64.");
    return std::nullopt;
  }
  sparge::Device device;
  sparge::Status const found = sparge::query_device(0, &device);
  if (found.ok()) return device;
  if (options.where == Where::gpu) throw sparge::Error(found);
  std::printf("No GPU here (%s): the host computes everything, by the library's reference in f64.\n",
              sparge::Error(found).what());
  return std::nullopt;
}

Settings settings_of(Options const& options, bool on_gpu) {
  Settings settings;
  bool const is_small = !on_gpu || options.is_small;
  settings.shape.video = is_small ? VideoShape{4, 16, 16} : VideoShape{8, 32, 32};
  settings.shape.batch = is_small ? 2 : 4;
  settings.shape.heads = is_small ? 2 : 4;
  settings.rule.top_k = options.top_k;
  settings.rule.top_p = options.top_p;
  settings.learning_rate = options.learning_rate;
  settings.steps = options.steps > 0 ? options.steps : on_gpu ? 600 : 100;
  settings.seed = options.seed;
  return settings;
}

// ---- Training ------------------------------------------------------------------------------------------------------

template <class Trainer>
int train(Trainer& trainer, Settings const& settings, Options const& options) {
  LayerShape const& s = settings.shape;
  std::string const title = trainer.where() + ", batch " + std::to_string(s.batch) + ", " +
                            demo::count_text(s.video.tokens()) + " tokens, " + std::to_string(s.heads) +
                            " heads of " + std::to_string(s.head_dim);
  TrainingRun run(settings);
  run.train(trainer, stdout);
  demo::Table table("Distillation: " + title + ", " + std::to_string(settings.steps) + " steps");
  run.add_rows(table);
  table.print(false);
  if (!options.csv.empty()) run.write_csv(options.csv, title);
  bool const has_learnt = run.has_learnt();
  std::puts(has_learnt ? "Loss and held-out error went down." : "NOT MET: loss and held-out error go down.");
  return has_learnt ? 0 : 1;
}

int train(Options const& options, std::optional<sparge::Device> const& device) {
  Settings const settings = settings_of(options, device.has_value());
  Weights<double> const teacher = make_teacher(settings.shape, std::uint64_t(settings.seed));
  if (!device) {
    HostTrainer trainer(settings, teacher, teacher);
    return train(trainer, settings, options);
  }
  GpuTrainer trainer(settings, teacher, teacher, *device);
  return train(trainer, settings, options);
}

// ---- Gradients -----------------------------------------------------------------------------------------------------

/// Weights that bf16 holds, so that both devices have the same ones.
std::vector<double> rounded(std::vector<double> values) {
  for (double& x : values) x = double(__bfloat162float(__float2bfloat16(float(x))));
  return values;
}

/// Far from the teacher, so that the loss is no difference of nearly equal numbers.
Weights<double> disturbed(Weights<double> w, std::uint64_t seed) {
  Random const random(seed, 2);
  std::uint64_t at = 0;
  for (double& x : w.qkv) x += 0.1 * random.normal(at++);
  for (double& x : w.out) x += 0.1 * random.normal(at++);
  return {rounded(w.qkv), rounded(w.out)};
}

int check_gradients(Options const& options, std::optional<sparge::Device> const& device) {
  Settings settings = settings_of(options, device.has_value());
  settings.shape.video = {4, 8, 8};
  settings.shape.batch = 2;
  settings.shape.heads = 2;
  settings.rule.top_k = 0.5;
  LayerShape const& s = settings.shape;
  auto const seed = std::uint64_t(options.seed);
  Weights<double> const made = make_teacher(s, seed), teacher{rounded(made.qkv), rounded(made.out)},
                        student = disturbed(teacher, seed);
  Batch const batch = make_batch(s.video, s.batch, seed, 0);

  std::printf("Gradients: batch %lld, %lld tokens, 2 heads; fixed mask with top_k 0.5\n", (long long)s.batch,
              (long long)s.video.tokens());
  Numbers x;
  MaskWords mask;
  std::optional<Weights<double>> computed;
  if (device) {
    GpuTrainer trainer(settings, teacher, student, *device);
    trainer.step(batch, 0);
    auto const record = trainer.record();
    for (bfloat16 value : record.x_t) x.push_back(double(__bfloat162float(value)));
    mask = record.mask;
    computed = {{record.grad_qkv.begin(), record.grad_qkv.end()},
                {record.grad_out.begin(), record.grad_out.end()}};
  } else {
    std::tie(x, mask) = HostTrainer(settings, teacher, student).input_and_mask(batch);
  }
  LossOfWeights const loss(s, x, mask, teacher);
  Weights<double> const exact = loss.gradient(student);
  bool holds = check_elements(s, loss, student, exact);
  if (computed) holds &= check_bf16(s, loss, student, exact, *computed);
  std::puts(holds ? "Gradients agree with finite differences."
                  : "NOT MET: gradients agree with finite differences.");
  return holds ? 0 : 1;
}

int main_of(int argc, char** argv) {
  Options const options = parse_options(argc, argv);
  if (options.is_help) {
    std::fputs(usage, stdout);
    return 0;
  }
  std::optional<sparge::Device> device;
  try {
    device = device_of(options);
  } catch (sparge::Error const& error) {
    std::fprintf(stderr, "training_step: no GPU here (%s)\n", error.what());
    return exit_without_gpu;
  }
  return options.is_check ? check_gradients(options, device) : train(options, device);
}

}  // namespace
}  // namespace training

int main(int argc, char** argv) {
  try {
    return training::main_of(argc, argv);
  } catch (std::exception const& error) {
    std::fprintf(stderr, "training_step: %s\n", error.what());
    return 2;
  }
}
