#pragma once
/// One step of velocity distillation on the host in f64, by the library's reference.

#include <utility>

#include "sparge/reference/distillation.hpp"
#include "sparge/reference/mask.hpp"
#include "training/host_layer.hpp"
#include "training/sgd.hpp"
#include "training/trainer.hpp"

namespace training {

class HostTrainer {
public:
  HostTrainer(Settings const& settings, Weights<double> teacher, Weights<double> student)
      : s_(settings.shape),
        rule_(settings.rule),
        full_(sparge::reference::full_mask(s_.attention())),
        teacher_(std::move(teacher)),
        student_(std::move(student)) {}

  std::string where() const { return "host reference, f64"; }

  /// Returns the loss before the update.
  double step(Batch const& batch, double learning_rate) {
    Numbers const x = x_t(batch);
    Numbers const target = velocity_of_teacher(x);
    HostActivations a;
    MaskWords const mask = run_student(x, a);
    auto const loss = sparge::reference::distillation_loss(a.velocity.data(), target.data(), s_.batch,
                                                           s_.samples().sample_elements);
    Weights<double> const grad = backward(s_, student_, x, mask, a, loss.grad);
    descend(student_.qkv, momentum_.qkv, grad.qkv, learning_rate);
    descend(student_.out, momentum_.out, grad.out, learning_rate);
    return loss.loss;
  }

  Comparison compare(Batch const& batch) const {
    Numbers const x = x_t(batch);
    HostActivations a;
    MaskWords const mask = run_student(x, a);
    Comparison result;
    add_difference(a.velocity, velocity_of_teacher(x), result);
    double const* const qkv = a.qkv.data();
    sparge::AttentionProblem const p = s_.attention();
    result.stats = sparge::reference::mask_stats(
        p, rule_, sparge::reference::pool(part_of_qkv(s_, qkv, 0), p.q_block).data(),
        sparge::reference::pool(part_of_qkv(s_, qkv, 1), p.kv_block).data(), view_of(mask));
    return result;
  }

  /// x_t and the student's mask, which a step would use.
  std::pair<Numbers, MaskWords> input_and_mask(Batch const& batch) const {
    Numbers x = x_t(batch);
    HostActivations a;
    MaskWords mask = run_student(x, a);
    return {std::move(x), std::move(mask)};
  }

private:
  Numbers x_t(Batch const& batch) const {
    Numbers const t(batch.t.begin(), batch.t.end());
    return sparge::reference::interpolate(batch.x0.data(), batch.x1.data(), t.data(), s_.batch,
                                          s_.samples().sample_elements);
  }

  Numbers velocity_of_teacher(Numbers const& x) const {
    HostActivations a;
    a.qkv = project_qkv(teacher_, x);
    attend(s_, teacher_, full_, a);
    return std::move(a.velocity);
  }

  /// Returns the mask, which the student's own queries and keys choose.
  MaskWords run_student(Numbers const& x, HostActivations& a) const {
    a.qkv = project_qkv(student_, x);
    double const* const qkv = a.qkv.data();
    MaskWords mask = sparge::reference::build_mask(s_.attention(), rule_, part_of_qkv(s_, qkv, 0),
                                                   part_of_qkv(s_, qkv, 1));
    attend(s_, student_, mask, a);
    return mask;
  }

  static void descend(Numbers& weights, Numbers& momentum, Numbers const& grad, double learning_rate) {
    momentum.resize(grad.size());
    for (std::size_t i = 0; i < weights.size(); ++i) {
      momentum[i] = momentum_decay * momentum[i] + grad[i];
      weights[i] -= learning_rate * momentum[i];
    }
  }

  LayerShape s_;
  sparge::MaskRule rule_;
  MaskWords full_;
  Weights<double> teacher_, student_, momentum_;
};

}  // namespace training
