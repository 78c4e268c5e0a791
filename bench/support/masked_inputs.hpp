#pragma once
/// Q and K together with the block mask that a case is timed under.

#include "support/masks.hpp"
#include "support/tensors.hpp"

namespace sparge::bench {

/// The library's rule, top_k 3 % and a top_p at which it keeps about 5 % of these Q and K.
template <class T>
HostMask rule_mask(AttentionProblem const& p, TensorView<T const> q, TensorView<T const> k,
                   Device const& device, cudaStream_t stream) {
  BuildMaskPlan<T> plan;
  sparge::check(plan_build_mask(p, device, {}, &plan));
  Scratch const scratch(plan.workspace_bytes);
  std::size_t words = 0;
  sparge::check(mask_words(p, &words));
  DeviceArray<std::uint32_t> const bits(static_cast<std::int64_t>(words));
  auto built = [&](double log_tail) {  // of 1 - top_p
    MaskRule rule;
    rule.top_k = 0.03;
    rule.top_p = 1.0 - std::exp(log_tail);
    BuildMaskArgs<T> const args{q, k, rule, {bits.data(), words}};
    sparge::check(build_mask(plan, args, scratch.workspace(), stream));
    check(cudaStreamSynchronize(stream), "build_mask");
    return counted(p, bits.download());
  };
  double low = -36, high = 0;  // low keeps nearly all, high what top_k asks for
  HostMask mask = built(high);
  for (int step = 0; step < 24 && std::abs(mask.density(p) - 0.05) > 0.0005; ++step) {
    double const middle = (low + high) / 2;
    mask = built(middle);
    (mask.density(p) > 0.05 ? low : high) = middle;
  }
  return mask;
}

/// What makes the mask of a case: a seed alone, or the rule from clustered Q and K.
inline constexpr NamedMask rule_of_inputs = {"rule", nullptr};

/// Fills Q and K, N(0, 1) or clustered as the mask wants them, and makes the mask.
template <class T>
HostMask fill_qk_and_mask(AttentionProblem const& p, DeviceArray<T> const& q, DeviceArray<T> const& k,
                          NamedMask const& mask, Device const& device, cudaStream_t stream) {
  if (mask.make != nullptr) {
    fill_normal(q.data(), q.size(), q_seed, stream);
    fill_normal(k.data(), k.size(), k_seed, stream);
    return mask.make(p, mask_seed);
  }
  fill_clustered_qk(p, q.data(), k.data(), stream);
  return rule_mask<T>(p, contiguous_bhnd<T>(q.data(), p.batch, p.heads, p.q_tokens, p.head_dim),
                      contiguous_bhnd<T>(k.data(), p.batch, p.kv_heads, p.kv_tokens, p.head_dim), device,
                      stream);
}

}  // namespace sparge::bench
