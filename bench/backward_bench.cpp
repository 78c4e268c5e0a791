/// Block-sparse attention, backward, with the masks of forward_bench: backward/SHAPE/MASK/DTYPE[/grad_lse][/hot].

#include "support/bench.hpp"
#include "support/masked_inputs.hpp"

namespace sparge::bench {
namespace {

enum class GradLse { none, given };

/// What a case is beside its shape and type.
struct Variant {
  NamedMask mask;
  GradLse grad_lse = GradLse::none;
  Cache cache = Cache::cold;

  std::string suffix() const {
    return std::string(grad_lse == GradLse::given ? "/grad_lse" : "") + (cache == Cache::hot ? "/hot" : "");
  }
};

/// Everything that backward reads, with out and lse of one forward, and the gradients that it writes.
template <class T>
struct Tensors {
  AttentionProblem problem;
  std::int64_t q_count, kv_count, rows;
  DeviceArray<T> q, k;
  HostMask host_mask;
  DeviceArray<T> v, out, grad_out, grad_q, grad_k, grad_v;
  DeviceArray<float> lse, grad_lse;
  DeviceArray<std::uint32_t> mask;

  Tensors(AttentionProblem const& p, Variant const& variant, Device const& device, cudaStream_t stream)
      : problem(p),
        q_count(p.batch * p.heads * p.q_tokens * p.head_dim),
        kv_count(p.batch * p.kv_heads * p.kv_tokens * p.head_dim),
        rows(p.batch * p.heads * p.q_tokens),
        q(q_count),
        k(kv_count),
        host_mask(fill_qk_and_mask(p, q, k, variant.mask, device, stream)),
        v(kv_count),
        out(q_count),
        grad_out(q_count),
        grad_q(q_count),
        grad_k(kv_count),
        grad_v(kv_count),
        lse(rows),
        grad_lse(variant.grad_lse == GradLse::given ? rows : 0),
        mask(host_mask.words) {
    fill_normal(v.data(), kv_count, v_seed, stream);
    fill_normal(grad_out.data(), q_count, grad_out_seed, stream);
    fill_normal(grad_lse.data(), grad_lse.size(), grad_lse_seed, stream);
    poison(out, stream);
    poison(lse, stream);
    for (DeviceArray<T> const* gradient : {&grad_q, &grad_k, &grad_v}) poison(*gradient, stream);
  }

  auto query_view(DeviceArray<T> const& x) const {
    return contiguous_bhnd<T>(x.data(), problem.batch, problem.heads, problem.q_tokens, problem.head_dim);
  }
  auto key_view(DeviceArray<T> const& x) const {
    return contiguous_bhnd<T>(x.data(), problem.batch, problem.kv_heads, problem.kv_tokens, problem.head_dim);
  }
  MaskView mask_view() const { return {mask.data(), mask.bytes() / 4}; }

  /// Inputs read once and gradients written once.
  double bytes() const {
    double const queries = 4.0 * static_cast<double>(q.bytes());  // q, out, grad_out, grad_q
    double const keys = 4.0 * static_cast<double>(k.bytes());     // k, v, grad_k, grad_v
    return queries + keys + static_cast<double>(lse.bytes() + grad_lse.bytes() + mask.bytes());
  }
};

/// Makes out and lse, once.
template <class T>
void forward_now(Gpu& gpu, Tensors<T> const& x) {
  ForwardPlan<T> plan;
  sparge::check(plan_forward(x.problem, gpu.device, {}, &plan));
  Scratch const scratch(plan.workspace_bytes);
  ForwardArgs<T> const args{x.query_view(x.q), x.key_view(x.k),     x.key_view(x.v),
                            x.mask_view(),     x.query_view(x.out), x.lse.data()};
  sparge::check(forward(plan, args, scratch.workspace(), gpu.stream));
  gpu.stream.wait();
  require_finite(x.out, "out");
  require_finite(x.lse, "lse");
}

template <class T>
Result run_backward(Gpu& gpu, AttentionProblem const& p, PlanOptions const& options, Variant const& variant) {
  Tensors<T> const x(p, variant, gpu.device, gpu.stream);
  forward_now(gpu, x);
  BackwardPlan<T> plan;
  sparge::check(plan_backward(p, gpu.device, options, &plan));
  Scratch const scratch(plan.workspace_bytes);
  BackwardArgs<T> args;
  args.q = x.query_view(x.q);
  args.k = x.key_view(x.k);
  args.v = x.key_view(x.v);
  args.out = x.query_view(x.out);
  args.grad_out = x.query_view(x.grad_out);
  args.lse = x.lse.data();
  args.grad_lse = x.grad_lse.data();
  args.mask = x.mask_view();
  args.grad_q = x.query_view(x.grad_q);
  args.grad_k = x.key_view(x.grad_k);
  args.grad_v = x.key_view(x.grad_v);

  Result result;
  result.timing = gpu.timer.time(
      variant.cache, [&] { sparge::check(backward(plan, args, scratch.workspace(), gpu.stream)); });
  // Five products of matrices where forward has two.
  result.flop = 10.0 * static_cast<double>(x.host_mask.kept_token_pairs) * p.head_dim;
  result.bytes = x.bytes();
  result.density = x.host_mask.density(p);
  require_finite(x.grad_q, "grad_q");
  require_finite(x.grad_k, "grad_k");
  require_finite(x.grad_v, "grad_v");
  return result;
}

template <class T>
void add_backward(Shape const& shape, PlanOptions const& options, Variant const& variant) {
  add_case(std::string("backward/") + shape.name + "/" + variant.mask.name + "/" + dtype_name<T> +
               variant.suffix(),
           [=](Gpu& gpu) { return run_backward<T>(gpu, shape.problem(), options, variant); });
}

}  // namespace

void register_cases(Options const& options) {
  for (Shape const& shape : options.shapes) {
    for (NamedMask const& mask : even_masks) add_backward<bfloat16>(shape, options.plan, {mask});
    for (NamedMask const& mask : uneven_masks) add_backward<bfloat16>(shape, options.plan, {mask});
    add_backward<bfloat16>(shape, options.plan, {rule_of_inputs});
    add_backward<bfloat16>(shape, options.plan, {even_masks[0], GradLse::none, Cache::hot});
    add_backward<bfloat16>(shape, options.plan, {even_masks[0], GradLse::given});
    add_backward<float16>(shape, options.plan, {even_masks[0]});
  }
}

}  // namespace sparge::bench
