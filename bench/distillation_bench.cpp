/// Velocity distillation on latents of real models: OPERATION/SHAPE/samples_N/DTYPE/CACHE, where the operation is
/// distillation_loss (loss alone), distillation_loss_grad (loss and gradient) or interpolate (x_t).

#include <cmath>

#include "support/bench.hpp"
#include "support/tensors.hpp"

namespace sparge::bench {
namespace {

enum class Gradient { none, written };

/// A token stands for a patch of 1 x 2 x 2 positions of 16 latent channels, as in Wan.
constexpr std::int64_t values_per_token = 64;

DistillationProblem latents_of(Shape const& shape, std::int64_t samples) {
  return {samples, shape.q_tokens * values_per_token};
}

/// The difference of two N(0, 1) has mean square 2; of n elements the mean scatters by sqrt(8 / n).
void require_loss(DeviceArray<float> const& loss, std::int64_t count) {
  double const value = loss.download().front();
  double const allowed = 8 * std::sqrt(8.0 / static_cast<double>(count)) + 1e-3;
  if (!(std::abs(value - 2) <= allowed))
    throw std::runtime_error("the loss of independent normal tensors is " + std::to_string(value) +
                             ", not 2");
}

template <class T>
Result run_loss(Gpu& gpu, DistillationProblem const& problem, Gradient gradient, Cache cache) {
  std::int64_t const count = problem.samples * problem.sample_elements;
  DeviceArray<T> const student(count), teacher(count), grad(gradient == Gradient::written ? count : 0);
  DeviceArray<float> const loss(1);
  fill_normal(student.data(), count, q_seed, gpu.stream);
  fill_normal(teacher.data(), count, k_seed, gpu.stream);
  poison(grad, gpu.stream);
  poison(loss, gpu.stream);
  DistillationLossPlan<T> plan;
  sparge::check(plan_distillation_loss(problem, gpu.device, {}, &plan));
  Scratch const scratch(plan.workspace_bytes);
  DistillationLossArgs<T> args;
  args.student = student.data();
  args.teacher = teacher.data();
  args.loss = loss.data();
  args.grad_student = grad.data();

  Result result;
  result.timing = gpu.timer.time(
      cache, [&] { sparge::check(distillation_loss(plan, args, scratch.workspace(), gpu.stream)); });
  result.bytes = static_cast<double>(student.bytes() + teacher.bytes() + grad.bytes() + loss.bytes());
  require_loss(loss, count);
  if (gradient == Gradient::written) require_finite(grad, "grad_student");
  return result;
}

template <class T>
Result run_interpolate(Gpu& gpu, DistillationProblem const& problem, Cache cache) {
  std::int64_t const count = problem.samples * problem.sample_elements;
  DeviceArray<T> const x0(count), x1(count), x_t(count);
  DeviceArray<float> const t(std::vector<float>(static_cast<std::size_t>(problem.samples), 0.25f));
  fill_normal(x0.data(), count, q_seed, gpu.stream);
  fill_normal(x1.data(), count, k_seed, gpu.stream);
  poison(x_t, gpu.stream);
  InterpolatePlan<T> plan;
  sparge::check(plan_interpolate(problem, gpu.device, {}, &plan));
  InterpolateArgs<T> args;
  args.x0 = x0.data();
  args.x1 = x1.data();
  args.t = t.data();
  args.x_t = x_t.data();

  Result result;
  result.timing = gpu.timer.time(cache, [&] { sparge::check(interpolate(plan, args, gpu.stream)); });
  result.bytes = static_cast<double>(x0.bytes() + x1.bytes() + x_t.bytes() + t.bytes());
  require_finite(x_t, "x_t");
  return result;
}

template <class T>
void add_distillation(Shape const& shape, std::int64_t samples, Cache cache) {
  DistillationProblem const problem = latents_of(shape, samples);
  std::string const suffix = std::string("/") + shape.name + "/samples_" + std::to_string(samples) + "/" +
                             dtype_name<T> + "/" + name_of(cache);
  add_case("distillation_loss" + suffix,
           [=](Gpu& gpu) { return run_loss<T>(gpu, problem, Gradient::none, cache); });
  add_case("distillation_loss_grad" + suffix,
           [=](Gpu& gpu) { return run_loss<T>(gpu, problem, Gradient::written, cache); });
  add_case("interpolate" + suffix, [=](Gpu& gpu) { return run_interpolate<T>(gpu, problem, cache); });
}

}  // namespace

void register_cases(Options const& options) {
  for (Shape const& shape : options.shapes) {
    add_distillation<bfloat16>(shape, 1, Cache::hot);
    for (std::int64_t samples : {1, 32}) add_distillation<bfloat16>(shape, samples, Cache::cold);
    add_distillation<float16>(shape, 32, Cache::cold);
    add_distillation<float>(shape, 32, Cache::cold);
  }
}

}  // namespace sparge::bench
