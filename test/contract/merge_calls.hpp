#pragma once
/// merge_partials as a public call, and as a struct of plan and arguments.

#include <cstdint>
#include <memory>
#include <vector>

#include "contract/public_call.hpp"
#include "contract/typed_calls.hpp"
#include "sparge/sparge.hpp"
#include "support/merge_case.hpp"

namespace sparge::test {

template <class T>
PublicCall merge_partials_call(AttentionProblem const& p, Device const& device, PlanOptions const& options) {
  auto const inputs_of = [=](std::uint64_t seed) {
    MergeCase c{p, 3, true};
    c.seed = seed;
    return make_merge_inputs<T>(c);
  };
  auto run = std::make_shared<MergeRun<T>>(inputs_of(1), Layout::bhnd, device, options);
  auto const outputs = [=] {
    MergeOutput<T> const output = run->download();
    std::vector<unsigned char> bytes;
    auto const add = [&](auto const& values) {
      auto const* const first = reinterpret_cast<unsigned char const*>(values.data());
      bytes.insert(bytes.end(), first, first + values.size() * sizeof(values[0]));
    };
    add(output.out.storage()), add(output.running_out.storage()), add(output.lse);
    return bytes;
  };
  return {"merge_partials",
          0,
          [=](Workspace, cudaStream_t stream) { return run->run(stream); },
          [=](std::uint64_t seed) { run->upload(inputs_of(seed)); },
          [=] { run->poison_outputs(); },
          outputs};
}

template <class T>
struct MergeCall {
  MergePlan<T> plan;
  MergeArgs<T> args;
  Status run(cudaStream_t stream) const { return merge_partials(plan, args, stream); }
};

/// Two partial results and a running one, every output asked for.
template <class T>
MergeCall<T> lay_out_merge(CallSite& site) {
  MergeCall<T> call;
  must(plan_merge_partials(site.problem, site.device, site.options, &call.plan));
  std::int64_t const rows = query_rows(site.problem);
  for (call.args.count = 0; call.args.count < 2; ++call.args.count)
    call.args.partials[call.args.count] = {site.queries<T>(), site.carver.take<float>(rows)};
  call.args.running = {site.queries<float>(), site.carver.take<float>(rows)};
  call.args.out = site.queries<T>();
  call.args.running_out = site.queries<float>();
  call.args.lse = site.carver.take<float>(rows);
  return call;
}

}  // namespace sparge::test
