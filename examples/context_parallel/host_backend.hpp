#pragma once
/// The calls on the host, by the reference in f64; results are rounded as the library stores them.

#include <cstdint>
#include <utility>
#include <vector>

#include "context_parallel/data.hpp"
#include "sparge/reference/attention.hpp"
#include "sparge/reference/attention_grad.hpp"
#include "sparge/reference/mask.hpp"
#include "sparge/reference/merge.hpp"
#include "sparge/reference/pool.hpp"

namespace context_parallel {

class HostBackend : public Backend {
public:
  Pooled pool(sparge::AttentionProblem const& p, Tensor<bfloat16> const& q,
              Tensor<bfloat16> const& k) override {
    Pooled pooled{{q.heads, p.q_blocks(), q.channels}, {k.heads, p.kv_blocks(), k.channels}};
    pooled.q.values = sparge::reference::to_f32(sparge::reference::pool(q.view(), p.q_block));
    pooled.k.values = sparge::reference::to_f32(sparge::reference::pool(k.view(), p.kv_block));
    return pooled;
  }

  MaskWords select(sparge::AttentionProblem const& p, sparge::MaskRule const& rule,
                   Pooled const& pooled) override {
    return sparge::reference::select_blocks(p, rule, pooled.q.values.data(), pooled.k.values.data());
  }

  MaskWords slice(sparge::AttentionProblem const& p, MaskWords const& mask, sparge::BlockRange q,
                  sparge::BlockRange kv) override {
    return sparge::reference::slice_mask(p, {mask.data(), mask.size()}, q, kv);
  }

  Attended forward(sparge::AttentionProblem const& p, Inputs const& in, MaskWords const& mask) override {
    return rounded(p, sparge::reference::attention(p, in.q.view(), in.k.view(), in.v.view(),
                                                   {mask.data(), mask.size()}));
  }

  Attended merge(sparge::AttentionProblem const& p, std::vector<Attended> const& parts) override {
    std::vector<sparge::Partial<bfloat16>> partials;
    for (Attended const& part : parts) partials.push_back({part.out.view(), part.lse.values.data()});
    return rounded(p, sparge::reference::merge_partials(p, partials));
  }

  Gradients backward(sparge::AttentionProblem const& p, BackwardInputs const& in) override {
    sparge::reference::AttentionGradArgs<bfloat16, float> args;
    args.q = in.inputs.q.view(), args.k = in.inputs.k.view(), args.v = in.inputs.v.view();
    args.mask = {in.mask.data(), in.mask.size()};
    args.out = in.attended.out.view(), args.lse = in.attended.lse.values.data();
    args.grad_out = in.inputs.grad_out.view();
    auto const grad = sparge::reference::attention_grad(p, args);
    return {rounded(p.heads, p.q_tokens, p.head_dim, grad.grad_q),
            rounded(p.kv_heads, p.kv_tokens, p.head_dim, grad.grad_k),
            rounded(p.kv_heads, p.kv_tokens, p.head_dim, grad.grad_v)};
  }

private:
  static Tensor<bfloat16> rounded(std::int64_t heads, std::int64_t rows, std::int64_t channels,
                                  std::vector<double> const& values) {
    Tensor<bfloat16> result(heads, rows, channels);
    for (std::size_t i = 0; i < values.size(); ++i) result.values[i] = __float2bfloat16(float(values[i]));
    return result;
  }

  static Attended rounded(sparge::AttentionProblem const& p, sparge::reference::Attention const& exact) {
    Attended result{rounded(p.heads, p.q_tokens, p.head_dim, exact.out), {p.heads, p.q_tokens, 1}};
    result.lse.values.assign(exact.lse.begin(), exact.lse.end());
    return result;
  }
};

}  // namespace context_parallel
