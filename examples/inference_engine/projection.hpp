#pragma once
/// From the time of one layer to that of a generation.

#include <cstdint>

namespace engine {

/// What the time of a layer is spent on.
enum class Part { linear, mask, self_attention, cross_attention, elementwise };
inline constexpr int part_count = 5;
inline constexpr char const* part_names[part_count] = {"linear layers", "mask", "self-attention",
                                                       "cross-attention", "elementwise"};

/// Milliseconds.
struct PartTimes {
  double of[part_count] = {};

  double operator[](Part part) const { return of[int(part)]; }
  double& operator[](Part part) { return of[int(part)]; }
  double total() const {
    double sum = 0;
    for (double milliseconds : of) sum += milliseconds;
    return sum;
  }
  /// What sparsity is about: self-attention, the choice of its blocks included.
  double attention() const { return (*this)[Part::mask] + (*this)[Part::self_attention]; }
  double attention_share() const { return attention() / total(); }
};

/// Amdahl's law: how much faster the whole is if a share of its time is spent `speedup` times as fast.
constexpr double amdahl(double share, double speedup) { return 1 / ((1 - share) + share / speedup); }

/// A generation: every step runs the whole stack `passes` times, with and without the prompt. Text encoder, VAE, patch embedding and head
/// are not in it.
struct Generation {
  std::int64_t layers = 0, steps = 50, passes = 2;

  double seconds(double layer_milliseconds) const {
    return double(layers) * double(steps) * double(passes) * layer_milliseconds * 1e-3;
  }
};

}  // namespace engine
