#pragma once
/// backward() on tensors of gigabytes, as large_forward.hpp: filled on the device, checked head by head against the reference.

#include <cstdint>
#include <utility>
#include <vector>

#include "op/large_forward.hpp"
#include "support/gradient_case.hpp"

namespace sparge::test {

/// Every query block keeps `count` key blocks, spread over the row, other ones in every block.
inline MaskWords few_blocks_mask(AttentionProblem const& p, std::int64_t count) {
  return make_mask(p, [&](std::int64_t, std::int64_t h, std::int64_t q_block, std::int64_t kv_block) {
    std::int64_t const step = (p.kv_blocks() + count - 1) / count;
    return (kv_block + 7 * q_block + h) % step == 0;
  });
}

template <class T>
class LargeBackward {
public:
  /// One query head a kv head.
  LargeBackward(AttentionProblem const& p, MaskWords mask)
      : p_(p),
        host_mask_(std::move(mask)),
        q_(q_shape(p), 1),
        k_(kv_shape(p), 2),
        v_(kv_shape(p), 3),
        grad_out_(q_shape(p), 4),
        mask_(host_mask_),
        out_(elements(p.q_tokens)),
        lse_(p.batch * p.heads * p.q_tokens),
        grad_q_(elements(p.q_tokens)),
        grad_k_(elements(p.kv_tokens)),
        grad_v_(elements(p.kv_tokens)) {
    ForwardPlan<T> forward_plan;
    BackwardPlan<T> backward_plan;
    must(plan_forward(p, test_device(), {}, &forward_plan));
    must(plan_backward(p, test_device(), {}, &backward_plan));
    ScratchBuffer const forward_scratch(forward_plan.workspace_bytes), scratch(backward_plan.workspace_bytes);
    MaskView const bits{mask_.data(), static_cast<std::size_t>(mask_.size())};
    Stream const stream;
    must(forward(forward_plan, {q_.view(), k_.view(), v_.view(), bits, of_queries(out_), lse_.data()},
                 forward_scratch.workspace(), stream));
    must(backward(backward_plan,
                  {q_.view(), k_.view(), v_.view(), of_queries(out_), grad_out_.view(), lse_.data(), nullptr,
                   bits, of_queries(grad_q_), of_keys(grad_k_), of_keys(grad_v_)},
                  scratch.workspace(), stream));
    stream.wait();
  }

  /// All of the first and the last head, and of one between.
  void check() const {
    Random random(98);
    for (auto const& [b, h] : {std::pair<std::int64_t, std::int64_t>{0, 0},
                               {p_.batch - 1, p_.heads - 1},
                               {random.below(p_.batch), random.below(p_.heads)}})
      check_head(b, h);
  }

  void check_head(std::int64_t b, std::int64_t h) const {
    CAPTURE(p_.batch, p_.heads, p_.q_tokens, p_.kv_tokens, p_.head_dim, b, h);
    AttentionProblem one = p_;
    one.batch = one.heads = one.kv_heads = 1;
    auto const words = static_cast<std::ptrdiff_t>(reference::mask_words(one));
    auto const first_word = host_mask_.begin() + (b * p_.heads + h) * words;
    std::int64_t const head = b * p_.heads + h;
    GradientInputs<T> const inputs{
        {one, q_.head(b, h), k_.head(b, h), v_.head(b, h), MaskWords(first_word, first_word + words)},
        download(out_, head, one.q_tokens),
        grad_out_.head(b, h),
        lse_.download(head * p_.q_tokens, p_.q_tokens),
        {}};
    check_gradients(truth_of(inputs), GradientOutput<T>{download(grad_q_, head, one.q_tokens),
                                                        download(grad_k_, head, one.kv_tokens),
                                                        download(grad_v_, head, one.kv_tokens)});
  }

private:
  std::int64_t elements(std::int64_t tokens) const { return p_.batch * p_.heads * tokens * p_.head_dim; }
  TensorView<T> of_queries(DeviceBuffer<T> const& x) const {
    return contiguous_bhnd(x.data(), p_.batch, p_.heads, p_.q_tokens, p_.head_dim);
  }
  TensorView<T> of_keys(DeviceBuffer<T> const& x) const {
    return contiguous_bhnd(x.data(), p_.batch, p_.heads, p_.kv_tokens, p_.head_dim);
  }

  HostTensor<T> download(DeviceBuffer<T> const& x, std::int64_t head, std::int64_t tokens) const {
    HostTensor<T> one({1, 1, tokens, p_.head_dim});
    one.storage() = x.download(head * tokens * p_.head_dim, tokens * p_.head_dim);
    return one;
  }

  AttentionProblem p_;
  MaskWords host_mask_;
  TiledTensor<T> q_, k_, v_, grad_out_;
  DeviceBuffer<std::uint32_t> mask_;
  DeviceBuffer<T> out_;
  DeviceBuffer<float> lse_;
  DeviceBuffer<T> grad_q_, grad_k_, grad_v_;
};

}  // namespace sparge::test
