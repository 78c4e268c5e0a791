// Calls with a plan: pooling, masks, attention, distillation.

#include "c_api/answer.hpp"
#include "c_api/plan_bytes.hpp"

using namespace sparge;
using namespace sparge::c_api;

namespace {

constexpr TensorName q_name{"q.dtype", "q.reserved"}, k_name{"k.dtype", "k.reserved"},
    v_name{"v.dtype", "v.reserved"}, out_name{"out.dtype", "out.reserved"},
    grad_out_name{"grad_out.dtype", "grad_out.reserved"}, grad_q_name{"grad_q.dtype", "grad_q.reserved"},
    grad_k_name{"grad_k.dtype", "grad_k.reserved"}, grad_v_name{"grad_v.dtype", "grad_v.reserved"},
    partial_name{"partials.out.dtype", "partials.out.reserved"},
    running_name{"running.out.dtype", "running.out.reserved"},
    running_out_name{"running_out.dtype", "running_out.reserved"};

// ---- Arguments -----------------------------------------------------------------------------------------------------

template <class T>
Status convert(sparge_pool_args const& from, PoolArgs<T>* to) {
  SPARGE_TRY(c_api::convert(q_name, from.q, &to->q));
  SPARGE_TRY(c_api::convert(k_name, from.k, &to->k));
  to->pooled_q = from.pooled_q;
  to->pooled_k = from.pooled_k;
  return {};
}

Status convert(sparge_select_blocks_args const& from, SelectArgs* to) {
  SPARGE_TRY(c_api::convert(from.rule, &to->rule));
  to->pooled_q = from.pooled_q;
  to->pooled_k = from.pooled_k;
  to->mask = mask_out(from.mask);
  return {};
}

template <class T>
Status convert(sparge_build_mask_args const& from, BuildMaskArgs<T>* to) {
  SPARGE_TRY(c_api::convert(q_name, from.q, &to->q));
  SPARGE_TRY(c_api::convert(k_name, from.k, &to->k));
  SPARGE_TRY(c_api::convert(from.rule, &to->rule));
  to->mask = mask_out(from.mask);
  return {};
}

static_assert(sizeof(sparge_mask_stats_record) == sizeof(MaskStats) &&
              offsetof(sparge_mask_stats_record, all_pairs) == offsetof(MaskStats, all_pairs) &&
              offsetof(sparge_mask_stats_record, owed_to_both) == offsetof(MaskStats, owed_to_both) &&
              offsetof(sparge_mask_stats_record, owed_to_top_k) == offsetof(MaskStats, owed_to_top_k) &&
              offsetof(sparge_mask_stats_record, owed_to_top_p) == offsetof(MaskStats, owed_to_top_p) &&
              offsetof(sparge_mask_stats_record, owed_to_force) == offsetof(MaskStats, owed_to_force) &&
              offsetof(sparge_mask_stats_record, pooled_mass) == offsetof(MaskStats, pooled_mass));

Status convert(sparge_mask_stats_args const& from, MaskStatsArgs* to) {
  SPARGE_TRY(c_api::convert(from.rule, &to->rule));
  to->pooled_q = from.pooled_q;
  to->pooled_k = from.pooled_k;
  to->mask = mask_view(from.mask);
  to->stats = reinterpret_cast<MaskStats*>(from.stats);  // only the device writes through it
  return {};
}

static_assert(sizeof(sparge_calibration_record) == sizeof(Calibration) &&
              offsetof(sparge_calibration_record, all_pairs) == offsetof(Calibration, all_pairs) &&
              offsetof(sparge_calibration_record, top_k_pairs) == offsetof(Calibration, top_k_pairs) &&
              offsetof(sparge_calibration_record, top_p_pairs) == offsetof(Calibration, top_p_pairs) &&
              offsetof(sparge_calibration_record, kept_mass) == offsetof(Calibration, kept_mass) &&
              offsetof(sparge_calibration_record, top_k_mass) == offsetof(Calibration, top_k_mass) &&
              offsetof(sparge_calibration_record, top_p_mass) == offsetof(Calibration, top_p_mass) &&
              offsetof(sparge_calibration_record, top_p) == offsetof(Calibration, top_p) &&
              offsetof(sparge_calibration_record, met) == offsetof(Calibration, met));
static_assert(SPARGE_CALIBRATE_SPARSITY == static_cast<int>(CalibrationGoal::sparsity) &&
              SPARGE_CALIBRATE_KEPT_MASS == static_cast<int>(CalibrationGoal::kept_mass) &&
              SPARGE_CALIBRATE_EACH_HEAD == static_cast<int>(CalibrationScope::each_head) &&
              SPARGE_CALIBRATE_ALL_HEADS == static_cast<int>(CalibrationScope::all_heads));

Status convert(sparge_calibrate_args const& from, CalibrateArgs* to) {
  SPARGE_TRY(c_api::convert(from.rule, &to->rule));
  to->pooled_q = from.pooled_q;
  to->pooled_k = from.pooled_k;
  to->target = {static_cast<CalibrationGoal>(from.goal), from.target,
                static_cast<CalibrationScope>(from.scope)};
  to->top_p_of_head = from.top_p_of_head;
  to->report = reinterpret_cast<Calibration*>(from.report);  // only the device writes through it
  return {};
}

template <class T>
Status convert(sparge_forward_args const& from, ForwardArgs<T>* to) {
  SPARGE_TRY(c_api::convert(q_name, from.q, &to->q));
  SPARGE_TRY(c_api::convert(k_name, from.k, &to->k));
  SPARGE_TRY(c_api::convert(v_name, from.v, &to->v));
  SPARGE_TRY(c_api::convert(out_name, from.out, &to->out));
  to->mask = mask_view(from.mask);
  to->lse = from.lse;
  return {};
}

template <class T>
Status convert(sparge_backward_args const& from, BackwardArgs<T>* to) {
  SPARGE_TRY(c_api::convert(q_name, from.q, &to->q));
  SPARGE_TRY(c_api::convert(k_name, from.k, &to->k));
  SPARGE_TRY(c_api::convert(v_name, from.v, &to->v));
  SPARGE_TRY(c_api::convert(out_name, from.out, &to->out));
  SPARGE_TRY(c_api::convert(grad_out_name, from.grad_out, &to->grad_out));
  SPARGE_TRY(c_api::convert(grad_q_name, from.grad_q, &to->grad_q));
  SPARGE_TRY(c_api::convert(grad_k_name, from.grad_k, &to->grad_k));
  SPARGE_TRY(c_api::convert(grad_v_name, from.grad_v, &to->grad_v));
  to->lse = from.lse;
  to->grad_lse = from.grad_lse;
  to->mask = mask_view(from.mask);
  return {};
}

template <class T>
Status convert(TensorName const& name, sparge_partial const& from, Partial<T>* to) {
  SPARGE_TRY(c_api::convert(name, from.out, &to->out));
  to->lse = from.lse;
  return {};
}

/// The array is read only where its length is one that the call takes.
template <class T>
Status convert_partials(sparge_merge_partials_args const& from, MergeArgs<T>* to) {
  static_assert(SPARGE_MOST_PARTIALS == most_partials);
  to->count = from.count;
  if (from.count < 1 || from.count > most_partials) return {};
  if (from.partials == nullptr) return refuse("partials", "must not be null");
  for (std::int32_t i = 0; i < from.count; ++i)
    if (Status const status = convert(partial_name, from.partials[i], &to->partials[i]); !status.ok())
      return at_axis(status, i);
  return {};
}

template <class T>
Status convert(sparge_merge_partials_args const& from, MergeArgs<T>* to) {
  SPARGE_TRY(check_reserved("args.reserved", from.reserved));
  SPARGE_TRY(convert_partials(from, to));
  if (from.running.out.data != nullptr || from.running.lse != nullptr) {
    SPARGE_TRY(convert(running_name, from.running, &to->running));
  }
  if (from.out.data != nullptr) {
    SPARGE_TRY(c_api::convert(out_name, from.out, &to->out));
  }
  if (from.running_out.data != nullptr) {
    SPARGE_TRY(c_api::convert(running_out_name, from.running_out, &to->running_out));
  }
  to->lse = from.lse;
  return {};
}

/// Arguments of one element type for all tensors.
template <class T, class Args>
Status check_dtype(Args const& from) {
  if (from.dtype != dtype_of<T>)
    return mismatch("args.dtype", "must be the element type that the plan was made for", from.dtype,
                    dtype_of<T>);
  return check_reserved("args.reserved", from.reserved);
}

template <class T>
Status convert(sparge_distillation_loss_args const& from, DistillationLossArgs<T>* to) {
  SPARGE_TRY(check_dtype<T>(from));
  to->student = static_cast<T const*>(from.student);
  to->teacher = static_cast<T const*>(from.teacher);
  to->weights = from.weights;
  to->grad_loss = from.grad_loss;
  to->loss = from.loss;
  to->grad_student = static_cast<T*>(from.grad_student);
  return {};
}

template <class T>
Status convert(sparge_interpolate_args const& from, InterpolateArgs<T>* to) {
  SPARGE_TRY(check_dtype<T>(from));
  to->x0 = static_cast<T const*>(from.x0);
  to->x1 = static_cast<T const*>(from.x1);
  to->t = from.t;
  to->x_t = static_cast<T*>(from.x_t);
  return {};
}

// ---- Plan, arguments, call -----------------------------------------------------------------------------------------

/// Where a call runs.
struct Place {
  Workspace workspace;
  cudaStream_t stream;
};

template <class Plan, class Args>
using Call = Status (*)(Plan const&, Args const&, Workspace, cudaStream_t) noexcept;

/// With a plan that check_plan() let pass.
template <class Plan, class Args, class CArgs>
Status run(sparge_plan const* plan, CArgs const* c_args, Place const& place, Call<Plan, Args> call) {
  CArgs known;
  Args args;
  SPARGE_TRY(read(c_args, &known));
  SPARGE_TRY(convert(known, &args));
  return call(load<Plan>(plan), args, place.workspace, place.stream);
}

}  // namespace

sparge_code sparge_pool(sparge_plan const* plan, sparge_pool_args const* args, void* workspace,
                        std::size_t workspace_bytes, sparge_stream stream, sparge_status* status) {
  Place const place{{workspace, workspace_bytes}, stream};
  return answer(status, [&]() -> Status {
    SPARGE_TRY(check_plan<PoolPlan<bfloat16>>(plan));
    return with_element(header_of(plan).dtype, [&](auto element) {
      using T = typename decltype(element)::type;
      return run<PoolPlan<T>, PoolArgs<T>>(plan, args, place, pool<T>);
    });
  });
}

sparge_code sparge_select_blocks(sparge_plan const* plan, sparge_select_blocks_args const* args,
                                 void* workspace, std::size_t workspace_bytes, sparge_stream stream,
                                 sparge_status* status) {
  Place const place{{workspace, workspace_bytes}, stream};
  return answer(status, [&]() -> Status {
    SPARGE_TRY(check_plan<SelectPlan>(plan));
    return run<SelectPlan, SelectArgs>(plan, args, place, select_blocks);
  });
}

sparge_code sparge_build_mask(sparge_plan const* plan, sparge_build_mask_args const* args, void* workspace,
                              std::size_t workspace_bytes, sparge_stream stream, sparge_status* status) {
  Place const place{{workspace, workspace_bytes}, stream};
  return answer(status, [&]() -> Status {
    SPARGE_TRY(check_plan<BuildMaskPlan<bfloat16>>(plan));
    return with_element(header_of(plan).dtype, [&](auto element) {
      using T = typename decltype(element)::type;
      return run<BuildMaskPlan<T>, BuildMaskArgs<T>>(plan, args, place, build_mask<T>);
    });
  });
}

sparge_code sparge_mask_stats(sparge_plan const* plan, sparge_mask_stats_args const* args, void* workspace,
                              std::size_t workspace_bytes, sparge_stream stream, sparge_status* status) {
  Place const place{{workspace, workspace_bytes}, stream};
  return answer(status, [&]() -> Status {
    SPARGE_TRY(check_plan<MaskStatsPlan>(plan));
    return run<MaskStatsPlan, MaskStatsArgs>(plan, args, place, mask_stats);
  });
}

sparge_code sparge_calibrate(sparge_plan const* plan, sparge_calibrate_args const* args, void* workspace,
                             std::size_t workspace_bytes, sparge_stream stream, sparge_status* status) {
  Place const place{{workspace, workspace_bytes}, stream};
  return answer(status, [&]() -> Status {
    SPARGE_TRY(check_plan<CalibratePlan>(plan));
    return run<CalibratePlan, CalibrateArgs>(plan, args, place, calibrate);
  });
}

sparge_code sparge_forward(sparge_plan const* plan, sparge_forward_args const* args, void* workspace,
                           std::size_t workspace_bytes, sparge_stream stream, sparge_status* status) {
  Place const place{{workspace, workspace_bytes}, stream};
  return answer(status, [&]() -> Status {
    SPARGE_TRY(check_plan<ForwardPlan<bfloat16>>(plan));
    return with_element(header_of(plan).dtype, [&](auto element) {
      using T = typename decltype(element)::type;
      return run<ForwardPlan<T>, ForwardArgs<T>>(plan, args, place, forward<T>);
    });
  });
}

sparge_code sparge_backward(sparge_plan const* plan, sparge_backward_args const* args, void* workspace,
                            std::size_t workspace_bytes, sparge_stream stream, sparge_status* status) {
  Place const place{{workspace, workspace_bytes}, stream};
  return answer(status, [&]() -> Status {
    SPARGE_TRY(check_plan<BackwardPlan<bfloat16>>(plan));
    return with_element(header_of(plan).dtype, [&](auto element) {
      using T = typename decltype(element)::type;
      return run<BackwardPlan<T>, BackwardArgs<T>>(plan, args, place, backward<T>);
    });
  });
}

sparge_code sparge_merge_partials(sparge_plan const* plan, sparge_merge_partials_args const* args,
                                  sparge_stream stream, sparge_status* status) {
  return answer(status, [&]() -> Status {
    SPARGE_TRY(check_plan<MergePlan<float>>(plan));
    return with_any_element(header_of(plan).dtype, [&](auto element) {
      using T = typename decltype(element)::type;
      auto const without_workspace = [](MergePlan<T> const& p, MergeArgs<T> const& a, Workspace,
                                        cudaStream_t s) noexcept { return merge_partials(p, a, s); };
      return run<MergePlan<T>, MergeArgs<T>>(plan, args, {{}, stream}, without_workspace);
    });
  });
}

sparge_code sparge_distillation_loss(sparge_plan const* plan, sparge_distillation_loss_args const* args,
                                     void* workspace, std::size_t workspace_bytes, sparge_stream stream,
                                     sparge_status* status) {
  Place const place{{workspace, workspace_bytes}, stream};
  return answer(status, [&]() -> Status {
    SPARGE_TRY(check_plan<DistillationLossPlan<float>>(plan));
    return with_any_element(header_of(plan).dtype, [&](auto element) {
      using T = typename decltype(element)::type;
      return run<DistillationLossPlan<T>, DistillationLossArgs<T>>(plan, args, place, distillation_loss<T>);
    });
  });
}

sparge_code sparge_interpolate(sparge_plan const* plan, sparge_interpolate_args const* args,
                               sparge_stream stream, sparge_status* status) {
  return answer(status, [&]() -> Status {
    SPARGE_TRY(check_plan<InterpolatePlan<float>>(plan));
    return with_any_element(header_of(plan).dtype, [&](auto element) {
      using T = typename decltype(element)::type;
      auto const without_workspace = [](InterpolatePlan<T> const& p, InterpolateArgs<T> const& a, Workspace,
                                        cudaStream_t s) noexcept { return interpolate(p, a, s); };
      return run<InterpolatePlan<T>, InterpolateArgs<T>>(plan, args, {{}, stream}, without_workspace);
    });
  });
}
