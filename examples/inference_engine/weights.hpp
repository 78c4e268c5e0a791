#pragma once
/// What a layer has learnt; here, random numbers of the size that training begins with.

#include <cmath>
#include <cstdint>

#include "inference_engine/elementwise.hpp"
#include "inference_engine/model.hpp"

namespace engine {

/// Matrices are row-major [inputs, outputs], `Matrix` their elements in bf16; vectors are f32. Pointers to device memory for the engine,
/// numbers on the host for the reference. Values have no bias of their own: the shares of a row of attention sum to 1, so it would be added
/// to every row alike, and folds into the bias of the product behind.
template <class Matrix, class Vector>
struct LayerWeights {
  Matrix qkv;  ///< [dim, 3, heads, head_dim]
  Matrix out, cross_q;
  Matrix cross_kv;  ///< [dim, 2, heads, head_dim]
  Matrix cross_out, up, down;
  Vector q_bias, k_bias, q_norm, k_norm, out_bias;
  Vector cross_norm_scale, cross_norm_shift;  ///< of the norm before cross-attention; 1 + scale is its weight
  Vector cross_q_bias, cross_k_bias, cross_q_norm, cross_k_norm, cross_out_bias;
  Vector up_bias, down_bias;
  Vector modulation;  ///< [6, dim]: shift, scale and gate of self-attention, then of the feed-forward part
};

using DeviceWeights = LayerWeights<bfloat16*, float*>;
inline constexpr std::int64_t modulations = 6;
inline constexpr Distribution of_modulation{0, 0.3f};  ///< gates and shifts that a wrong sign of would show

/// visit(member, elements, distribution) of every one, in a fixed order.
template <class Weights, class Visit>
void visit_weights(Shape const& s, Weights& w, Visit visit) {
  auto const matrix = [&](auto& member, std::int64_t rows, std::int64_t columns) {
    visit(member, rows * columns, Distribution{0, float(1 / std::sqrt(double(rows)))});
  };
  matrix(w.qkv, s.dim, 3 * s.dim), matrix(w.out, s.dim, s.dim);
  matrix(w.cross_q, s.dim, s.dim), matrix(w.cross_kv, s.dim, 2 * s.dim), matrix(w.cross_out, s.dim, s.dim);
  matrix(w.up, s.dim, s.ffn), matrix(w.down, s.ffn, s.dim);
  for (auto* bias : {&w.q_bias, &w.k_bias, &w.out_bias, &w.cross_norm_scale, &w.cross_norm_shift,
                     &w.cross_q_bias, &w.cross_k_bias, &w.cross_out_bias, &w.down_bias})
    visit(*bias, s.dim, Distribution{0, 0.1f});
  visit(w.up_bias, s.ffn, Distribution{0, 0.1f});
  for (auto* weight : {&w.q_norm, &w.k_norm, &w.cross_q_norm, &w.cross_k_norm})
    visit(*weight, s.dim, Distribution{1, 0.1f});
  visit(w.modulation, modulations * s.dim, of_modulation);
}

}  // namespace engine
