#pragma once
/// Times work that a call enqueues, by CUDA events, with the cost of launching kept out.
///
/// Cold: the L2 cache is overwritten before every sample, and while that runs the host has enqueued the call. Hot: calls
/// run back to back behind a kernel that holds the stream until they are enqueued, and share one pair of events.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>

#include "support/cuda.hpp"
#include "support/probes.hpp"

namespace sparge::bench {

enum class Cache { cold, hot };

constexpr char const* name_of(Cache cache) { return cache == Cache::cold ? "cold" : "hot"; }

struct Timing {
  double ms = 0, ms_min = 0, ms_max = 0;  ///< median, least and most of the samples
  int samples = 0;
  double sm_mhz = 0;  ///< median reading, each taken right behind the timed work
};

inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  std::size_t const half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

class ColdTimer {
public:
  ColdTimer(cudaStream_t stream, std::int64_t l2_bytes)
      : stream_(stream), flush_(2 * l2_bytes), ticks_(2), starts_(group_samples), stops_(group_samples) {}

  /// `call()` enqueues the work on the timer's stream.
  template <class Call>
  Timing time(Cache cache, Call const& call) {
    samples_ms_.clear();
    clocks_mhz_.clear();
    for (int warm_up = 0; warm_up < 2; ++warm_up) call();
    measure_cold(1, call);
    double const estimate_ms = samples_ms_.front();
    samples_ms_.clear();
    clocks_mhz_.clear();
    auto const end = std::chrono::steady_clock::now() + std::chrono::seconds(longest_s);
    double measured_ms = 0;
    while (needs_more(measured_ms) && (too_few() || std::chrono::steady_clock::now() < end))
      measured_ms += cache == Cache::cold ? measure_cold(samples_of(estimate_ms), call)
                                          : measure_hot(samples_of(estimate_ms), call);
    auto const [least, most] = std::minmax_element(samples_ms_.begin(), samples_ms_.end());
    return {median(samples_ms_), *least, *most, static_cast<int>(samples_ms_.size()), median(clocks_mhz_)};
  }

private:
  static constexpr int group_samples = 32, least_samples = 7, longest_s = 3;
  static constexpr double target_ms = 200, group_ms = 20;

  bool too_few() const { return samples_ms_.size() < least_samples; }
  bool needs_more(double measured_ms) const { return too_few() || measured_ms < target_ms; }

  /// Samples or calls that fit a group.
  static int samples_of(double estimate_ms) {
    return std::clamp(static_cast<int>(group_ms / std::max(estimate_ms, 1e-4)), 1, group_samples);
  }

  template <class Call>
  double measure_cold(int samples, Call const& call) {
    for (int i = 0; i < samples; ++i) {
      check(cudaMemsetAsync(flush_.data(), i, flush_.bytes(), stream_), "cudaMemsetAsync");
      starts_[i].record(stream_);
      call();
      stops_[i].record(stream_);
    }
    finish_group();
    double sum = 0;
    for (int i = 0; i < samples; ++i) {
      samples_ms_.push_back(stops_[i].ms_since(starts_[i]));
      sum += samples_ms_.back();
    }
    return sum;
  }

  template <class Call>
  double measure_hot(int calls, Call const& call) {
    constexpr double enqueue_us = 30;  // of one call on the host, generously
    call();
    hold(enqueue_us * calls, stream_);
    starts_[0].record(stream_);
    for (int i = 0; i < calls; ++i) call();
    stops_[0].record(stream_);
    finish_group();
    double const sum = stops_[0].ms_since(starts_[0]);
    samples_ms_.push_back(sum / calls);
    return sum;
  }

  void finish_group() {
    read_sm_clock(ticks_.data(), stream_);
    check(cudaStreamSynchronize(stream_), "the timed work");
    std::vector<std::uint64_t> const ticks = ticks_.download();
    clocks_mhz_.push_back(1e3 * static_cast<double>(ticks[0]) / static_cast<double>(ticks[1]));
  }

  cudaStream_t stream_;
  DeviceArray<unsigned char> flush_;
  DeviceArray<std::uint64_t> ticks_;
  std::vector<Event> starts_, stops_;
  std::vector<double> samples_ms_, clocks_mhz_;
};

}  // namespace sparge::bench
