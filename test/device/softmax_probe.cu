#include "probe.hpp"
#include "probe_run.cuh"
#include "sparge/device/element_mask.cuh"
#include "sparge/device/online_softmax.cuh"

namespace sparge::probe {

template <SoftmaxReference how>
__global__ void softmax_kernel(float const* logits, int tiles, float scale_log2, int valid_columns,
                               float* weights, float* rescale, float* sum, float* lse, int* needs_exact) {
  OnlineSoftmax<1> softmax;
  softmax.reset();
  for (int tile = 0; tile < tiles; ++tile) {
    Fragment<64> fragments[1];
    Fragment<64>& fragment = fragments[0];
    for (int group = 0; group < fragment.groups; ++group)
      for (int r = 0; r < 2; ++r)
        for (int c = 0; c < 2; ++c)
          fragment.at(r, group, c) = logits[(tile * 16 + fragment.row(r)) * 64 + fragment.column(group, c)];
    if (tile == tiles - 1) mask_tail(fragment, valid_columns);
    float factor[1][2];
    softmax.update<how>(fragments, scale_log2, factor);
    for (int r = 0; r < 2; ++r) {
      rescale[tile * 16 + fragment.row(r)] = factor[0][r];
      for (int group = 0; group < fragment.groups; ++group)
        for (int c = 0; c < 2; ++c)
          weights[(tile * 16 + fragment.row(r)) * 64 + fragment.column(group, c)] = fragment.at(r, group, c);
    }
  }
  for (int r = 0; r < 2; ++r) {
    float const total = softmax.row_sum(0, r);
    sum[Fragment<64>::row(r)] = total;
    lse[Fragment<64>::row(r)] = softmax.log_sum_exp(0, r, scale_log2, total);
  }
  *needs_exact = __any_sync(0xffffffffu, softmax.needs_exact(scale_log2));
}

Softmax online_softmax(Reference reference, std::vector<float> const& logits, float scale_log2,
                       int valid_columns) {
  int const tiles = static_cast<int>(logits.size()) / (16 * 64);
  Array<float> const in(logits), weights(logits.size()), rescale(static_cast<std::size_t>(tiles) * 16),
      sum(16), lse(16);
  Array<int> const needs_exact(1);
  auto* const kernel = reference == Reference::scaled ? softmax_kernel<SoftmaxReference::scaled>
                                                      : softmax_kernel<SoftmaxReference::exact>;
  kernel<<<1, 32>>>(in.data(), tiles, scale_log2, valid_columns, weights.data(), rescale.data(), sum.data(),
                    lse.data(), needs_exact.data());
  return {weights.download(), rescale.download(), sum.download(), lse.download(),
          needs_exact.download()[0] != 0};
}

}  // namespace sparge::probe
