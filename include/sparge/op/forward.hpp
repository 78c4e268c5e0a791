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
cudaError_t launch_forward_row(ForwardParams<T> const& params, std::int64_t blocks, cudaStream_t stream) {
  if constexpr (is_built(row) && std::is_same_v<row_element<row>, T>)
    return launch_forward<row>(params, blocks, stream);
  else
    return cudaErrorInvalidDeviceFunction;  // a plan never chooses such a row
}

template <class T, int... rows>
cudaError_t launch_forward_any(int row, ForwardParams<T> const& params, std::int64_t blocks,
                               cudaStream_t stream, std::integer_sequence<int, rows...>) {
  using Launch = cudaError_t (*)(ForwardParams<T> const&, std::int64_t, cudaStream_t);
  static constexpr Launch launches[] = {&launch_forward_row<T, rows>...};
  return launches[row](params, blocks, stream);
}

template <class T>
ForwardParams<T> forward_params(ForwardPlan<T> const& plan, ForwardArgs<T> const& args) {
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
  return params;
}

template <class T>
Status validate_forward(ForwardPlan<T> const& plan, ForwardArgs<T> const& args, Workspace workspace) {
  AttentionProblem const& p = plan.problem;
  SPARGE_TRY(validate_problem(p));
  bool const is_row = plan.kernel >= 0 && plan.kernel < forward_rows && is_built(plan.kernel);
  if (!is_row || !forward_table[plan.kernel].serves(element_type_of<T>, p))
    return refuse("plan.kernel", "must be the kernel that plan_forward chose for plan.problem", plan.kernel);
  SPARGE_TRY(validate_queries_and_keys(p, args.q, args.k));
  SPARGE_TRY(validate_view({"v.data", "v.shape", "v.stride"}, args.v, p.batch, p.kv_heads, p.kv_tokens,
                           p.head_dim, Access::read));
  SPARGE_TRY(validate_view({"out.data", "out.shape", "out.stride"}, args.out, p.batch, p.heads, p.q_tokens,
                           p.head_dim, Access::write));
  SPARGE_TRY(validate_mask({"mask.data", "mask.words", ""}, args.mask, count_mask_words(p)));
  if (args.lse) {
    SPARGE_TRY(validate_pointer("lse", args.lse, p.batch * p.q_tokens));
  }
  return validate_workspace(workspace, plan.workspace_bytes);
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
  *plan = {problem, device, options, row, 0};
  return {};
}

template <class T>
Status forward(ForwardPlan<T> const& plan, ForwardArgs<T> const& args, Workspace workspace,
               cudaStream_t stream) noexcept {
  SPARGE_TRY(detail::validate_forward(plan, args, workspace));
  SPARGE_TRY(check_arguments(plan,
                             {{"out.data", place_of(args.out)},
                              {"lse", place_of(args.lse, plan.problem.batch * plan.problem.q_tokens)}},
                             {{"q.data", place_of(args.q)},
                              {"k.data", place_of(args.k)},
                              {"v.data", place_of(args.v)},
                              {"mask.data", place_of(args.mask)}}));
  ForwardParams<T> const params = detail::forward_params(plan, args);
  std::int64_t const blocks = plan.problem.batch * plan.problem.heads * params.q_tiles;
  return launch_result("forward kernel",
                       detail::launch_forward_any(plan.kernel, params, blocks, stream,
                                                  std::make_integer_sequence<int, forward_rows>{}));
}

}  // namespace sparge
