#pragma once
/// Plans as bytes: which operation, element type and library a sparge_plan is of, and the plan of sparge.hpp inside.

#include "c_api/convert.hpp"
#include "c_api/plan_values.hpp"
#include "c_api/structs.hpp"
#include "sparge/plan/built.hpp"
#include "sparge/sparge.hpp"

namespace sparge::c_api {

enum class Operation : std::int32_t {
  none,
  pool,
  select_blocks,
  build_mask,
  mask_stats,
  mask_form,
  forward,
  backward,
  distillation_loss,
  interpolate,
  merge_partials,
  calibrate
};

/// What the library knows of a type of plan.
template <class Plan>
struct PlanTraits;

template <class T>
struct PlanTraits<PoolPlan<T>> {
  static constexpr Operation operation = Operation::pool;
  static constexpr sparge_dtype dtype = dtype_of<T>;
  static constexpr char const* needed = "the call needs a plan of sparge_plan_pool()";
};
template <>
struct PlanTraits<SelectPlan> {
  static constexpr Operation operation = Operation::select_blocks;
  static constexpr sparge_dtype dtype = 0;
  static constexpr char const* needed = "the call needs a plan of sparge_plan_select_blocks()";
};
template <class T>
struct PlanTraits<BuildMaskPlan<T>> {
  static constexpr Operation operation = Operation::build_mask;
  static constexpr sparge_dtype dtype = dtype_of<T>;
  static constexpr char const* needed = "the call needs a plan of sparge_plan_build_mask()";
};
template <>
struct PlanTraits<MaskStatsPlan> {
  static constexpr Operation operation = Operation::mask_stats;
  static constexpr sparge_dtype dtype = 0;
  static constexpr char const* needed = "the call needs a plan of sparge_plan_mask_stats()";
};
template <>
struct PlanTraits<CalibratePlan> {
  static constexpr Operation operation = Operation::calibrate;
  static constexpr sparge_dtype dtype = 0;
  static constexpr char const* needed = "the call needs a plan of sparge_plan_calibrate()";
};
template <>
struct PlanTraits<MaskFormPlan> {
  static constexpr Operation operation = Operation::mask_form;
  static constexpr sparge_dtype dtype = 0;
  static constexpr char const* needed = "the call needs a plan of sparge_plan_mask_form()";
};
template <class T>
struct PlanTraits<ForwardPlan<T>> {
  static constexpr Operation operation = Operation::forward;
  static constexpr sparge_dtype dtype = dtype_of<T>;
  static constexpr char const* needed = "the call needs a plan of sparge_plan_forward()";
};
template <class T>
struct PlanTraits<BackwardPlan<T>> {
  static constexpr Operation operation = Operation::backward;
  static constexpr sparge_dtype dtype = dtype_of<T>;
  static constexpr char const* needed = "the call needs a plan of sparge_plan_backward()";
};
template <class T>
struct PlanTraits<DistillationLossPlan<T>> {
  static constexpr Operation operation = Operation::distillation_loss;
  static constexpr sparge_dtype dtype = dtype_of<T>;
  static constexpr char const* needed = "the call needs a plan of sparge_plan_distillation_loss()";
};
template <class T>
struct PlanTraits<InterpolatePlan<T>> {
  static constexpr Operation operation = Operation::interpolate;
  static constexpr sparge_dtype dtype = dtype_of<T>;
  static constexpr char const* needed = "the call needs a plan of sparge_plan_interpolate()";
};

template <class T>
struct PlanTraits<MergePlan<T>> {
  static constexpr Operation operation = Operation::merge_partials;
  static constexpr sparge_dtype dtype = dtype_of<T>;
  static constexpr char const* needed = "the call needs a plan of sparge_plan_merge_partials()";
};

template <class Plan>
std::size_t workspace_of(Plan const& plan) {
  return plan.workspace_bytes;
}
inline std::size_t workspace_of(MaskFormPlan const&) { return 0; }
template <class T>
std::size_t workspace_of(MergePlan<T> const&) {
  return 0;
}
template <class T>
std::size_t workspace_of(InterpolatePlan<T> const&) {
  return 0;
}

/// What a plan chose, -1 where it had no choice.
struct ChosenKernels {
  std::int32_t first, dq;
};

template <class Plan>
ChosenKernels kernels_of(Plan const&) {
  return {-1, -1};
}
template <class T>
ChosenKernels kernels_of(ForwardPlan<T> const& plan) {
  return {plan.kernel, -1};
}
template <class T>
ChosenKernels kernels_of(BackwardPlan<T> const& plan) {
  return {plan.dkdv_kernel, plan.dq_kernel};
}

/// The opaque part begins with where the plan is from; a plan's public members are only for reading.
struct PlanHeader {
  std::uint64_t version;  ///< of the library: another one may lay its plans out differently
  std::int32_t operation;
  sparge_dtype dtype;
};

/// A plan's size never changes: what fits no longer is a new struct.
inline Status check_plan_size(sparge_plan const* plan) {
  if (plan == nullptr) return refuse("plan", "must not be null");
  if (plan->struct_size != sizeof(sparge_plan))
    return refuse("plan.struct_size", "must be sizeof the struct, which begins with it",
                  static_cast<std::int64_t>(plan->struct_size), sizeof(sparge_plan));
  return {};
}

/// `to` was checked by check_plan_size().
template <class Plan>
void store(Plan plan, sparge_plan* to) {
  using Traits = PlanTraits<Plan>;
  static_assert(sizeof(PlanHeader) + sizeof(Plan) <= sizeof to->opaque);
  constexpr auto operation = static_cast<std::int32_t>(Traits::operation);
  sparge_plan out{};
  out.workspace_bytes = workspace_of(plan);
  out.operation = operation;
  out.dtype = Traits::dtype;
  out.kernel = kernels_of(plan).first;
  out.dq_kernel = kernels_of(plan).dq;
  PlanHeader const header{built::version_number, operation, Traits::dtype};
  ValueWriter writer(reinterpret_cast<unsigned char*>(out.opaque));
  writer(header);
  each_value(plan, writer);
  write(out, to);
}

inline PlanHeader header_of(sparge_plan const* plan) {
  PlanHeader header;
  std::memcpy(&header, plan->opaque, sizeof header);
  return header;
}

/// Checks that a plan is for the operation of Plan, of whatever element type.
template <class Plan>
Status check_plan(sparge_plan const* plan) {
  SPARGE_TRY(check_plan_size(plan));
  PlanHeader const header = header_of(plan);
  if (header.version != built::version_number)
    return refuse("plan", "must be made by a plan call of this version of the library");
  constexpr auto expected = static_cast<std::int32_t>(PlanTraits<Plan>::operation);
  if (header.operation != expected)
    return mismatch("plan.operation", PlanTraits<Plan>::needed, header.operation, expected);
  return {};
}

/// `from` was checked by check_plan() and is of Plan's element type.
template <class Plan>
Plan load(sparge_plan const* from) {
  Plan plan;
  ValueReader reader(reinterpret_cast<unsigned char const*>(from->opaque) + sizeof(PlanHeader));
  each_value(plan, reader);
  return plan;
}

}  // namespace sparge::c_api
