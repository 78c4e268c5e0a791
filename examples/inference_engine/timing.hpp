#pragma once
/// How long a step takes, and its parts.

#include <algorithm>
#include <chrono>
#include <vector>

#include "inference_engine/engine.hpp"

namespace engine {

struct StepTimes {
  double step = 0;  ///< milliseconds of a replay of all measured layers
  PartTimes layer;  ///< of one layer, from steps that were enqueued with events between their parts
};

inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

class StepTimer {
public:
  StepTimer(Engine& engine, Attention attention, std::int64_t repeats)
      : engine_(engine), attention_(attention), repeats_(repeats) {}

  StepTimes run() {
    training::StepGraph const graph = engine_.capture(attention_);
    warm_up(graph);
    double const step = time_replays(graph);
    return {step, time_parts()};
  }

private:
  static constexpr std::chrono::milliseconds warm_up_time{600};  // then a GPU is at its power limit

  void warm_up(training::StepGraph const& graph) const {
    auto const end = std::chrono::steady_clock::now() + warm_up_time;
    do {
      graph.replay(engine_.stream());
      engine_.stream().wait();
    } while (std::chrono::steady_clock::now() < end);
  }

  /// Replays back to back, an event between them.
  double time_replays(training::StepGraph const& graph) const {
    std::vector<cudaEvent_t> events(std::size_t(repeats_) + 1);
    for (cudaEvent_t& event : events) demo::check_cuda(cudaEventCreate(&event));
    for (std::size_t i = 0; i < events.size(); ++i) {
      if (i > 0) graph.replay(engine_.stream());
      demo::check_cuda(cudaEventRecord(events[i], engine_.stream()));
    }
    engine_.stream().wait();
    std::vector<double> times;
    for (std::size_t i = 1; i < events.size(); ++i) {
      float milliseconds = 0;
      demo::check_cuda(cudaEventElapsedTime(&milliseconds, events[i - 1], events[i]));
      times.push_back(double(milliseconds));
    }
    for (cudaEvent_t event : events) cudaEventDestroy(event);
    return median(times);
  }

  /// Medians, part by part. The first of these steps makes the events and is not counted.
  PartTimes time_parts() {
    PartTimer timer;
    std::vector<double> samples[part_count];
    for (std::int64_t i = -1; i < std::max<std::int64_t>(3, repeats_ / 2); ++i) {
      engine_.enqueue_step(attention_, &timer);
      PartTimes const times = timer.finish(engine_.stream());
      for (int part = 0; part < part_count && i >= 0; ++part) samples[part].push_back(times.of[part]);
    }
    PartTimes layer;
    for (int part = 0; part < part_count; ++part)
      layer.of[part] = median(samples[part]) / double(engine_.shape().layers);
    return layer;
  }

  Engine& engine_;
  Attention attention_;
  std::int64_t repeats_;
};

}  // namespace engine
