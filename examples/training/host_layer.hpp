#pragma once
/// The layer on the host in f64, forward and backward: plain loops, and the library's reference for attention.

#include <cstdint>
#include <vector>

#include "sparge/reference/attention.hpp"
#include "sparge/reference/attention_grad.hpp"
#include "training/layer.hpp"

namespace training {

using Numbers = std::vector<double>;
using MaskWords = std::vector<std::uint32_t>;

/// a [rows, inner] times b [inner, columns].
inline Numbers multiply(Numbers const& a, Numbers const& b, std::int64_t inner) {
  std::int64_t const rows = std::int64_t(a.size()) / inner, columns = std::int64_t(b.size()) / inner;
  Numbers product(std::size_t(rows * columns));
  sparge::reference::for_each_piece(rows, {}, [&] {
    return [&](std::int64_t row) {
      for (std::int64_t i = 0; i < inner; ++i)
        sparge::reference::add_scaled(&product[std::size_t(row * columns)], a[std::size_t(row * inner + i)],
                                      &b[std::size_t(i * columns)], columns);
    };
  });
  return product;
}

inline Numbers transpose(Numbers const& a, std::int64_t columns) {
  std::int64_t const rows = std::int64_t(a.size()) / columns;
  Numbers result(a.size());
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t column = 0; column < columns; ++column)
      result[std::size_t(column * rows + row)] = a[std::size_t(row * columns + column)];
  return result;
}

/// Contiguous [batch, heads, tokens, head_dim], as the reference returns it, into a view.
inline void copy_heads(Numbers const& from, sparge::TensorView<double> const& to) {
  double const* source = from.data();
  for (std::int64_t batch = 0; batch < to.shape[0]; ++batch)
    for (std::int64_t head = 0; head < to.shape[1]; ++head)
      for (std::int64_t token = 0; token < to.shape[2]; ++token, source += to.shape[3])
        std::copy(source, source + to.shape[3], sparge::reference::token_row(to, batch, head, token));
}

/// What forward leaves behind for backward.
struct HostActivations {
  Numbers qkv, heads, lse, velocity;
};

inline sparge::MaskView view_of(MaskWords const& mask) { return {mask.data(), mask.size()}; }

inline Numbers project_qkv(Weights<double> const& w, Numbers const& x) {
  return multiply(x, w.qkv, channels);
}

/// `a.qkv` is given, the rest is made.
inline void attend(LayerShape const& s, Weights<double> const& w, MaskWords const& mask, HostActivations& a) {
  double const* const qkv = a.qkv.data();
  auto result = sparge::reference::attention(s.attention(), part_of_qkv(s, qkv, 0), part_of_qkv(s, qkv, 1),
                                             part_of_qkv(s, qkv, 2), view_of(mask));
  a.lse = std::move(result.lse);
  a.heads.resize(result.out.size());
  copy_heads(result.out, heads_view(s, a.heads.data()));
  a.velocity = multiply(a.heads, w.out, s.width());
}

/// Gradient of a loss by the weights, from its gradient by the velocity. The mask is a constant.
inline Weights<double> backward(LayerShape const& s, Weights<double> const& w, Numbers const& x,
                                MaskWords const& mask, HostActivations const& a,
                                Numbers const& grad_velocity) {
  Numbers const grad_heads = multiply(grad_velocity, transpose(w.out, channels), channels);
  sparge::reference::AttentionGradArgs<double, double> args;
  double const* const qkv = a.qkv.data();
  args.q = part_of_qkv(s, qkv, 0), args.k = part_of_qkv(s, qkv, 1), args.v = part_of_qkv(s, qkv, 2);
  args.mask = view_of(mask);
  args.out = heads_view(s, a.heads.data()), args.grad_out = heads_view(s, grad_heads.data());
  args.lse = a.lse.data();
  auto const grad = sparge::reference::attention_grad(s.attention(), args);
  Numbers grad_qkv(a.qkv.size());
  copy_heads(grad.grad_q, part_of_qkv(s, grad_qkv.data(), 0));
  copy_heads(grad.grad_k, part_of_qkv(s, grad_qkv.data(), 1));
  copy_heads(grad.grad_v, part_of_qkv(s, grad_qkv.data(), 2));
  return {multiply(transpose(x, channels), grad_qkv, s.rows()),
          multiply(transpose(a.heads, s.width()), grad_velocity, s.rows())};
}

}  // namespace training
