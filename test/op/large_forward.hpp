#pragma once
/// forward() on tensors of gigabytes: filled on the device by a repeated pattern, so that the host knows every element
/// without holding them, and checked on chosen rows.

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "sparge/sparge.hpp"
#include "support/attention_case.hpp"
#include "support/device_buffer.hpp"
#include "support/random.hpp"

namespace sparge::test {

/// Element e of a contiguous device tensor is pattern[e mod length]; the length is prime, so no power of two that an
/// index could lose is a whole number of periods.
template <class T>
class TiledTensor {
public:
  static constexpr std::int64_t period = 262147;

  TiledTensor(Shape const& shape, std::uint64_t seed)
      : shape_(shape), pattern_(period), buffer_(shape[0] * shape[1] * shape[2] * shape[3]) {
    Random random(seed);
    for (T& element : pattern_) element = reference::round_to<T>(static_cast<float>(random.gaussian()));
    std::int64_t filled = std::min(period, buffer_.size());
    buffer_.upload({pattern_.begin(), pattern_.begin() + filled});
    while (filled < buffer_.size()) {
      std::int64_t const more = std::min(filled, buffer_.size() - filled);
      CHECK_CUDA(cudaMemcpy(buffer_.data() + filled, buffer_.data(),
                            static_cast<std::size_t>(more) * sizeof(T), cudaMemcpyDeviceToDevice));
      filled += more;
    }
    CHECK_CUDA(cudaDeviceSynchronize());
  }

  TensorView<T> view() const {
    return contiguous_bhnd(buffer_.data(), shape_[0], shape_[1], shape_[2], shape_[3]);
  }

  /// One head, on the host.
  HostTensor<T> head(std::int64_t b, std::int64_t h) const {
    HostTensor<T> one({1, 1, shape_[2], shape_[3]});
    std::int64_t const count = shape_[2] * shape_[3], first = (b * shape_[1] + h) * count;
    for (std::int64_t done = 0; done < count;) {
      std::int64_t const at = (first + done) % period, run = std::min(period - at, count - done);
      std::copy_n(pattern_.begin() + at, run, one.storage().begin() + done);
      done += run;
    }
    return one;
  }

private:
  Shape shape_;
  std::vector<T> pattern_;
  DeviceBuffer<T> buffer_;
};

/// About one bit in sixteen, in whole words at once.
inline MaskWords sixteenth_mask(AttentionProblem const& p, std::uint64_t seed) {
  Random random(seed);
  MaskWords words(reference::mask_words(p));
  for (std::uint32_t& word : words) {
    std::uint64_t const a = random.next() & random.next();
    word = static_cast<std::uint32_t>(a & a >> 32);
  }
  return words;
}

template <class T>
class LargeForward {
public:
  LargeForward(AttentionProblem const& p, MaskWords mask)
      : p_(p),
        host_mask_(std::move(mask)),
        q_(q_shape(p), 1),
        k_(kv_shape(p), 2),
        v_(kv_shape(p), 3),
        mask_(host_mask_),
        out_(p.batch * p.heads * p.q_tokens * p.head_dim),
        lse_(p.batch * p.heads * p.q_tokens) {
    ForwardPlan<T> plan;
    must(plan_forward(p, test_device(), {}, &plan));
    ScratchBuffer const scratch(plan.workspace_bytes);
    ForwardArgs<T> const args{q_.view(),
                              k_.view(),
                              v_.view(),
                              {mask_.data(), static_cast<std::size_t>(mask_.size())},
                              contiguous_bhnd(out_.data(), p.batch, p.heads, p.q_tokens, p.head_dim),
                              lse_.data()};
    Stream const stream;
    must(forward(plan, args, scratch.workspace(), stream));
    stream.wait();
  }

  /// The first and last rows of the first and last heads, and `count` random rows of each of them and two more heads.
  void check(std::int64_t count) const {
    Random random(99);
    std::vector<std::pair<std::int64_t, std::int64_t>> heads{{0, 0}, {p_.batch - 1, p_.heads - 1}};
    for (int i = 0; i < 2; ++i) heads.push_back({random.below(p_.batch), random.below(p_.heads)});
    for (auto const& [b, h] : heads) {
      std::vector<std::int64_t> tokens{0, p_.q_tokens - 1};
      for (std::int64_t i = 0; i < count; ++i) tokens.push_back(random.below(p_.q_tokens));
      check_head(b, h, tokens);
    }
  }

private:
  void check_head(std::int64_t b, std::int64_t h, std::vector<std::int64_t> const& tokens) const {
    CAPTURE(p_.batch, p_.heads, p_.q_tokens, p_.kv_tokens, p_.head_dim, b, h);
    AttentionProblem one = p_;
    one.batch = one.heads = one.kv_heads = 1;
    auto const words = static_cast<std::ptrdiff_t>(reference::mask_words(one));
    auto const first_word = host_mask_.begin() + (b * p_.heads + h) * words;
    std::int64_t const kv_head = h / (p_.heads / p_.kv_heads);
    ForwardInputs<T> const inputs{one, q_.head(b, h), k_.head(b, kv_head), v_.head(b, kv_head),
                                  MaskWords(first_word, first_word + words)};
    std::vector<reference::QueryRow> rows;
    for (std::int64_t token : tokens) rows.push_back({0, 0, token});
    ForwardTruth const truth = truth_of(inputs, rows);
    std::vector<double> out, lse;
    for (std::int64_t token : tokens) {
      std::int64_t const row = (b * p_.heads + h) * p_.q_tokens + token;
      for (T x : out_.download(row * p_.head_dim, p_.head_dim)) out.push_back(reference::to_double(x));
      lse.push_back(lse_.download(row, 1)[0]);
    }
    CHECK(compare<T>(out, truth.exact.out, truth.naive.out));
    CHECK(compare<float>(lse, truth.exact.lse, truth.naive.lse, 1e-6));
  }

  AttentionProblem p_;
  MaskWords host_mask_;
  TiledTensor<T> q_, k_, v_;
  DeviceBuffer<std::uint32_t> mask_;
  DeviceBuffer<T> out_;
  DeviceBuffer<float> lse_;
};

}  // namespace sparge::test
