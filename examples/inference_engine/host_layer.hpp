#pragma once
/// One layer on the host in f64, in plain loops: what the engine's layer is compared with.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "inference_engine/weights.hpp"
#include "sparge/reference/element.hpp"

namespace engine {

using Numbers = std::vector<double>;
using HostWeights = LayerWeights<Numbers, Numbers>;

/// Partial blocks on both axes, positions along all three axes of the video, rows of several warps and a feed-forward row of several rounds.
inline Shape small_shape(std::int64_t layers) {
  Shape s{512, 2304, layers, {5, 6, 10}, 300};
  s.text_tokens = 70;
  return s;
}

/// Standard deviation of biases, weights of norms and modulation in comparisons: with it, leaving any one of them out moves the layer's result
/// by more than rounding to bf16 does.
inline constexpr float spread_of_vectors = 0.5f;

/// What a layer reads beside its weights. `mask` is that of self-attention, in bits; empty to keep everything.
struct HostInputs {
  Numbers x, text, time;
  std::vector<std::uint32_t> mask;
};

/// Whether every tensor that the engine stores is rounded to bf16 here too. The difference between the two is what rounding does.
enum class Storage { exact, bf16 };

class HostLayer {
public:
  HostLayer(Shape const& s, HostWeights const& w, HostInputs const& in, Storage storage)
      : s_(s), w_(w), in_(in), storage_(storage) {}

  /// [tokens, dim].
  Numbers run() const {
    Numbers const ones(std::size_t(s_.dim), 1.0), zeros(std::size_t(s_.dim), 0.0);
    Numbers x = in_.x;
    Numbers h = add_and_norm(x, {}, zeros, ones, modulation(1), modulation(0));
    x = add(x, self_attention(h), w_.out_bias, modulation(2), h, w_.cross_norm_scale, w_.cross_norm_shift);
    x = add(x, cross_attention(h), w_.cross_out_bias, ones, h, modulation(4), modulation(3));
    return add(x, feed_forward(h), w_.down_bias, modulation(5), h, zeros, zeros);
  }

private:
  Numbers stored(Numbers values) const {
    if (storage_ == Storage::bf16)
      for (double& x : values) x = round(x);
    return values;
  }
  static double round(double x) { return double(__bfloat162float(__float2bfloat16(float(x)))); }

  Numbers modulation(std::int64_t which) const {
    Numbers sum;
    for (std::int64_t i = which * s_.dim; i < (which + 1) * s_.dim; ++i)
      sum.push_back(w_.modulation[std::size_t(i)] + in_.time[std::size_t(i)]);
    return sum;
  }

  /// The norm of x + gate * (y + bias), modulated; x becomes the sum, stored.
  Numbers add_and_norm(Numbers& x, Numbers const& y, Numbers const& bias, Numbers const& gate,
                       Numbers const& scale, Numbers const& shift) const {
    Numbers normed(x.size());
    auto const dim = std::size_t(s_.dim);
    for (std::size_t row = 0; row < x.size(); row += dim) {
      double mean = 0, variance = 0;
      for (std::size_t c = 0; c < dim; ++c) {
        if (!y.empty()) x[row + c] += gate[c] * (y[row + c] + bias[c]);
        mean += x[row + c] / double(dim);
      }
      for (std::size_t c = 0; c < dim; ++c) variance += std::pow(x[row + c] - mean, 2) / double(dim);
      for (std::size_t c = 0; c < dim; ++c)
        normed[row + c] =
            (x[row + c] - mean) / std::sqrt(variance + norm_epsilon) * (1 + scale[c]) + shift[c];
    }
    x = stored(x);
    return stored(normed);
  }
  Numbers add(Numbers x, Numbers const& y, Numbers const& bias, Numbers const& gate, Numbers& h,
              Numbers const& scale, Numbers const& shift) const {
    h = add_and_norm(x, y, bias, gate, scale, shift);
    return x;
  }

  Numbers product(Numbers const& a, Numbers const& b, std::int64_t columns, std::int64_t inner) const {
    std::int64_t const rows = std::int64_t(a.size()) / inner;
    Numbers out(std::size_t(rows * columns));
    for (std::int64_t row = 0; row < rows; ++row)
      for (std::int64_t i = 0; i < inner; ++i)
        for (std::int64_t c = 0; c < columns; ++c)
          out[std::size_t(row * columns + c)] +=
              a[std::size_t(row * inner + i)] * b[std::size_t(i * columns + c)];
    return stored(out);
  }

  /// Columns [first, first + dim) of a matrix.
  Numbers part(Numbers const& matrix, std::int64_t columns, std::int64_t first) const {
    Numbers out;
    for (std::int64_t row = 0; row < std::int64_t(matrix.size()) / columns; ++row)
      out.insert(out.end(), matrix.begin() + row * columns + first,
                 matrix.begin() + row * columns + first + s_.dim);
    return out;
  }

  Numbers rms_norm(Numbers x, Numbers const& bias, Numbers const& weight,
                   std::vector<Turn> const& turns) const {
    auto const dim = std::size_t(s_.dim), head_dim = std::size_t(s_.head_dim);
    for (std::size_t row = 0; row < x.size() / dim; ++row) {
      double* const at = &x[row * dim];
      double square = 0;
      for (std::size_t c = 0; c < dim; ++c) at[c] += bias[c], square += at[c] * at[c] / double(dim);
      for (std::size_t c = 0; c < dim; ++c) at[c] *= weight[c] / std::sqrt(square + norm_epsilon);
      for (std::size_t c = 0; c < dim && !turns.empty(); c += 2) {
        Turn const turn = turns[(row * head_dim + c % head_dim) / 2];
        double const real = at[c], imaginary = at[c + 1];
        at[c] = real * double(turn.cosine) - imaginary * double(turn.sine);
        at[c + 1] = real * double(turn.sine) + imaginary * double(turn.cosine);
      }
    }
    return stored(x);
  }

  bool keeps(std::int64_t head, std::int64_t query, std::int64_t key) const {
    if (in_.mask.empty()) return true;
    sparge::AttentionProblem const p = s_.self_attention();
    sparge::MaskView const mask{in_.mask.data(), in_.mask.size()};
    return sparge::reference::keeps(sparge::reference::mask_row(p, mask, 0, head, query / p.q_block),
                                    key / p.kv_block);
  }

  /// Keeps(head, query, key) says which keys a query sees.
  template <class Keeps>
  Numbers attention(Numbers const& q, Numbers const& k, Numbers const& v, Keeps const& keeps) const {
    std::int64_t const dim = s_.dim, queries = std::int64_t(q.size()) / dim,
                       keys = std::int64_t(k.size()) / dim;
    Numbers out(q.size()), logits(static_cast<std::size_t>(keys));
    for (std::int64_t head = 0; head < s_.heads(); ++head)
      for (std::int64_t query = 0; query < queries; ++query) {
        double const* const at = &q[std::size_t(query * dim + head * s_.head_dim)];
        for (std::int64_t key = 0; key < keys; ++key) {
          double const* const other = &k[std::size_t(key * dim + head * s_.head_dim)];
          double sum = 0;
          for (std::int64_t c = 0; c < s_.head_dim; ++c) sum += at[c] * other[c];
          logits[std::size_t(key)] =
              keeps(head, query, key) ? sum / std::sqrt(double(s_.head_dim)) : -INFINITY;
        }
        add_values(logits, &v[std::size_t(head * s_.head_dim)],
                   &out[std::size_t(query * dim + head * s_.head_dim)]);
      }
    return stored(out);
  }

  /// out = softmax(logits) v of one query and head.
  void add_values(Numbers const& logits, double const* v, double* out) const {
    double const most = *std::max_element(logits.begin(), logits.end());
    double sum = 0;
    for (double logit : logits) sum += std::exp(logit - most);
    for (std::size_t key = 0; key < logits.size(); ++key) {
      double const p = std::exp(logits[key] - most), share = storage_ == Storage::bf16 ? round(p) : p;
      for (std::int64_t c = 0; c < s_.head_dim; ++c)
        out[c] += share / sum * v[std::int64_t(key) * s_.dim + c];
    }
  }

  Numbers self_attention(Numbers const& h) const {
    Numbers const qkv = product(h, w_.qkv, 3 * s_.dim, s_.dim);
    std::vector<Turn> const turns = make_turns(s_);
    Numbers const q = rms_norm(part(qkv, 3 * s_.dim, 0), w_.q_bias, w_.q_norm, turns);
    Numbers const k = rms_norm(part(qkv, 3 * s_.dim, s_.dim), w_.k_bias, w_.k_norm, turns);
    Numbers const heads =
        attention(q, k, part(qkv, 3 * s_.dim, 2 * s_.dim), [&](auto... where) { return keeps(where...); });
    return product(heads, w_.out, s_.dim, s_.dim);
  }

  Numbers cross_attention(Numbers const& h) const {
    Numbers const q = rms_norm(product(h, w_.cross_q, s_.dim, s_.dim), w_.cross_q_bias, w_.cross_q_norm, {});
    Numbers const kv = product(in_.text, w_.cross_kv, 2 * s_.dim, s_.dim);
    Numbers const k = rms_norm(part(kv, 2 * s_.dim, 0), w_.cross_k_bias, w_.cross_k_norm, {});
    Numbers const heads = attention(q, k, part(kv, 2 * s_.dim, s_.dim), [](auto...) { return true; });
    return product(heads, w_.cross_out, s_.dim, s_.dim);
  }

  Numbers feed_forward(Numbers const& h) const {
    Numbers wide = product(h, w_.up, s_.ffn, s_.dim);
    for (std::size_t i = 0; i < wide.size(); ++i) {
      double const x = wide[i] + w_.up_bias[i % std::size_t(s_.ffn)];
      wide[i] = x / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    }
    return product(stored(wide), w_.down, s_.dim, s_.ffn);
  }

  Shape s_;
  HostWeights const& w_;
  HostInputs const& in_;
  Storage storage_;
};

/// |a - b| / |b - without|, Euclidean: against what the layer adds to its input, which a wrong layer would otherwise hide behind.
inline double relative_error(Numbers const& a, Numbers const& b, Numbers const& without) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    difference += std::pow(a[i] - b[i], 2);
    size += std::pow(b[i] - without[i], 2);
  }
  return std::sqrt(difference / size);
}

}  // namespace engine
