#pragma once
/// A test of merging from one record: make partial results, run the library, compare with the reference.

#include <cmath>
#include <cstdint>
#include <cstring>
#include <deque>
#include <limits>
#include <vector>

#include "sparge/reference/merge.hpp"
#include "sparge/sparge.hpp"
#include "support/catch.hpp"
#include "support/compare.hpp"
#include "support/device_buffer.hpp"
#include "support/device_tensor.hpp"
#include "support/gpu.hpp"
#include "support/host_tensor.hpp"
#include "support/random.hpp"

namespace sparge::test {

/// What a test case varies.
struct MergeCase {
  AttentionProblem problem;
  int partials = 3;
  bool has_running = false;
  double lse_spread = 2;     ///< standard deviation of the lse of a row's partial results
  double lse_centre = 0;     ///< their mean
  double empty_share = 0.2;  ///< of rows of a partial result; what it holds there is NaN
  Layout layout = Layout::bhnd;
  std::uint64_t seed = 1;
};

template <class T>
struct HostPartial {
  HostTensor<T> out;
  std::vector<float> lse;

  Partial<T> view() const { return {out.const_view(), lse.data()}; }
};

/// Host memory of one call.
template <class T>
struct MergeInputs {
  AttentionProblem problem;
  std::vector<HostPartial<T>> partials;
  std::vector<HostPartial<float>> running;  ///< one or none
};

inline std::int64_t query_rows(AttentionProblem const& p) { return p.batch * p.heads * p.q_tokens; }

template <class T>
HostPartial<T> make_partial(MergeCase const& c, Random& random) {
  AttentionProblem const& p = c.problem;
  HostPartial<T> partial{HostTensor<T>(q_shape(p), c.layout), {}};
  for (std::int64_t row = 0; row < query_rows(p); ++row)
    partial.lse.push_back(random.chance(c.empty_share)
                              ? -std::numeric_limits<float>::infinity()
                              : static_cast<float>(c.lse_centre + c.lse_spread * random.gaussian()));
  fill(partial.out, [&](auto b, auto h, auto n, auto) {
    float const lse = partial.lse[static_cast<std::size_t>((b * p.heads + h) * p.q_tokens + n)];
    return std::isinf(lse) ? std::nan("") : random.gaussian();
  });
  return partial;
}

template <class T>
MergeInputs<T> make_merge_inputs(MergeCase const& c) {
  Random random(c.seed);
  MergeInputs<T> inputs{c.problem, {}, {}};
  for (int i = 0; i < c.partials; ++i) inputs.partials.push_back(make_partial<T>(c, random));
  if (c.has_running) inputs.running.push_back(make_partial<float>(c, random));
  return inputs;
}

/// Results of one call.
template <class T>
struct MergeOutput {
  HostTensor<T> out;
  HostTensor<float> running_out;
  std::vector<float> lse;
};

template <class T>
bool same_bytes(std::vector<T> const& a, std::vector<T> const& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

template <class T>
bool operator==(MergeOutput<T> const& a, MergeOutput<T> const& b) {
  return same_bytes(a.out.storage(), b.out.storage()) &&
         same_bytes(a.running_out.storage(), b.running_out.storage()) && same_bytes(a.lse, b.lse);
}

/// A partial result in device memory.
template <class T>
struct DevicePartial {
  DeviceTensor<T> out;
  DeviceBuffer<float> lse;

  explicit DevicePartial(HostPartial<T> const& host) : out(host.out), lse(host.lse) {}
  Partial<T> view() const { return {out.view(), lse.data()}; }
  void upload(HostPartial<T> const& host) { out.upload(host.out), lse.upload(host.lse); }
};

/// A planned call with its own device memory. Outputs start poisoned.
template <class T>
class MergeRun {
public:
  explicit MergeRun(MergeInputs<T> const& inputs, Layout out_layout = Layout::bhnd,
                    Device const& device = test_device(), PlanOptions const& options = {})
      : out_(q_shape(inputs.problem), out_layout),
        running_out_(q_shape(inputs.problem), out_layout),
        lse_(query_rows(inputs.problem)) {
    must(plan_merge_partials(inputs.problem, device, options, &plan_));
    for (HostPartial<T> const& partial : inputs.partials) partials_.emplace_back(partial);
    for (HostPartial<float> const& partial : inputs.running) running_.emplace_back(partial);
  }

  MergePlan<T> const& plan() const { return plan_; }
  MergeArgs<T> args() const {
    MergeArgs<T> args;
    for (DevicePartial<T> const& partial : partials_) args.partials[args.count++] = partial.view();
    if (!running_.empty()) args.running = running_[0].view();
    args.out = out_.view(), args.running_out = running_out_.view(), args.lse = lse_.data();
    return args;
  }
  Status run(cudaStream_t stream) const { return merge_partials(plan_, args(), stream); }

  /// New inputs of the same shapes and layouts, at the same addresses.
  void upload(MergeInputs<T> const& inputs) {
    for (std::size_t i = 0; i < partials_.size(); ++i) partials_[i].upload(inputs.partials[i]);
    for (std::size_t i = 0; i < running_.size(); ++i) running_[i].upload(inputs.running[i]);
  }
  void poison_outputs() {
    out_.buffer().fill_bytes(GuardedMemory::poison_byte);
    running_out_.buffer().fill_bytes(GuardedMemory::poison_byte);
    lse_.fill_bytes(GuardedMemory::poison_byte);
  }
  MergeOutput<T> download() const { return {out_.download(), running_out_.download(), lse_.download()}; }

private:
  MergePlan<T> plan_;
  std::deque<DevicePartial<T>> partials_;
  std::deque<DevicePartial<float>> running_;
  DeviceTensor<T> out_;
  DeviceTensor<float> running_out_;
  DeviceBuffer<float> lse_;
};

/// Runs once on a stream of its own. Throws where the call is refused.
template <class T>
MergeOutput<T> run_merge(MergeInputs<T> const& inputs, Layout out_layout = Layout::bhnd) {
  MergeRun<T> const run(inputs, out_layout);
  Stream const stream;
  must(run.run(stream));
  stream.wait();
  MergeOutput<T> output = run.download();
  CHECK(padding_is_poison(output.out));
  CHECK(padding_is_poison(output.running_out));
  return output;
}

/// The same values in f32: exact.
template <class T, class Map>
HostPartial<float> in_f32(HostPartial<T> const& from, Map map) {
  HostPartial<float> to{HostTensor<float>(from.out.shape()), from.lse};
  to.out.for_each_index([&](auto... at) { to.out.at(at...) = map(reference::to_float(from.out.at(at...))); });
  return to;
}

/// The merge in f64 of map(values).
template <class T, class Map>
reference::Attention merged_in_f64(MergeInputs<T> const& inputs, Map map) {
  std::vector<HostPartial<float>> all;
  for (auto const& partial : inputs.running) all.push_back(in_f32(partial, map));
  for (auto const& partial : inputs.partials) all.push_back(in_f32(partial, map));
  std::vector<Partial<float>> views;
  for (auto const& partial : all) views.push_back(partial.view());
  return reference::merge_partials(inputs.problem, views);
}

/// One rounding to T, and f32 arithmetic before it: a weight is off by the rounding of lse_i - lse, 2^-24 of a difference that is
/// below 104 where the weight is not 0. `scale` is the merge of the absolute values.
template <class T>
double merge_tolerance(double wanted, double scale) {
  return unit_in_last_place<T>(wanted) / 2 + std::ldexp(scale, -17) + 1e-36;
}

template <class T>
std::int64_t count_wrong(std::vector<double> const& actual, reference::Attention const& wanted,
                         reference::Attention const& scale) {
  std::int64_t wrong = 0;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    bool const right = std::isnan(wanted.out[i]) ? std::isnan(actual[i])
                                                 : std::abs(actual[i] - wanted.out[i]) <=
                                                       merge_tolerance<T>(wanted.out[i], scale.out[i]);
    wrong += !right;
  }
  return wrong;
}

template <class T>
void check_merge(MergeInputs<T> const& inputs, MergeOutput<T> const& output) {
  auto const wanted = merged_in_f64(inputs, [](float x) { return x; });
  auto const scale = merged_in_f64(inputs, [](float x) { return std::abs(x); });
  CHECK(count_wrong<T>(output.out.values(), wanted, scale) == 0);
  CHECK(count_wrong<float>(output.running_out.values(), wanted, scale) == 0);
  std::int64_t wrong = 0;
  for (std::size_t row = 0; row < output.lse.size(); ++row) {
    double const lse = output.lse[row], ideal = wanted.lse[row];
    bool const right = std::isfinite(ideal) ? std::abs(lse - ideal) <= std::ldexp(std::abs(ideal), -23) + 1e-6
                       : std::isnan(ideal)  ? std::isnan(lse)
                                            : lse == ideal;
    wrong += !right;
  }
  CHECK(wrong == 0);
}

/// The whole test of one case.
template <class T>
void check_merge_case(MergeCase const& c, Layout out_layout = Layout::bhnd) {
  AttentionProblem const& p = c.problem;
  CAPTURE(p.batch, p.heads, p.q_tokens, p.head_dim, c.partials, c.has_running, c.lse_spread, c.lse_centre);
  MergeInputs<T> const inputs = make_merge_inputs<T>(c);
  check_merge(inputs, run_merge(inputs, out_layout));
}

}  // namespace sparge::test
