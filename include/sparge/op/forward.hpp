#pragma once
/// plan_forward and forward: validate, look up the row, launch.

#include <array>
#include <utility>

#include "sparge/kernel/forward_params.hpp"
#include "sparge/op/guard.hpp"
#include "sparge/plan/forward_config.hpp"
#include "sparge/plan/validate.hpp"
#include "sparge/sparge.hpp"

namespace sparge {

namespace detail {

inline Status check_forced_forward(ElementType type, AttentionProblem const& p, Device const& device,
                                   std::int32_t row) {
  if (row >= forward_rows)
    return refuse("options.force_kernel", "must be less than supported_kernels()", row, forward_rows);
  if (!is_built(row)) return unsupported("options.force_kernel", "this build left that kernel out", row);
  if (!forward_table[row].serves(type, p))
    return unsupported("options.force_kernel",
                       "that kernel is for another element type, head_dim or mask block", row);
  if (!forward_table[row].is_for(device))
    return unsupported("options.force_kernel",
                       "that kernel runs on compute capability 9.0 alone; sm80 kernels run everywhere", row);
  if (!forward_table[row].runs_on(device))
    return unsupported("options.force_kernel", "that kernel needs more shared memory than the device has",
                       row);
  return {};
}

/// Why no row was found, most telling first.
inline Status no_forward_row(ElementType type, AttentionProblem const& p, Device const& device) {
  bool built_type = false, built_head_dim = false;
  for (std::int32_t row = 0; row < forward_rows; ++row) {
    if (!is_built(row) || forward_table[row].dtype != type) continue;
    built_type = true;
    built_head_dim = built_head_dim || forward_table[row].head_dim == p.head_dim;
  }
  if (!built_type)
    return unsupported("dtype", "this build left the element type out; see SPARGE_DTYPES",
                       static_cast<int>(type));
  if (!built_head_dim)
    return unsupported("problem.head_dim", "this build left it out; see SPARGE_HEAD_DIMS", p.head_dim);
  return unsupported("device.shared_bytes_per_block",
                     "no built kernel is small enough for the device's shared memory",
                     device.shared_bytes_per_block);
}

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
  params.all_tiles = static_cast<std::uint32_t>(count_tiles(p, config));
  params.tile_counter = static_cast<std::uint32_t*>(workspace.data);
  return params;
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
  return validate_workspace(workspace, config.workspace_bytes(count_tiles(p, config)));
}

}  // namespace detail

template <class T>
Status plan_forward(AttentionProblem const& problem, Device const& device, PlanOptions const& options,
                    ForwardPlan<T>* plan) noexcept {
  if (plan == nullptr) return refuse("plan", "must not be null");
  SPARGE_TRY(validate_plan_inputs(problem, device, options));
  std::int32_t row = options.force_kernel;
  if (row >= 0) {
    SPARGE_TRY(detail::check_forced_forward(element_type_of<T>, problem, device, row));
  } else {
    row = choose_forward(element_type_of<T>, problem, device);
  }
  if (row < 0) return detail::no_forward_row(element_type_of<T>, problem, device);
  auto const blocks =
      checked_product({problem.batch, problem.heads, ceil_div(problem.q_tokens, forward_table[row].q_tile)});
  SPARGE_TRY(validate_grid(problem, blocks));
  *plan = {problem, device, options, row, forward_table[row].workspace_bytes(*blocks)};
  return {};
}

template <class T>
Status forward(ForwardPlan<T> const& plan, ForwardArgs<T> const& args, Workspace workspace,
               cudaStream_t stream) noexcept {
  SPARGE_TRY(detail::validate_forward(plan, args, workspace));
  AttentionProblem const& p = plan.problem;
  ForwardConfig const& config = forward_table[plan.kernel];
  std::int64_t const tiles = detail::count_tiles(p, config);
  auto const scratch_bytes = static_cast<std::int64_t>(config.workspace_bytes(tiles));
  SPARGE_TRY(check_arguments(plan,
                             {{"out.data", place_of(args.out)},
                              {"lse", place_of(args.lse, p.batch * p.q_tokens)},
                              {"workspace.data", place_of(workspace.data, scratch_bytes)}},
                             {{"q.data", place_of(args.q)},
                              {"k.data", place_of(args.k)},
                              {"v.data", place_of(args.v)},
                              {"mask.data", place_of(args.mask)}}));
  return detail::launch_forward_any(plan.kernel, detail::forward_params(plan, args, workspace),
                                    config.blocks(tiles, plan.device), stream,
                                    std::make_integer_sequence<int, forward_rows>{});
}

}  // namespace sparge
