#pragma once
/// The loop over steps, the same for either device, and its report.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/attention_run.hpp"
#include "support/table.hpp"
#include "training/trainer.hpp"

namespace training {

/// The student against the teacher on videos that training never sees.
struct HeldOut {
  double error = 0;     ///< |u_student - u_teacher| / |u_teacher|, Euclidean, over all of them
  double sparsity = 0;  ///< of the student's masks
  double pooled_mass = 0;
};

class TrainingRun {
public:
  explicit TrainingRun(Settings const& settings) : settings_(settings) {
    LayerShape const& s = settings.shape;
    for (std::uint64_t i = 0; i < held_out_batches; ++i)
      held_out_.push_back(make_batch(s.video, s.batch, ~std::uint64_t(settings.seed), i));
  }

  template <class Trainer>
  void train(Trainer& trainer, std::FILE* notes) {
    LayerShape const& s = settings_.shape;
    errors_.assign(std::size_t(settings_.steps) + 1, std::nan(""));
    before_ = measure(trainer, 0);
    for (std::int64_t step = 0; step < settings_.steps; ++step) {
      double const rest = 1 - double(step) / double(settings_.steps);
      Batch const batch = make_batch(s.video, s.batch, std::uint64_t(settings_.seed), std::uint64_t(step));
      losses_.push_back(trainer.step(batch, settings_.learning_rate * rest));
      if ((step + 1) % interval() != 0 && step + 1 < settings_.steps) continue;
      after_ = measure(trainer, step + 1);
      std::size_t const done = losses_.size(), shown = std::min(done, std::size_t(interval()));
      std::fprintf(notes, "step %zu: mean loss of the last %zu %.5f, error on held-out videos %.4f\n", done,
                   shown, mean_loss(done - shown, done), after_.error);
      std::fflush(notes);
    }
  }

  /// Whether both went down. False where either is not a number.
  bool has_learnt() const { return last_loss() < first_loss() && after_.error < before_.error; }

  void add_rows(demo::Table& table) const {
    using demo::number_text;
    auto const both = [](double before, double after, int digits) {
      return number_text(before, digits) + " before, " + number_text(after, digits) + " after";
    };
    table.add("loss, mean of first and last quarter of the steps",
              number_text(first_loss(), 5) + ", " + number_text(last_loss(), 5) + ": down by a factor of " +
                  number_text(first_loss() / last_loss(), 2));
    table.add("error on held-out videos, |student - teacher| / |teacher|",
              both(before_.error, after_.error, 4));
    table.add("sparsity of the student's masks", both(before_.sparsity, after_.sparsity, 3));
    table.add("kept mass, pooled scores", both(before_.pooled_mass, after_.pooled_mass, 3));
  }

  /// One line a step: its loss before the update, and the held-out error before it where that was measured.
  void write_csv(std::string const& path, std::string const& title) const {
    std::ofstream file(path);
    file << "# " << title << "\nstep,loss,held_out_error\n";
    for (std::size_t step = 0; step < errors_.size(); ++step) {
      file << step << ',';
      if (step < losses_.size()) file << losses_[step];
      file << ',';
      if (!std::isnan(errors_[step])) file << errors_[step];
      file << '\n';
    }
    if (!file.flush()) throw std::runtime_error("cannot write " + path);
  }

private:
  static constexpr std::uint64_t held_out_batches = 2;

  /// Steps between two looks at the held-out videos.
  std::int64_t interval() const { return std::max<std::int64_t>(10, settings_.steps / 20); }
  std::int64_t quarter() const { return settings_.steps / 4; }

  double mean_loss(std::size_t begin, std::size_t end) const {
    double sum = 0;
    for (std::size_t i = begin; i < end; ++i) sum += losses_[i];
    return sum / double(end - begin);
  }
  double first_loss() const { return mean_loss(0, std::size_t(quarter())); }
  double last_loss() const { return mean_loss(losses_.size() - std::size_t(quarter()), losses_.size()); }

  template <class Trainer>
  HeldOut measure(Trainer& trainer, std::int64_t step) {
    double difference = 0, size = 0;
    std::vector<sparge::MaskStats> stats;
    for (Batch const& batch : held_out_) {
      Comparison const result = trainer.compare(batch);
      difference += result.difference;
      size += result.size;
      stats.insert(stats.end(), result.stats.begin(), result.stats.end());
    }
    sparge::MaskStats const all = demo::total(stats);
    double const error = std::sqrt(difference / size);
    errors_[std::size_t(step)] = error;
    return {error, 1 - double(all.kept_pairs) / double(all.all_pairs), all.pooled_mass};
  }

  Settings settings_;
  std::vector<Batch> held_out_;
  std::vector<double> losses_, errors_;  ///< errors by number of steps done; NaN where not measured
  HeldOut before_, after_;
};

}  // namespace training
