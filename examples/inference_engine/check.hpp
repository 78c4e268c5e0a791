#pragma once
/// Whether the engine computes what it should, on a small shape: against the host in f64, dense against sparse, replayed against enqueued.

#include <algorithm>
#include <cstdio>
#include <type_traits>
#include <vector>

#include "inference_engine/engine.hpp"
#include "inference_engine/host_layer.hpp"

namespace engine {

template <class T>
std::vector<T> to_host(T const* data, std::int64_t count) {
  std::vector<T> values(static_cast<std::size_t>(count));
  demo::check_cuda(cudaMemcpy(values.data(), data, values.size() * sizeof(T), cudaMemcpyDeviceToHost));
  return values;
}

template <class T>
Numbers to_numbers(T const* data, std::int64_t count) {
  Numbers numbers;
  for (T x : to_host(data, count)) numbers.push_back(sparge::reference::to_double(x));
  return numbers;
}

class Check {
public:
  explicit Check(sparge::Device const& device) : device_(device) {}

  bool run() {
    bool holds = matches_host(Attention::dense) & matches_host(Attention::sparse);
    holds &= all_kept_is_dense();
    holds &= replay_reads_new_inputs();
    return holds;
  }

private:
  static constexpr std::uint64_t seed = 1;

  static bool say(bool holds, char const* what) {
    std::printf("  %s: %s\n", what, holds ? "yes" : "NO");
    return holds;
  }

  using Bits = std::vector<std::uint16_t>;
  static Bits output_bits(Engine const& e) {
    e.stream().wait();
    return to_host(reinterpret_cast<std::uint16_t const*>(e.buffers().x), e.shape().tokens * e.shape().dim);
  }

  /// What the replay leaves in x, which was overwritten before.
  static Bits replay(Engine const& e, training::StepGraph const& graph) {
    auto const bytes = std::size_t(e.shape().tokens * e.shape().dim) * sizeof(bfloat16);
    demo::check_cuda(cudaMemsetAsync(e.buffers().x, 0xff, bytes, e.stream()));
    graph.replay(e.stream());
    return output_bits(e);
  }

  /// Exactly two of the five key blocks in each row.
  static sparge::MaskRule two_blocks() {
    sparge::MaskRule rule;
    rule.top_k = 0.4, rule.top_p = 0;
    return rule;
  }

  /// Biases and the like of a size that a mistake in them would show.
  static void spread_vectors(Engine const& e) {
    std::uint64_t seed_of_member = 100;
    for (DeviceWeights layer : e.buffers().layers)
      visit_weights(e.shape(), layer, [&](auto* member, std::int64_t count, Distribution d) {
        if constexpr (std::is_same_v<decltype(member), float*>)
          demo::check_cuda(
              fill_random(member, count, {d.mean, spread_of_vectors}, ++seed_of_member, e.stream()));
      });
  }

  static HostWeights weights_of(Engine const& e) {
    std::vector<Numbers> all;
    DeviceWeights device = e.buffers().layers[0];
    visit_weights(e.shape(), device, [&](auto* data, std::int64_t count, Distribution) {
      all.push_back(to_numbers(data, count));
    });
    HostWeights host;
    std::size_t next = 0;
    visit_weights(e.shape(), host,
                  [&](Numbers& member, std::int64_t, Distribution) { member = all[next++]; });
    return host;
  }

  static HostInputs inputs_of(Engine const& e, Attention attention) {
    Shape const& s = e.shape();
    Buffers const& b = e.buffers();
    HostInputs in{to_numbers(b.input, s.tokens * s.dim),
                  to_numbers(b.text, s.text_tokens * s.dim),
                  to_numbers(b.time, modulations * s.dim),
                  {}};
    if (attention != Attention::dense) in.mask = to_host(b.mask.data, std::int64_t(b.mask.words));
    return in;
  }

  /// One layer, replayed from a graph. What rounding to bf16 does to the layer on the host says how far off it may be on the device.
  bool matches_host(Attention attention) {
    Engine e(small_shape(1), two_blocks(), device_, seed);
    spread_vectors(e);
    training::StepGraph const graph = e.capture(attention);
    replay(e, graph);
    HostWeights const weights = weights_of(e);
    HostInputs const in = inputs_of(e, attention);
    Numbers const exact = HostLayer(e.shape(), weights, in, Storage::exact).run();
    Numbers const rounded = HostLayer(e.shape(), weights, in, Storage::bf16).run();
    Numbers const computed = to_numbers(e.buffers().x, e.shape().tokens * e.shape().dim);
    double const error = relative_error(computed, exact, in.x);
    double const allowed = 2 * relative_error(rounded, exact, in.x);
    std::printf("  one %s layer against the host in f64: relative error %.2e, allowed %.2e\n",
                attention == Attention::dense ? "dense" : "sparse", error, allowed);
    return say(error <= allowed, "  within twice what rounding to bf16 does");
  }

  bool all_kept_is_dense() {
    sparge::MaskRule everything;
    everything.top_k = 1;
    Engine e(small_shape(3), everything, device_, seed);
    training::StepGraph const dense = e.capture(Attention::dense), sparse = e.capture(Attention::sparse);
    Bits const expected = replay(e, dense);
    return say(replay(e, sparse) == expected,
               "three layers, a rule that keeps everything: the bits of the dense stack");
  }

  /// A graph that was captured with one input gives, replayed with another, what enqueueing the step gives.
  bool replay_reads_new_inputs() {
    Engine e(small_shape(3), two_blocks(), device_, seed);
    training::StepGraph const graph = e.capture(Attention::sparse);
    Bits const before = replay(e, graph);
    e.load_inputs(seed + 7);
    e.enqueue_step(Attention::counted);
    Bits const enqueued = output_bits(e), replayed = replay(e, graph);
    bool holds = say(replayed == enqueued && replayed != before,
                     "three sparse layers, replayed with new inputs: the bits of the enqueued step");
    return holds & keeps_two_blocks(e);
  }

  /// Of a step that was counted.
  bool keeps_two_blocks(Engine const& e) {
    sparge::AttentionProblem const p = e.shape().self_attention();
    bool holds = true;
    for (sparge::MaskStats const* layer : e.buffers().stats)
      for (sparge::MaskStats const& head : to_host(layer, p.heads))
        holds &= head.kept_pairs == 2 * p.q_blocks() && head.all_pairs == p.q_blocks() * p.kv_blocks();
    return say(holds, "masks that should keep two key blocks a row keep two");
  }

  sparge::Device device_;
};

}  // namespace engine
