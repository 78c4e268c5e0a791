/// Merging of partial results: merge_partials/SHAPE/partials_N/DTYPE/CACHE, or with "running" for a step of a ring, one new result into
/// an f32 one.

#include <memory>
#include <string>
#include <vector>

#include "support/bench.hpp"
#include "support/tensors.hpp"

namespace sparge::bench {
namespace {

constexpr int most_measured = 8;

/// Partial results of one shape, with an lse of 0 each.
template <class T>
struct Parts {
  std::vector<std::unique_ptr<DeviceArray<T>>> outs;
  DeviceArray<float> lse;

  Parts(AttentionProblem const& p, int count, cudaStream_t stream)
      : lse(std::vector<float>(static_cast<std::size_t>(p.batch * p.heads * p.q_tokens), 0.0f)) {
    for (int i = 0; i < count; ++i) {
      outs.push_back(std::make_unique<DeviceArray<T>>(lse.size() * p.head_dim));
      fill_normal(outs.back()->data(), outs.back()->size(), q_seed + static_cast<std::uint64_t>(i), stream);
    }
  }
};

template <class T>
TensorView<T> view_of(AttentionProblem const& p, T* data) {
  return contiguous_bhnd(data, p.batch, p.heads, p.q_tokens, p.head_dim);
}

template <class T>
Result run_merge(Gpu& gpu, AttentionProblem const& p, int count, Cache cache) {
  Parts<T> const parts(p, count, gpu.stream);
  DeviceArray<T> const out(parts.lse.size() * p.head_dim);
  DeviceArray<float> const lse(parts.lse.size());
  MergePlan<T> plan;
  sparge::check(plan_merge_partials(p, gpu.device, {}, &plan));
  MergeArgs<T> args;
  for (auto const& part : parts.outs)
    args.partials[args.count++] = {view_of<T const>(p, part->data()), parts.lse.data()};
  args.out = view_of(p, out.data()), args.lse = lse.data();
  poison(out, gpu.stream);

  Result result;
  result.timing = gpu.timer.time(cache, [&] { sparge::check(merge_partials(plan, args, gpu.stream)); });
  result.bytes = static_cast<double>((count + 1) * (out.bytes() + lse.bytes()));
  require_finite(out, "out");
  return result;
}

template <class T>
Result run_ring_step(Gpu& gpu, AttentionProblem const& p, Cache cache) {
  Parts<T> const parts(p, 1, gpu.stream);
  Parts<float> const running(p, 1, gpu.stream);
  DeviceArray<float> const running_out(parts.lse.size() * p.head_dim), lse(parts.lse.size());
  MergePlan<T> plan;
  sparge::check(plan_merge_partials(p, gpu.device, {}, &plan));
  MergeArgs<T> args;
  args.partials[args.count++] = {view_of<T const>(p, parts.outs[0]->data()), parts.lse.data()};
  args.running = {view_of<float const>(p, running.outs[0]->data()), running.lse.data()};
  args.running_out = view_of(p, running_out.data()), args.lse = lse.data();
  poison(running_out, gpu.stream);

  Result result;
  result.timing = gpu.timer.time(cache, [&] { sparge::check(merge_partials(plan, args, gpu.stream)); });
  result.bytes = static_cast<double>(parts.outs[0]->bytes() + 2 * running_out.bytes() + 3 * lse.bytes());
  require_finite(running_out, "running_out");
  return result;
}

template <class T>
void add_merge(Shape const& shape, Cache cache) {
  std::string const name = std::string("merge_partials/") + shape.name + "/",
                    suffix = std::string("/") + dtype_name<T> + "/" + name_of(cache);
  for (int count = 2; count <= most_measured; count *= 2)
    add_case(name + "partials_" + std::to_string(count) + suffix,
             [=](Gpu& gpu) { return run_merge<T>(gpu, shape.problem(), count, cache); });
  add_case(name + "running" + suffix,
           [=](Gpu& gpu) { return run_ring_step<T>(gpu, shape.problem(), cache); });
}

}  // namespace

void register_cases(Options const& options) {
  for (Shape const& shape : options.shapes) {
    add_merge<bfloat16>(shape, Cache::cold);
    add_merge<float>(shape, Cache::cold);
  }
}

}  // namespace sparge::bench
