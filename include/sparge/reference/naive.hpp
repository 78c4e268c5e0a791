#pragma once
/// The formulas of attention.hpp and attention_grad.hpp in the working precision: f32 sums and softmax; P, dS and the
/// results rounded to the element type. Its distance from the f64 reference is the yardstick for a kernel's.

#include <type_traits>
#include <vector>

#include "sparge/reference/attention.hpp"
#include "sparge/reference/attention_grad.hpp"

namespace sparge::reference {

template <class T>
Attention naive_attention_rows(AttentionProblem const& p, TensorView<T> const& q, TensorView<T> const& k,
                               TensorView<T> const& v, MaskView mask, std::vector<QueryRow> const& rows,
                               RunOptions const& options = {}) {
  return detail::attention_rows<Working<std::remove_const_t<T>>>(p, q, k, v, mask, rows, options);
}

template <class T>
Attention naive_attention(AttentionProblem const& p, TensorView<T> const& q, TensorView<T> const& k,
                          TensorView<T> const& v, MaskView mask, RunOptions const& options = {}) {
  return naive_attention_rows(p, q, k, v, mask, all_rows(p), options);
}

template <class T, class Lse>
AttentionGrad naive_attention_grad(AttentionProblem const& p, AttentionGradArgs<T, Lse> const& args,
                                   RunOptions const& options = {}) {
  return detail::attention_grad<Working<T>>(p, args, options);
}

/// With dS made of the rounded P, which is as legitimate.
template <class T, class Lse>
AttentionGrad naive_attention_grad_on_rounded(AttentionProblem const& p,
                                              AttentionGradArgs<T, Lse> const& args,
                                              RunOptions const& options = {}) {
  return detail::attention_grad<WorkingOnRounded<T>>(p, args, options);
}

}  // namespace sparge::reference
