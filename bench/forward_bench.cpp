/// Block-sparse attention, forward: forward/SHAPE/MASK/DTYPE[/lse]. A mask is keep_PERCENT, random and even in every row;
/// one of `uneven_masks`, or an even one of its work; or rule, the library's own on clustered inputs.

#include "support/bench.hpp"
#include "support/masked_inputs.hpp"

namespace sparge::bench {
namespace {

enum class Lse { none, written };

template <class T>
Result run_forward(Gpu& gpu, AttentionProblem const& p, PlanOptions const& options,
                   NamedMask const& named_mask, Lse lse) {
  std::int64_t const q_count = p.batch * p.heads * p.q_tokens * p.head_dim;
  std::int64_t const kv_count = p.batch * p.kv_heads * p.kv_tokens * p.head_dim;
  DeviceArray<T> const q(q_count), k(kv_count), v(kv_count), out(q_count);
  HostMask const host_mask = fill_qk_and_mask(p, q, k, named_mask, gpu.device, gpu.stream);
  fill_normal(v.data(), kv_count, v_seed, gpu.stream);
  poison(out, gpu.stream);
  DeviceArray<std::uint32_t> const mask(host_mask.words);
  DeviceArray<float> const lse_of(lse == Lse::written ? p.batch * p.heads * p.q_tokens : 0);

  ForwardPlan<T> plan;
  sparge::check(plan_forward(p, gpu.device, options, &plan));
  Scratch const scratch(plan.workspace_bytes);
  auto view = [&](DeviceArray<T> const& x, std::int64_t heads, std::int64_t tokens) {
    return contiguous_bhnd<T>(x.data(), p.batch, heads, tokens, p.head_dim);
  };
  ForwardArgs<T> const args{view(q, p.heads, p.q_tokens),     view(k, p.kv_heads, p.kv_tokens),
                            view(v, p.kv_heads, p.kv_tokens), {mask.data(), mask.bytes() / 4},
                            view(out, p.heads, p.q_tokens),   lse_of.data()};

  Result result;
  result.timing = gpu.timer.time(
      Cache::cold, [&] { sparge::check(forward(plan, args, scratch.workspace(), gpu.stream)); });
  result.flop = 4.0 * static_cast<double>(host_mask.kept_token_pairs) * p.head_dim;
  result.bytes =
      static_cast<double>(q.bytes() + k.bytes() + v.bytes() + out.bytes() + mask.bytes() + lse_of.bytes());
  result.density = host_mask.density(p);
  require_finite(out, "out");
  return result;
}

template <class T>
void add_forward(Shape const& shape, PlanOptions const& options, NamedMask const& mask, Lse lse) {
  add_case(std::string("forward/") + shape.name + "/" + mask.name + "/" + dtype_name<T> +
               (lse == Lse::written ? "/lse" : ""),
           [=](Gpu& gpu) { return run_forward<T>(gpu, shape.problem(), options, mask, lse); });
}

}  // namespace

void register_cases(Options const& options) {
  for (Shape const& shape : options.shapes) {
    for (NamedMask const& mask : even_masks) add_forward<bfloat16>(shape, options.plan, mask, Lse::none);
    for (NamedMask const& mask : uneven_masks) add_forward<bfloat16>(shape, options.plan, mask, Lse::none);
    add_forward<bfloat16>(shape, options.plan, rule_of_inputs, Lse::none);
    add_forward<bfloat16>(shape, options.plan, even_masks[0], Lse::written);
    add_forward<float16>(shape, options.plan, even_masks[0], Lse::none);
  }
}

}  // namespace sparge::bench
