/// Mask building by the hybrid rule, top_k 3 % and top_p 0.2, on clustered inputs: OPERATION/SHAPE/CACHE, where the
/// operation is select_blocks (from pooled vectors), build_mask (from bf16 Q and K), mask_stats, or calibrate (top_p of each head for
/// a sparsity of 95 %, from pooled vectors, with the report).

#include "support/bench.hpp"
#include "support/masks.hpp"
#include "support/tensors.hpp"

namespace sparge::bench {
namespace {

DeviceArray<std::uint32_t> make_mask(AttentionProblem const& problem) {
  std::size_t words = 0;
  sparge::check(mask_words(problem, &words));
  return DeviceArray<std::uint32_t>(static_cast<std::int64_t>(words));
}

double density_of(DeviceArray<std::uint32_t> const& mask, AttentionProblem const& p) {
  std::int64_t const kept = kept_pairs(mask.download());
  if (kept == 0) throw std::runtime_error("the mask keeps nothing, though min_blocks is 1");
  return static_cast<double>(kept) / static_cast<double>(p.batch * p.heads * p.q_blocks() * p.kv_blocks());
}

Result run_select(Gpu& gpu, AttentionProblem const& problem, Cache cache) {
  Pooled const pooled(problem);
  pool_now(ClusteredQK<bfloat16>(problem, gpu.stream), pooled, gpu.device, gpu.stream);
  DeviceArray<std::uint32_t> const mask = make_mask(problem);
  SelectPlan plan;
  sparge::check(plan_select_blocks(problem, gpu.device, {}, &plan));
  Scratch const scratch(plan.workspace_bytes);
  SelectArgs const args{pooled.q.data(), pooled.k.data(), {}, {mask.data(), mask.bytes() / 4}};

  Result result;
  result.timing = gpu.timer.time(
      cache, [&] { sparge::check(select_blocks(plan, args, scratch.workspace(), gpu.stream)); });
  result.bytes = pooled.bytes() + static_cast<double>(mask.bytes());
  result.density = density_of(mask, problem);
  return result;
}

Result run_build(Gpu& gpu, AttentionProblem const& problem, Cache cache) {
  ClusteredQK<bfloat16> const inputs(problem, gpu.stream);
  DeviceArray<std::uint32_t> const mask = make_mask(problem);
  BuildMaskPlan<bfloat16> plan;
  sparge::check(plan_build_mask(problem, gpu.device, {}, &plan));
  Scratch const scratch(plan.workspace_bytes);
  BuildMaskArgs<bfloat16> const args{inputs.q_view(), inputs.k_view(), {}, {mask.data(), mask.bytes() / 4}};

  Result result;
  result.timing =
      gpu.timer.time(cache, [&] { sparge::check(build_mask(plan, args, scratch.workspace(), gpu.stream)); });
  result.bytes = inputs.bytes() + static_cast<double>(mask.bytes());
  result.density = density_of(mask, problem);
  return result;
}

Result run_stats(Gpu& gpu, AttentionProblem const& problem, Cache cache) {
  Pooled const pooled(problem);
  pool_now(ClusteredQK<bfloat16>(problem, gpu.stream), pooled, gpu.device, gpu.stream);
  HostMask const host_mask = random_mask(problem, 0.05, mask_seed);
  DeviceArray<std::uint32_t> const mask(host_mask.words);
  DeviceArray<MaskStats> const stats(problem.batch * problem.heads);
  MaskStatsPlan plan;
  sparge::check(plan_mask_stats(problem, gpu.device, {}, &plan));
  Scratch const scratch(plan.workspace_bytes);
  MaskStatsArgs const args{
      pooled.q.data(), pooled.k.data(), {}, {mask.data(), mask.bytes() / 4}, stats.data()};

  Result result;
  result.timing =
      gpu.timer.time(cache, [&] { sparge::check(mask_stats(plan, args, scratch.workspace(), gpu.stream)); });
  result.bytes = pooled.bytes() + static_cast<double>(mask.bytes() + stats.bytes());
  result.density = host_mask.density(problem);
  std::int64_t counted = 0;
  for (MaskStats const& head : stats.download()) counted += head.kept_pairs;
  if (counted != host_mask.kept_pairs)
    throw std::runtime_error("mask_stats counts other pairs than the mask has");
  return result;
}

Result run_calibrate(Gpu& gpu, AttentionProblem const& problem, Cache cache) {
  Pooled const pooled(problem);
  pool_now(ClusteredQK<bfloat16>(problem, gpu.stream), pooled, gpu.device, gpu.stream);
  DeviceArray<float> const top_p(problem.heads);
  DeviceArray<Calibration> const reports(problem.heads);
  CalibratePlan plan;
  sparge::check(plan_calibrate(problem, gpu.device, {}, &plan));
  Scratch const scratch(plan.workspace_bytes);
  CalibrateArgs const args{pooled.q.data(), pooled.k.data(), {}, {CalibrationGoal::sparsity, 0.95},
                           top_p.data(),    reports.data()};

  Result result;
  result.timing =
      gpu.timer.time(cache, [&] { sparge::check(calibrate(plan, args, scratch.workspace(), gpu.stream)); });
  result.bytes = pooled.bytes() + static_cast<double>(top_p.bytes() + reports.bytes());
  std::int64_t kept = 0, all = 0;
  for (Calibration const& head : reports.download()) kept += head.kept_pairs, all += head.all_pairs;
  result.density = static_cast<double>(kept) / static_cast<double>(all);
  if (result.density > 0.0501) throw std::runtime_error("a sparsity of 95 % was asked for and is not met");
  return result;
}

using RunMask = Result (*)(Gpu&, AttentionProblem const&, Cache);

void add_mask_case(char const* operation, RunMask run, Shape const& shape, Cache cache) {
  add_case(std::string(operation) + "/" + shape.name + "/" + name_of(cache),
           [=](Gpu& gpu) { return run(gpu, shape.problem(), cache); });
}

}  // namespace

void register_cases(Options const& options) {
  for (Shape const& shape : options.shapes)
    for (Cache cache : {Cache::cold, Cache::hot}) {
      add_mask_case("select_blocks", run_select, shape, cache);
      add_mask_case("build_mask", run_build, shape, cache);
      add_mask_case("mask_stats", run_stats, shape, cache);
      add_mask_case("calibrate", run_calibrate, shape, cache);
    }
}

}  // namespace sparge::bench
