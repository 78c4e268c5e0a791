#include "sparge/op/merge_partials.hpp"

namespace sparge {

template Status plan_merge_partials(AttentionProblem const&, Device const&, PlanOptions const&,
                                    MergePlan<bfloat16>*) noexcept;
template Status plan_merge_partials(AttentionProblem const&, Device const&, PlanOptions const&,
                                    MergePlan<float16>*) noexcept;
template Status plan_merge_partials(AttentionProblem const&, Device const&, PlanOptions const&,
                                    MergePlan<float>*) noexcept;
template Status merge_partials(MergePlan<bfloat16> const&, MergeArgs<bfloat16> const&, cudaStream_t) noexcept;
template Status merge_partials(MergePlan<float16> const&, MergeArgs<float16> const&, cudaStream_t) noexcept;
template Status merge_partials(MergePlan<float> const&, MergeArgs<float> const&, cudaStream_t) noexcept;

}  // namespace sparge
