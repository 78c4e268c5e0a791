#pragma once
/// plan_backward and backward: validate, look up both rows, launch the order of work, delta and the two passes.

#include <utility>

#include "sparge/kernel/backward_params.hpp"
#include "sparge/kernel/schedule_params.hpp"
#include "sparge/op/guard.hpp"
#include "sparge/op/kernel_row.hpp"
#include "sparge/plan/backward_config.hpp"
#include "sparge/plan/validate.hpp"
#include "sparge/sparge.hpp"

namespace sparge {

namespace detail {

inline constexpr KernelTable<BackwardConfig> backward_kernels{
    backward_table, backward_rows, &is_backward_built, "must be less than supported_backward_kernels()"};

template <class T, int row>
Status launch_backward_row(BackwardParams<T> const& params, std::int64_t blocks, cudaStream_t stream) {
  if constexpr (is_backward_built(row) && std::is_same_v<backward_element<row>, T>)
    return launch_backward<row>(params, blocks, stream);
  else
    return cuda_failure("plan", cudaErrorInvalidDeviceFunction);  // a plan never chooses such a row
}

template <class T, int... rows>
Status launch_backward_any(int row, BackwardParams<T> const& params, std::int64_t blocks, cudaStream_t stream,
                           std::integer_sequence<int, rows...>) {
  using Launch = Status (*)(BackwardParams<T> const&, std::int64_t, cudaStream_t);
  static constexpr Launch launches[] = {&launch_backward_row<T, rows>...};
  return launches[row](params, blocks, stream);
}

template <class T>
BackwardDeltaParams<T> backward_delta_params(AttentionProblem const& p, BackwardArgs<T> const& args,
                                             BackwardScratch const& scratch) {
  return {args.out,
          args.grad_out,
          args.lse,
          args.grad_lse,
          scratch.delta,
          scratch.lse,
          p.heads,
          p.batch * p.heads,
          static_cast<std::int32_t>(p.q_tokens),
          static_cast<std::int32_t>(BackwardScratch::padded_rows(p)),
          p.head_dim};
}

/// Of the pass that `config` is a row of.
template <class T>
BackwardParams<T> backward_params(AttentionProblem const& p, BackwardArgs<T> const& args,
                                  BackwardScratch const& scratch, BackwardConfig const& config) {
  BackwardParams<T> params{args.q,      args.k,      args.v,        args.grad_out, args.grad_q,
                           args.grad_k, args.grad_v, scratch.delta, scratch.lse,   args.mask.data};
  params.scale = p.logit_scale();
  params.q_tokens = static_cast<std::int32_t>(p.q_tokens);
  params.kv_tokens = static_cast<std::int32_t>(p.kv_tokens);
  params.padded_rows = static_cast<std::int32_t>(BackwardScratch::padded_rows(p));
  params.q_blocks = static_cast<std::int32_t>(p.q_blocks());
  params.kv_blocks = static_cast<std::int32_t>(p.kv_blocks());
  params.row_words = static_cast<std::int32_t>(p.row_words());
  params.heads = static_cast<std::int32_t>(p.heads);
  params.kv_heads = static_cast<std::int32_t>(p.kv_heads);
  params.heads_per_kv_head = static_cast<std::int32_t>(p.heads / p.kv_heads);
  params.q_tiles = static_cast<std::int32_t>(ceil_div(p.q_tokens, config.q_tile));
  params.kv_tiles = static_cast<std::int32_t>(ceil_div(p.kv_tokens, config.kv_tile));
  params.q_tiles_per_block = p.q_block / config.q_tile;
  params.kv_tiles_per_block = p.kv_block / config.kv_tile;
  params.all_tiles = static_cast<std::uint32_t>(config.count_tiles(p));
  params.schedule = scratch.of(config.pass);
  return params;
}

/// Thread blocks of each launch; nothing where a count does not fit 64 bits.
inline Status validate_backward_grids(AttentionProblem const& p, BackwardConfig const& dkdv,
                                      BackwardConfig const& dq) {
  SPARGE_TRY(
      validate_grid(p, checked_product({p.batch, p.heads, BackwardScratch::padded_rows(p) / delta_rows})));
  SPARGE_TRY(validate_grid(p, checked_product({p.batch, p.kv_heads, ceil_div(p.kv_tokens, dkdv.kv_tile)})));
  return validate_grid(p, checked_product({p.batch, p.heads, ceil_div(p.q_tokens, dq.q_tile)}));
}

inline BackwardScratch lay_out_backward(Carver& carver, AttentionProblem const& p, std::int32_t dkdv,
                                        std::int32_t dq, Device const& device) {
  return BackwardScratch::lay_out(carver, p, backward_table[dkdv], backward_table[dq], device);
}

inline std::size_t backward_workspace_bytes(AttentionProblem const& p, std::int32_t dkdv, std::int32_t dq,
                                            Device const& device) {
  Carver carver;
  lay_out_backward(carver, p, dkdv, dq, device);
  return carver.bytes();
}

template <class T>
std::size_t backward_workspace_bytes(BackwardPlan<T> const& plan) {
  return backward_workspace_bytes(plan.problem, plan.dkdv_kernel, plan.dq_kernel, plan.device);
}

template <class T>
Status validate_backward_row(char const* field, BackwardPass pass, std::int32_t row,
                             BackwardPlan<T> const& plan) {
  bool const is_row =
      row >= 0 && row < backward_rows && is_backward_built(row) && backward_table[row].pass == pass;
  if (!is_row || !backward_table[row].serves(element_type_of<T>, plan.problem) ||
      !backward_table[row].runs_on(plan.device))
    return refuse(field, "must be the kernel that plan_backward chose for plan.problem", row);
  return {};
}

template <class T>
Status validate_backward_views(AttentionProblem const& p, BackwardArgs<T> const& args) {
  auto const queries = [&](ViewName const& name, auto const& view, Access access) {
    return validate_view(name, view, p.batch, p.heads, p.q_tokens, p.head_dim, access);
  };
  auto const keys = [&](ViewName const& name, auto const& view, Access access) {
    return validate_view(name, view, p.batch, p.kv_heads, p.kv_tokens, p.head_dim, access);
  };
  SPARGE_TRY(queries({"q.data", "q.shape", "q.stride"}, args.q, Access::read));
  SPARGE_TRY(keys({"k.data", "k.shape", "k.stride"}, args.k, Access::read));
  SPARGE_TRY(keys({"v.data", "v.shape", "v.stride"}, args.v, Access::read));
  SPARGE_TRY(queries({"out.data", "out.shape", "out.stride"}, args.out, Access::read));
  SPARGE_TRY(queries({"grad_out.data", "grad_out.shape", "grad_out.stride"}, args.grad_out, Access::read));
  SPARGE_TRY(queries({"grad_q.data", "grad_q.shape", "grad_q.stride"}, args.grad_q, Access::write));
  SPARGE_TRY(keys({"grad_k.data", "grad_k.shape", "grad_k.stride"}, args.grad_k, Access::write));
  return keys({"grad_v.data", "grad_v.shape", "grad_v.stride"}, args.grad_v, Access::write);
}

/// What the copy engine of sm90a kernels cannot reach though 64-bit offsets can, of what each pass touches.
template <class T>
Status validate_backward_boxes(BackwardPlan<T> const& plan, BackwardArgs<T> const& args) {
  bool const copies_dkdv = backward_table[plan.dkdv_kernel].arch == Arch::sm90a,
             copies_dq = backward_table[plan.dq_kernel].arch == Arch::sm90a;
  auto const check = [](bool copies, char const* field, auto const& view) {
    // To force a kernel would change one pass alone.
    return copies
               ? validate_box_strides(field, view, "sm90a kernels take less than 2^40 bytes; copy the tensor")
               : Status{};
  };
  SPARGE_TRY(check(copies_dkdv || copies_dq, "q.stride", args.q));
  SPARGE_TRY(check(copies_dkdv || copies_dq, "k.stride", args.k));
  SPARGE_TRY(check(copies_dkdv || copies_dq, "v.stride", args.v));
  SPARGE_TRY(check(copies_dkdv || copies_dq, "grad_out.stride", args.grad_out));
  SPARGE_TRY(check(copies_dkdv, "grad_k.stride", args.grad_k));
  SPARGE_TRY(check(copies_dkdv, "grad_v.stride", args.grad_v));
  return check(copies_dq, "grad_q.stride", args.grad_q);
}

template <class T>
Status validate_backward(BackwardPlan<T> const& plan, BackwardArgs<T> const& args, Workspace workspace) {
  AttentionProblem const& p = plan.problem;
  SPARGE_TRY(validate_problem(p));
  SPARGE_TRY(validate_backward_row<T>("plan.dkdv_kernel", BackwardPass::dkdv, plan.dkdv_kernel, plan));
  SPARGE_TRY(validate_backward_row<T>("plan.dq_kernel", BackwardPass::dq, plan.dq_kernel, plan));
  SPARGE_TRY(validate_backward_views(p, args));
  SPARGE_TRY(validate_backward_boxes(plan, args));
  SPARGE_TRY(validate_pointer("lse", args.lse, p.batch * p.q_tokens));
  if (args.grad_lse) {
    SPARGE_TRY(validate_pointer("grad_lse", args.grad_lse, p.batch * p.q_tokens));
  }
  SPARGE_TRY(validate_mask({"mask.data", "mask.words", ""}, args.mask, count_mask_words(p)));
  return validate_workspace(workspace, backward_workspace_bytes(plan));
}

template <class T>
Status check_backward_arguments(BackwardPlan<T> const& plan, BackwardArgs<T> const& args,
                                Workspace workspace) {
  AttentionProblem const& p = plan.problem;
  std::int64_t const rows = p.batch * p.q_tokens;
  auto const scratch_bytes = static_cast<std::int64_t>(backward_workspace_bytes(plan));
  return check_arguments(plan,
                         {{"grad_q.data", place_of(args.grad_q)},
                          {"grad_k.data", place_of(args.grad_k)},
                          {"grad_v.data", place_of(args.grad_v)},
                          {"workspace.data", place_of(workspace.data, scratch_bytes)}},
                         {{"q.data", place_of(args.q)},
                          {"k.data", place_of(args.k)},
                          {"v.data", place_of(args.v)},
                          {"out.data", place_of(args.out)},
                          {"grad_out.data", place_of(args.grad_out)},
                          {"lse", place_of(args.lse, rows)},
                          {"grad_lse", place_of(args.grad_lse, rows)},
                          {"mask.data", place_of(args.mask)}});
}

/// Of the passes that run kernels for sm90a: orders their tiles. Tells whether there are such.
template <class T>
Status schedule_backward(BackwardPlan<T> const& plan, BackwardArgs<T> const& args,
                         BackwardScratch const& scratch, bool* is_ordering, cudaStream_t stream) {
  ScheduleParams params;
  std::int32_t const rows[] = {plan.dkdv_kernel, plan.dq_kernel};
  for (std::int32_t row : rows) {
    BackwardConfig const& config = backward_table[row];
    ScheduleShape const shape = config.schedule_shape(plan.problem, plan.device);
    ScheduleLines const lines =
        config.pass == BackwardPass::dkdv ? ScheduleLines::columns : ScheduleLines::rows;
    if (shape.tiles > 0) params.passes[params.count++] = {scratch.of(config.pass), shape, lines};
  }
  *is_ordering = params.count > 0;
  if (!*is_ordering) return {};
  params.mask = args.mask.data;
  params.kv_blocks = static_cast<std::int32_t>(plan.problem.kv_blocks());
  params.row_words = static_cast<std::int32_t>(plan.problem.row_words());
  return launch_result("scheduling kernels", launch_schedule(params, stream));
}

/// Writes the tiles of the pass that were split.
template <class T>
Status sum_pieces(BackwardPlan<T> const& plan, BackwardParams<T> const& params, BackwardConfig const& config,
                  cudaStream_t stream) {
  SumPiecesParams<T> sum{params.schedule};
  sum.head_dim = config.head_dim;
  if (config.pass == BackwardPass::dkdv) {
    sum.grads[0] = params.grad_k, sum.grads[1] = params.grad_v;
    sum.factors[0] = params.scale, sum.factors[1] = config.weight_unit();
    sum.heads = params.kv_heads, sum.tokens = params.kv_tokens, sum.tiles = params.kv_tiles;
    sum.tile_rows = config.kv_tile;
  } else {
    sum.grads[0] = params.grad_q;
    sum.factors[0] = params.scale;
    sum.heads = params.heads, sum.tokens = params.q_tokens, sum.tiles = params.q_tiles;
    sum.tile_rows = config.q_tile;
  }
  std::int64_t const blocks = merging_blocks(config.schedule_shape(plan.problem, plan.device), plan.device);
  return launch_result("kernel that sums pieces", launch_sum_pieces(sum, blocks, stream));
}

template <class T>
Status enqueue_pass(BackwardPlan<T> const& plan, BackwardArgs<T> const& args, BackwardScratch const& scratch,
                    std::int32_t row, cudaStream_t stream) {
  BackwardConfig const& config = backward_table[row];
  BackwardParams<T> const params = backward_params(plan.problem, args, scratch, config);
  SPARGE_TRY(launch_backward_any(row, params, config.blocks(plan.problem, plan.device), stream,
                                 std::make_integer_sequence<int, backward_rows>{}));
  return config.arch == Arch::sm90a ? sum_pieces(plan, params, config, stream) : Status{};
}

}  // namespace detail

template <class T>
Status plan_backward(AttentionProblem const& problem, Device const& device, PlanOptions const& options,
                     BackwardPlan<T>* plan) noexcept {
  if (plan == nullptr) return refuse("plan", "must not be null");
  SPARGE_TRY(validate_plan_inputs(problem, device, options));
  constexpr ElementType type = element_type_of<T>;
  std::int32_t dkdv = choose_backward(BackwardPass::dkdv, type, problem, device);
  std::int32_t dq = choose_backward(BackwardPass::dq, type, problem, device);
  if (std::int32_t const forced = options.force_kernel; forced >= 0) {
    SPARGE_TRY(detail::check_forced_row(detail::backward_kernels, type, problem, device, forced));
    (backward_table[forced].pass == BackwardPass::dkdv ? dkdv : dq) = forced;
  }
  if (dkdv < 0 || dq < 0) return detail::no_row(detail::backward_kernels, type, problem, device);
  SPARGE_TRY(detail::validate_backward_grids(problem, backward_table[dkdv], backward_table[dq]));
  *plan = {problem, device, options, dkdv, dq, detail::backward_workspace_bytes(problem, dkdv, dq, device)};
  return {};
}

template <class T>
Status backward(BackwardPlan<T> const& plan, BackwardArgs<T> const& args, Workspace workspace,
                cudaStream_t stream) noexcept {
  AttentionProblem const& p = plan.problem;
  SPARGE_TRY(detail::validate_backward(plan, args, workspace));
  SPARGE_TRY(detail::check_backward_arguments(plan, args, workspace));
  Carver carver(workspace.data);
  BackwardScratch const scratch =
      detail::lay_out_backward(carver, p, plan.dkdv_kernel, plan.dq_kernel, plan.device);
  bool is_ordering = false;
  SPARGE_TRY(detail::schedule_backward(plan, args, scratch, &is_ordering, stream));
  SPARGE_TRY(launch_result(
      "delta kernel",
      launch_backward_delta(detail::backward_delta_params(p, args, scratch), is_ordering, stream)));
  SPARGE_TRY(detail::enqueue_pass(plan, args, scratch, plan.dkdv_kernel, stream));
  return detail::enqueue_pass(plan, args, scratch, plan.dq_kernel, stream);
}

}  // namespace sparge
