#pragma once
/// The layer that is trained: u = attention(x Wq, x Wk, x Wv) Wo, without biases.
///
/// All matrices are row-major. Wq, Wk and Wv stand beside each other in one matrix, so that one product makes queries, keys
/// and values, [batch, tokens, 3, heads, head_dim]; sparge reads and writes each of them in place, through its strides.

#include <cmath>
#include <cstdint>
#include <vector>

#include "sparge/sparge.hpp"
#include "training/random.hpp"
#include "training/video.hpp"

namespace training {
struct LayerShape {
  VideoShape video;
  std::int64_t batch = 1, heads = 1;
  std::int32_t head_dim = 64;

  std::int64_t rows() const { return batch * video.tokens(); }
  std::int64_t width() const { return heads * head_dim; }
  std::int64_t elements() const { return rows() * channels; }
  sparge::DistillationProblem samples() const { return {batch, video.tokens() * channels}; }
  sparge::AttentionProblem attention() const {
    return {batch, heads, heads, video.tokens(), video.tokens(), head_dim};
  }
};

/// `which` is 0 for queries, 1 for keys, 2 for values.
template <class T>
sparge::TensorView<T> part_of_qkv(LayerShape const& s, T* qkv, int which) {
  std::int64_t const tokens = s.video.tokens(), row = 3 * s.width();
  return {
      qkv + which * s.width(), {s.batch, s.heads, tokens, s.head_dim}, {tokens * row, s.head_dim, row, 1}};
}

/// The output of attention, [batch, tokens, heads, head_dim].
template <class T>
sparge::TensorView<T> heads_view(LayerShape const& s, T* data) {
  return sparge::contiguous_bnhd(data, s.batch, s.heads, s.video.tokens(), s.head_dim);
}

template <class T>
struct Weights {
  std::vector<T> qkv;  ///< [channels, 3, heads, head_dim]
  std::vector<T> out;  ///< [heads, head_dim, channels]
};

template <class To, class From>
Weights<To> convert(Weights<From> const& w) {
  return {{w.qkv.begin(), w.qkv.end()}, {w.out.begin(), w.out.end()}};
}

/// A teacher that is made, not trained: each head compares tokens by random features of their latents and of their place,
/// the first heads more by place and the last more by latents; values and output are random projections. Its attention is
/// soft, so that a mask drops much of its mass.
inline Weights<double> make_teacher(LayerShape const& s, std::uint64_t seed) {
  Weights<double> w;
  w.qkv.resize(std::size_t(channels * 3 * s.width()));
  w.out.resize(std::size_t(s.width() * channels));
  Random const random(seed, 1);
  std::uint64_t at = 0;
  double const root = std::sqrt(
      std::sqrt(double(s.head_dim)));  // with scale 1 / sqrt(head_dim): logits of about gain^2 |x|^2
  for (std::int64_t head = 0; head < s.heads; ++head) {
    double const share = (double(head) + 0.5) / double(s.heads);
    double const by_latents = std::sqrt(2 * share / latent_channels),
                 by_place = std::sqrt(4 * (1 - share) / 7);
    for (std::int64_t c = 0; c < channels; ++c)
      for (std::int64_t d = 0; d < s.head_dim; ++d) {
        double const gain = c < latent_channels ? by_latents : c < clock_channel ? by_place : 0;
        double* const row = &w.qkv[std::size_t(c * 3 * s.width() + head * s.head_dim + d)];
        row[0] = row[s.width()] = gain * random.normal(at++) / root;
        row[2 * s.width()] = random.normal(at++) / std::sqrt(double(channels));
      }
  }
  for (double& x : w.out) x = random.normal(at++) / std::sqrt(double(s.width()));
  return w;
}

}  // namespace training
