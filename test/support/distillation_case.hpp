#pragma once
/// Inputs of distillation_loss(), a run of it on device memory of its own, and the check of what it wrote.

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "sparge/reference/distillation.hpp"
#include "sparge/sparge.hpp"
#include "support/catch.hpp"
#include "support/compare.hpp"
#include "support/device_buffer.hpp"
#include "support/gpu.hpp"
#include "support/random.hpp"

namespace sparge::test {

template <class T>
std::vector<T> gaussian_elements(std::int64_t count, Random& random, double sigma = 1, double mean = 0) {
  std::vector<T> elements(static_cast<std::size_t>(count));
  for (T& x : elements) x = reference::round_to<T>(static_cast<float>(mean + sigma * random.gaussian()));
  return elements;
}

inline std::vector<float> uniform_floats(std::int64_t count, Random& random) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& x : values) x = static_cast<float>(random.uniform());
  return values;
}

inline std::vector<double> as_doubles(std::vector<float> const& values) {
  return {values.begin(), values.end()};
}

template <class T>
struct DistillationInputs {
  DistillationProblem problem;
  std::vector<T> student, teacher;
  std::vector<float> weights;      ///< empty for none
  std::optional<float> grad_loss;  ///< nothing for null
};

/// Student and teacher around `mean`; a difference has `sigma`.
template <class T>
DistillationInputs<T> make_distillation_inputs(DistillationProblem const& p, std::uint64_t seed,
                                               double sigma = 1, double mean = 0) {
  Random random(seed);
  DistillationInputs<T> inputs{p, {}, {}, {}, {}};
  inputs.student = gaussian_elements<T>(p.elements(), random, sigma / std::sqrt(2.0), mean);
  inputs.teacher = gaussian_elements<T>(p.elements(), random, sigma / std::sqrt(2.0), mean);
  return inputs;
}

template <class T>
DistillationInputs<T> make_weighted_inputs(DistillationProblem const& p, std::uint64_t seed) {
  DistillationInputs<T> inputs = make_distillation_inputs<T>(p, seed);
  Random random(seed + 1000);
  inputs.weights = uniform_floats(p.samples, random);
  return inputs;
}

template <class T>
struct DistillationOutput {
  float loss = 0;
  std::vector<T> grad;
};

/// Bit for bit, so that NaN equals itself.
template <class T>
bool operator==(DistillationOutput<T> const& a, DistillationOutput<T> const& b) {
  std::size_t const bytes = a.grad.size() * sizeof(T);
  return std::memcmp(&a.loss, &b.loss, sizeof(float)) == 0 && a.grad.size() == b.grad.size() &&
         (bytes == 0 || std::memcmp(a.grad.data(), b.grad.data(), bytes) == 0);
}

enum class Gradient { wanted, left_out };

template <class T>
class DistillationRun {
public:
  explicit DistillationRun(DistillationInputs<T> const& in, Gradient gradient = Gradient::wanted,
                           Device const& device = test_device(), PlanOptions const& options = {})
      : student_(in.student),
        teacher_(in.teacher),
        grad_(gradient == Gradient::wanted ? in.problem.elements() : 0),
        loss_(1) {
    must(plan_distillation_loss(in.problem, device, options, &plan_));
    scratch_ = std::make_unique<ScratchBuffer>(plan_.workspace_bytes);
    args_ = {student_.data(), teacher_.data()};
    args_.loss = loss_.data();
    if (gradient == Gradient::wanted) args_.grad_student = grad_.data();
    if (!in.weights.empty()) {
      weights_ = std::make_unique<DeviceBuffer<float>>(in.weights);
      args_.weights = weights_->data();
    }
    if (in.grad_loss) {
      grad_loss_ = std::make_unique<DeviceBuffer<float>>(std::vector<float>{*in.grad_loss});
      args_.grad_loss = grad_loss_->data();
    }
  }

  /// New values at the same addresses; the same arguments must be given.
  void upload(DistillationInputs<T> const& in) {
    student_.upload(in.student), teacher_.upload(in.teacher);
    if (weights_) weights_->upload(in.weights);
    if (grad_loss_) grad_loss_->upload({*in.grad_loss});
  }

  DistillationLossPlan<T> const& plan() const { return plan_; }
  DistillationLossArgs<T> const& args() const { return args_; }
  ScratchBuffer& scratch() { return *scratch_; }

  void poison_outputs() { grad_.fill_bytes(0xFF), loss_.fill_bytes(0xFF); }
  Status run(Workspace workspace, cudaStream_t stream) const {
    return distillation_loss(plan_, args_, workspace, stream);
  }
  Status run(cudaStream_t stream) const { return run(scratch_->workspace(), stream); }
  DistillationOutput<T> download() const { return {loss_.download()[0], grad_.download()}; }

private:
  DistillationLossPlan<T> plan_;
  DistillationLossArgs<T> args_;
  DeviceBuffer<T> student_, teacher_, grad_;
  DeviceBuffer<float> loss_;
  std::unique_ptr<DeviceBuffer<float>> weights_, grad_loss_;
  std::unique_ptr<ScratchBuffer> scratch_;
};

/// Outputs and scratch begin as poison.
template <class T>
DistillationOutput<T> run_distillation(DistillationInputs<T> const& inputs,
                                       Gradient gradient = Gradient::wanted) {
  DistillationRun<T> run(inputs, gradient);
  Stream const stream;
  must(run.run(stream));
  stream.wait();
  return run.download();
}

/// Whether `actual`, rounded once to T from an f32 with a relative error of `relative`, may stand for `wanted`.
template <class T>
bool is_rounded_once(double actual, double wanted, double relative, double scale) {
  double const expected = detail::expected_of<T>(wanted);
  if (std::isnan(expected)) return std::isnan(actual);
  if (!std::isfinite(expected)) return actual == expected;
  double const slack = relative * scale + std::ldexp(1.0, -149);
  return std::abs(actual - expected) <= slack + unit_in_last_place<T>(std::abs(expected) + slack) / 2;
}

/// Elements of a result that are not the rounding of the reference.
template <class T>
std::int64_t count_wrong(std::vector<T> const& actual, std::vector<double> const& wanted, double relative) {
  if (actual.size() != wanted.size()) return -1;
  std::int64_t wrong = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i)
    wrong += !is_rounded_once<T>(reference::to_double(actual[i]), wanted[i], relative, std::abs(wanted[i]));
  return wrong;
}

/// The loss within 2^-21 of the sum of magnitudes, the gradient within four f32 roundings and that to T.
template <class T>
void check_distillation(DistillationInputs<T> const& in, DistillationOutput<T> const& output,
                        Gradient gradient = Gradient::wanted) {
  DistillationProblem const& p = in.problem;
  std::vector<double> const weights = as_doubles(in.weights);
  std::vector<double> magnitudes = weights;
  for (double& w : magnitudes) w = std::abs(w);
  auto const loss_of = [&](std::vector<double> const& w) {
    return reference::distillation_loss(in.student.data(), in.teacher.data(), p.samples, p.sample_elements,
                                        w.empty() ? nullptr : w.data());
  };
  reference::DistillationLoss wanted = loss_of(weights);
  double const size = in.weights.empty() ? wanted.loss : loss_of(magnitudes).loss;
  CAPTURE(p.samples, p.sample_elements, in.weights.size(), output.loss, wanted.loss, size);
  if (std::isnan(wanted.loss))
    CHECK(std::isnan(output.loss));
  else if (std::isinf(wanted.loss))
    CHECK(output.loss == wanted.loss);
  else
    CHECK(std::abs(output.loss - wanted.loss) <= std::ldexp(size, -21) + std::ldexp(1.0, -149));
  if (gradient == Gradient::left_out) return;
  if (in.grad_loss)
    for (double& g : wanted.grad) g *= *in.grad_loss;
  CHECK(count_wrong(output.grad, wanted.grad, std::ldexp(1.0, -22)) == 0);
}

}  // namespace sparge::test
