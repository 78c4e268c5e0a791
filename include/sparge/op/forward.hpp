#pragma once
/// plan_forward and forward: validate, look up the row, launch.

#include <array>
#include <utility>

#include "sparge/core/carver.hpp"
#include "sparge/kernel/forward_params.hpp"
#include "sparge/kernel/schedule_params.hpp"
#include "sparge/op/guard.hpp"
#include "sparge/op/kernel_row.hpp"
#include "sparge/plan/forward_config.hpp"
#include "sparge/plan/validate.hpp"
#include "sparge/sparge.hpp"

namespace sparge {

namespace detail {

inline constexpr KernelTable<ForwardConfig> forward_kernels{forward_table, forward_rows, &is_built,
                                                            "must be less than supported_kernels()"};

template <class T, int row>
Status launch_forward_row(ForwardParams<T> const& params, std::int64_t blocks, cudaStream_t stream) {
  if constexpr (is_built(row) && std::is_same_v<row_element<row>, T>)
    return launch_forward<row>(params, blocks, stream);
  else
    return cuda_failure("plan.kernel", cudaErrorInvalidDeviceFunction);  // a plan never chooses such a row
}

template <class T, int... rows>
Status launch_forward_any(int row, ForwardParams<T> const& params, std::int64_t blocks, cudaStream_t stream,
                          std::integer_sequence<int, rows...>) {
  using Launch = Status (*)(ForwardParams<T> const&, std::int64_t, cudaStream_t);
  static constexpr Launch launches[] = {&launch_forward_row<T, rows>...};
  return launches[row](params, blocks, stream);
}

/// Query tiles of all heads.
inline std::int64_t count_tiles(AttentionProblem const& p, ForwardConfig const& config) {
  return p.batch * p.heads * ceil_div(p.q_tokens, config.q_tile);
}

/// sm90a: of the query tiles.
inline ScheduleShape forward_shape(AttentionProblem const& p, ForwardConfig const& config,
                                   Device const& device) {
  return config.schedule_shape(count_tiles(p, config), p.kv_blocks(), device);
}

inline Schedule lay_out_forward(Carver& carver, AttentionProblem const& p, ForwardConfig const& config,
                                Device const& device) {
  return Schedule::lay_out(carver, forward_shape(p, config, device),
                           ForwardConfig::slot_floats(config.q_tile, config.head_dim));
}

inline std::size_t forward_workspace_bytes(AttentionProblem const& p, ForwardConfig const& config,
                                           Device const& device) {
  Carver carver;
  lay_out_forward(carver, p, config, device);
  return carver.bytes();
}

template <class T>
ForwardParams<T> forward_params(ForwardPlan<T> const& plan, ForwardArgs<T> const& args, Workspace workspace) {
  AttentionProblem const& p = plan.problem;
  ForwardConfig const& config = forward_table[plan.kernel];
  ForwardParams<T> params{args.q, args.k, args.v, args.out, args.lse, args.mask.data};
  params.scale_log2 = p.logit_scale() * 1.4426950408889634f;
  params.q_tokens = static_cast<std::int32_t>(p.q_tokens);
  params.kv_tokens = static_cast<std::int32_t>(p.kv_tokens);
  params.q_tiles = static_cast<std::int32_t>(ceil_div(p.q_tokens, config.q_tile));
  params.q_blocks = static_cast<std::int32_t>(p.q_blocks());
  params.kv_blocks = static_cast<std::int32_t>(p.kv_blocks());
  params.row_words = static_cast<std::int32_t>(p.row_words());
  params.heads = static_cast<std::int32_t>(p.heads);
  params.heads_per_kv_head = static_cast<std::int32_t>(p.heads / p.kv_heads);
  params.q_tiles_per_block = p.q_block / config.q_tile;
  params.kv_tiles_per_block = p.kv_block / config.kv_tile;
  ScheduleShape const shape = forward_shape(p, config, plan.device);
  params.all_tiles = static_cast<std::uint32_t>(count_tiles(p, config));
  params.first_tiles = static_cast<std::uint32_t>(ScheduleBounds::first_tiles(shape, config.first_share()));
  params.workers = static_cast<std::int32_t>(shape.workers);
  Carver carver(workspace.data);
  params.schedule = lay_out_forward(carver, p, config, plan.device);
  return params;
}

/// sm90a: writes the rows that were split.
template <class T>
Status merge_forward(ForwardPlan<T> const& plan, ForwardParams<T> const& params, cudaStream_t stream) {
  AttentionProblem const& p = plan.problem;
  ForwardConfig const& config = forward_table[plan.kernel];
  MergeRowsParams<T> merge{params.schedule, params.out, params.lse, p.heads};
  merge.q_tokens = params.q_tokens;
  merge.q_tiles = params.q_tiles;
  merge.head_dim = p.head_dim;
  std::int64_t const blocks = merging_blocks(forward_shape(p, config, plan.device), plan.device);
  return launch_result("merging kernel", launch_merge_rows(merge, blocks, stream));
}

template <class T>
Status enqueue_forward(ForwardPlan<T> const& plan, ForwardParams<T> const& params, cudaStream_t stream) {
  AttentionProblem const& p = plan.problem;
  ForwardConfig const& config = forward_table[plan.kernel];
  std::int64_t const tiles = count_tiles(p, config),
                     blocks = config.blocks(tiles, p.kv_blocks(), plan.device);
  bool const is_merged = config.arch == Arch::sm90a && tiles > 0;
  SPARGE_TRY(launch_forward_any(plan.kernel, params, blocks, stream,
                                std::make_integer_sequence<int, forward_rows>{}));
  return is_merged ? merge_forward(plan, params, stream) : Status{};
}

/// What the copy engine of sm90a kernels cannot reach though 64-bit offsets can.
template <class T>
Status validate_boxes(ForwardArgs<T> const& args) {
  SPARGE_TRY(validate_box_strides("q.stride", args.q));
  SPARGE_TRY(validate_box_strides("k.stride", args.k));
  SPARGE_TRY(validate_box_strides("v.stride", args.v));
  return validate_box_strides("out.stride", args.out);
}

template <class T>
Status validate_forward(ForwardPlan<T> const& plan, ForwardArgs<T> const& args, Workspace workspace) {
  AttentionProblem const& p = plan.problem;
  SPARGE_TRY(validate_problem(p));
  bool const is_row = plan.kernel >= 0 && plan.kernel < forward_rows && is_built(plan.kernel);
  if (!is_row || !forward_table[plan.kernel].serves(element_type_of<T>, p) ||
      !forward_table[plan.kernel].runs_on(plan.device))
    return refuse("plan.kernel", "must be the kernel that plan_forward chose for plan.problem", plan.kernel);
  ForwardConfig const& config = forward_table[plan.kernel];
  SPARGE_TRY(validate_grid(p, count_tiles(p, config)));
  SPARGE_TRY(validate_queries_and_keys(p, args.q, args.k));
  SPARGE_TRY(validate_view({"v.data", "v.shape", "v.stride"}, args.v, p.batch, p.kv_heads, p.kv_tokens,
                           p.head_dim, Access::read));
  SPARGE_TRY(validate_view({"out.data", "out.shape", "out.stride"}, args.out, p.batch, p.heads, p.q_tokens,
                           p.head_dim, Access::write));
  if (config.arch == Arch::sm90a) {
    SPARGE_TRY(validate_boxes(args));
  }
  SPARGE_TRY(validate_mask({"mask.data", "mask.words", ""}, args.mask, count_mask_words(p)));
  if (args.lse) {
    SPARGE_TRY(validate_pointer("lse", args.lse, p.batch * p.q_tokens));
  }
  return validate_workspace(workspace, forward_workspace_bytes(p, config, plan.device));
}

}  // namespace detail

template <class T>
Status plan_forward(AttentionProblem const& problem, Device const& device, PlanOptions const& options,
                    ForwardPlan<T>* plan) noexcept {
  if (plan == nullptr) return refuse("plan", "must not be null");
  SPARGE_TRY(validate_plan_inputs(problem, device, options));
  std::int32_t row = options.force_kernel;
  if (row >= 0) {
    SPARGE_TRY(detail::check_forced_row(detail::forward_kernels, element_type_of<T>, problem, device, row));
  } else {
    row = choose_forward(element_type_of<T>, problem, device);
  }
  if (row < 0) return detail::no_row(detail::forward_kernels, element_type_of<T>, problem, device);
  auto const blocks =
      checked_product({problem.batch, problem.heads, ceil_div(problem.q_tokens, forward_table[row].q_tile)});
  SPARGE_TRY(validate_grid(problem, blocks));
  *plan = {problem, device, options, row,
           detail::forward_workspace_bytes(problem, forward_table[row], device)};
  return {};
}

template <class T>
Status forward(ForwardPlan<T> const& plan, ForwardArgs<T> const& args, Workspace workspace,
               cudaStream_t stream) noexcept {
  SPARGE_TRY(detail::validate_forward(plan, args, workspace));
  AttentionProblem const& p = plan.problem;
  auto const scratch_bytes =
      static_cast<std::int64_t>(detail::forward_workspace_bytes(p, forward_table[plan.kernel], plan.device));
  SPARGE_TRY(check_arguments(plan,
                             {{"out.data", place_of(args.out)},
                              {"lse", place_of(args.lse, p.batch * p.q_tokens)},
                              {"workspace.data", place_of(workspace.data, scratch_bytes)}},
                             {{"q.data", place_of(args.q)},
                              {"k.data", place_of(args.k)},
                              {"v.data", place_of(args.v)},
                              {"mask.data", place_of(args.mask)}}));
  return detail::enqueue_forward(plan, detail::forward_params(plan, args, workspace), stream);
}

}  // namespace sparge
