#pragma once
/// The layer on a GPU in bf16: cuBLAS for the projections, sparge for attention. Every call only enqueues.

#include <algorithm>
#include <cstddef>

#include "sparge/throwing.hpp"
#include "support/device_array.hpp"
#include "training/layer.hpp"
#include "training/matrix_product.hpp"

namespace training {

using demo::DeviceArray;
using sparge::bfloat16;

/// The nearest bf16 values.
template <class T>
std::vector<bfloat16> to_bf16(std::vector<T> const& values) {
  std::vector<bfloat16> rounded(values.size());
  std::transform(values.begin(), values.end(), rounded.begin(),
                 [](T x) { return __float2bfloat16(float(x)); });
  return rounded;
}

/// What the products read.
struct DeviceWeights {
  explicit DeviceWeights(Weights<double> const& w) : qkv(to_bf16(w.qkv)), out(to_bf16(w.out)) {}
  DeviceArray<bfloat16> qkv, out;
};

/// What forward leaves behind for backward, and scratch of backward's own.
struct DeviceActivations {
  explicit DeviceActivations(LayerShape const& s)
      : qkv(std::size_t(s.rows() * 3 * s.width())),
        heads(std::size_t(s.rows() * s.width())),
        velocity(std::size_t(s.elements())),
        lse(std::size_t(s.rows() * s.heads)) {}
  DeviceArray<bfloat16> qkv, heads, velocity;
  DeviceArray<float> lse;
};

struct DeviceGradients {
  explicit DeviceGradients(LayerShape const& s)
      : velocity(std::size_t(s.elements())),
        heads(std::size_t(s.rows() * s.width())),
        qkv(std::size_t(s.rows() * 3 * s.width())),
        weights_qkv(std::size_t(channels * 3 * s.width())),
        weights_out(std::size_t(s.width() * channels)) {}
  DeviceArray<bfloat16> velocity, heads, qkv;
  DeviceArray<float> weights_qkv, weights_out;
};

class GpuLayer {
public:
  GpuLayer(LayerShape const& shape, sparge::Device const& device, cudaStream_t stream)
      : s_(shape), stream_(stream), product_(stream) {
    sparge::AttentionProblem const p = s_.attention();
    sparge::check(sparge::plan_build_mask(p, device, {}, &mask_plan_));
    sparge::check(sparge::plan_forward(p, device, {}, &forward_plan_));
    sparge::check(sparge::plan_backward(p, device, {}, &backward_plan_));
  }

  std::size_t workspace_bytes() const {
    return std::max(
        {mask_plan_.workspace_bytes, forward_plan_.workspace_bytes, backward_plan_.workspace_bytes});
  }

  /// Queries, keys and values of x [rows, channels].
  void project_qkv(DeviceWeights const& w, bfloat16 const* x, DeviceActivations const& a) {
    product_({x}, {w.qkv.data()}, a.qkv.data(), s_.rows(), 3 * s_.width(), channels);
  }

  void build_mask(sparge::MaskRule const& rule, DeviceActivations const& a, sparge::MaskOut mask,
                  sparge::Workspace workspace) {
    sparge::check(sparge::build_mask<bfloat16>(mask_plan_, {part(a.qkv, 0), part(a.qkv, 1), rule, mask},
                                               workspace, stream_));
  }

  void attend(DeviceWeights const& w, sparge::MaskView mask, DeviceActivations const& a,
              sparge::Workspace workspace) {
    sparge::ForwardArgs<bfloat16> args;
    args.q = part(a.qkv, 0), args.k = part(a.qkv, 1), args.v = part(a.qkv, 2);
    args.mask = mask;
    args.out = heads_view(s_, a.heads.data());
    args.lse = a.lse.data();
    sparge::check(sparge::forward(forward_plan_, args, workspace, stream_));
    product_({a.heads.data()}, {w.out.data()}, a.velocity.data(), s_.rows(), channels, s_.width());
  }

  /// Fills in `g` from g.velocity, which the loss has written.
  void backward(DeviceWeights const& w, bfloat16 const* x, sparge::MaskView mask, DeviceActivations const& a,
                DeviceGradients const& g, sparge::Workspace workspace) {
    product_({a.heads.data(), true}, {g.velocity.data()}, g.weights_out.data(), s_.width(), channels,
             s_.rows());
    product_({g.velocity.data()}, {w.out.data(), true}, g.heads.data(), s_.rows(), s_.width(), channels);
    sparge::BackwardArgs<bfloat16> args;
    args.q = part(a.qkv, 0), args.k = part(a.qkv, 1), args.v = part(a.qkv, 2);
    args.out = heads_view(s_, a.heads.data()), args.grad_out = heads_view(s_, g.heads.data());
    args.lse = a.lse.data();
    args.mask = mask;
    args.grad_q = part(g.qkv, 0), args.grad_k = part(g.qkv, 1), args.grad_v = part(g.qkv, 2);
    sparge::check(sparge::backward(backward_plan_, args, workspace, stream_));
    product_({x, true}, {g.qkv.data()}, g.weights_qkv.data(), channels, 3 * s_.width(), s_.rows());
  }

  sparge::TensorView<bfloat16> part(DeviceArray<bfloat16> const& qkv, int which) const {
    return part_of_qkv(s_, qkv.data(), which);
  }

private:
  LayerShape s_;
  cudaStream_t stream_;
  MatrixProduct product_;
  sparge::BuildMaskPlan<bfloat16> mask_plan_;
  sparge::ForwardPlan<bfloat16> forward_plan_;
  sparge::BackwardPlan<bfloat16> backward_plan_;
};

}  // namespace training
