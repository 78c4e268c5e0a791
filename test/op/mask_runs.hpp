#pragma once
/// The mask calls as functions of host data: each makes its plan, device memory and stream, poisoned and guarded.

#include <cstdint>
#include <optional>
#include <vector>

#include "sparge/reference/mask.hpp"
#include "sparge/sparge.hpp"
#include "support/device_buffer.hpp"
#include "support/device_tensor.hpp"
#include "support/gpu.hpp"
#include "support/random.hpp"

namespace sparge::test {

/// Pooled vectors that no pooling made: any values, any number of blocks.
struct PooledInputs {
  AttentionProblem problem;
  HostTensor<float> q, k;

  explicit PooledInputs(AttentionProblem const& p)
      : problem(p),
        q({p.batch, p.heads, p.q_blocks(), p.head_dim}),
        k({p.batch, p.kv_heads, p.kv_blocks(), p.head_dim}) {}
};

enum class PooledKind { gaussian, clustered, common_offset, heavy_tailed, constant, ties };

inline PooledInputs make_pooled(AttentionProblem const& p, PooledKind kind, std::uint64_t seed = 1) {
  PooledInputs x(p);
  Random random(seed);
  switch (kind) {
    case PooledKind::gaussian:
      fill_gaussian(x.q, random), fill_gaussian(x.k, random);
      break;
    case PooledKind::clustered:
      fill_clustered(x.q, x.k, random, 4);
      break;
    case PooledKind::common_offset:
      fill_common_offset(x.q, random), fill_common_offset(x.k, random, 3000);
      break;
    case PooledKind::heavy_tailed:
      fill_heavy_tailed(x.q, random), fill_heavy_tailed(x.k, random);
      break;
    case PooledKind::constant:
      fill_constant(x.q, 3), fill_constant(x.k, 1000);
      break;
    case PooledKind::ties:  // small integers: every sum is exact, and most scores occur several times
      fill(x.q, [&](auto...) { return static_cast<double>(random.below(3)) - 1; });
      fill(x.k, [&](auto, auto, auto, auto c) { return c < 2 ? static_cast<double>(random.below(3)) : 0.0; });
      break;
  }
  return x;
}

/// A rule whose per-head shares, host arrays in the tests, are copied to the device.
class DeviceRule {
public:
  DeviceRule(MaskRule const& host, std::int64_t heads) : rule_(host) {
    if (host.top_k_of_head) rule_.top_k_of_head = copy(top_k_, host.top_k_of_head, heads);
    if (host.top_p_of_head) rule_.top_p_of_head = copy(top_p_, host.top_p_of_head, heads);
  }
  MaskRule const& rule() const { return rule_; }

private:
  static float const* copy(std::optional<DeviceBuffer<float>>& buffer, float const* host,
                           std::int64_t heads) {
    buffer.emplace(std::vector<float>(host, host + heads));
    return buffer->data();
  }

  MaskRule rule_;
  std::optional<DeviceBuffer<float>> top_k_, top_p_;
};

/// Mask bits on the device.
class DeviceMask {
public:
  explicit DeviceMask(std::size_t words) : buffer_(static_cast<std::int64_t>(words)) {}
  explicit DeviceMask(MaskWords const& words) : buffer_(words) {}

  MaskOut bits() const { return {buffer_.data(), static_cast<std::size_t>(buffer_.size())}; }
  MaskWords download() const { return buffer_.download(); }

private:
  DeviceBuffer<std::uint32_t> buffer_;
};

inline std::size_t words_of(AttentionProblem const& p) {
  std::size_t words = 0;
  must(mask_words(p, &words));
  return words;
}

inline MaskWords run_select(PooledInputs const& x, MaskRule const& rule, Device const& device) {
  SelectPlan plan;
  must(plan_select_blocks(x.problem, device, {}, &plan));
  DeviceBuffer<float> const q(x.q.storage()), k(x.k.storage());
  DeviceRule const on_device(rule, x.problem.heads);
  DeviceMask const mask(words_of(x.problem));
  ScratchBuffer const scratch(plan.workspace_bytes);
  Stream const stream;
  must(select_blocks(plan, {q.data(), k.data(), on_device.rule(), mask.bits()}, scratch.workspace(), stream));
  stream.wait();
  return mask.download();
}

inline MaskWords run_select(PooledInputs const& x, MaskRule const& rule) {
  return run_select(x, rule, test_device());
}

/// Pools q and k. Any strides.
template <class T>
PooledInputs run_pool(AttentionProblem const& p, TensorView<T const> q, TensorView<T const> k) {
  PoolPlan<T> plan;
  must(plan_pool(p, test_device(), {}, &plan));
  PooledInputs pooled(p);
  DeviceBuffer<float> const pooled_q(static_cast<std::int64_t>(pooled.q.storage().size()));
  DeviceBuffer<float> const pooled_k(static_cast<std::int64_t>(pooled.k.storage().size()));
  Stream const stream;
  must(pool(plan, {q, k, pooled_q.data(), pooled_k.data()}, {}, stream));
  stream.wait();
  pooled.q.storage() = pooled_q.download();
  pooled.k.storage() = pooled_k.download();
  return pooled;
}

template <class T>
PooledInputs run_pool(AttentionProblem const& p, HostTensor<T> const& q, HostTensor<T> const& k) {
  DeviceTensor<T> const on_q(q), on_k(k);
  return run_pool<T>(p, on_q.view(), on_k.view());
}

template <class T>
MaskWords run_build_mask(AttentionProblem const& p, HostTensor<T> const& q, HostTensor<T> const& k,
                         MaskRule const& rule) {
  BuildMaskPlan<T> plan;
  must(plan_build_mask(p, test_device(), {}, &plan));
  DeviceTensor<T> const on_q(q), on_k(k);
  DeviceRule const on_device(rule, p.heads);
  DeviceMask const mask(words_of(p));
  ScratchBuffer const scratch(plan.workspace_bytes);
  Stream const stream;
  must(build_mask(plan, {on_q.view(), on_k.view(), on_device.rule(), mask.bits()}, scratch.workspace(),
                  stream));
  stream.wait();
  return mask.download();
}

inline std::vector<MaskStats> run_stats(PooledInputs const& x, MaskRule const& rule, MaskWords const& words) {
  MaskStatsPlan plan;
  must(plan_mask_stats(x.problem, test_device(), {}, &plan));
  DeviceBuffer<float> const q(x.q.storage()), k(x.k.storage());
  DeviceRule const on_device(rule, x.problem.heads);
  DeviceMask const mask(words);
  DeviceBuffer<MaskStats> const stats(x.problem.batch * x.problem.heads);
  ScratchBuffer const scratch(plan.workspace_bytes);
  Stream const stream;
  must(mask_stats(plan, {q.data(), k.data(), on_device.rule(), mask.bits(), stats.data()},
                  scratch.workspace(), stream));
  stream.wait();
  return stats.download();
}

inline MaskFormPlan form_plan(AttentionProblem const& p) {
  MaskFormPlan plan;
  must(plan_mask_form(p, test_device(), {}, &plan));
  return plan;
}

inline MaskWords run_transpose(AttentionProblem const& p, MaskWords const& words) {
  std::size_t transposed_words = 0;
  must(transposed_mask_words(p, &transposed_words));
  DeviceMask const mask(words), transposed(transposed_words);
  Stream const stream;
  must(transpose_mask(form_plan(p), mask.bits(), transposed.bits(), stream));
  stream.wait();
  return transposed.download();
}

inline MaskWords run_slice(AttentionProblem const& p, MaskWords const& words, BlockRange q, BlockRange kv) {
  DeviceMask const mask(words),
      shard(static_cast<std::size_t>(p.batch * p.heads * q.count * ((kv.count + 31) / 32)));
  Stream const stream;
  must(slice_mask(form_plan(p), mask.bits(), q, kv, shard.bits(), stream));
  stream.wait();
  return shard.download();
}

inline std::vector<std::uint8_t> run_to_bytes(AttentionProblem const& p, MaskWords const& words,
                                              std::size_t offset_bytes = 0) {
  DeviceMask const mask(words);
  DeviceBuffer<std::uint8_t> const bytes(p.batch * p.heads * p.q_blocks() * p.kv_blocks(), offset_bytes);
  Stream const stream;
  must(mask_to_bytes(form_plan(p), mask.bits(), {bytes.data(), bytes.bytes()}, stream));
  stream.wait();
  return bytes.download();
}

inline MaskWords run_from_bytes(AttentionProblem const& p, std::vector<std::uint8_t> const& host,
                                std::size_t offset_bytes = 0) {
  DeviceBuffer<std::uint8_t> const bytes(host, offset_bytes);
  DeviceMask const mask(words_of(p));
  Stream const stream;
  must(mask_from_bytes(form_plan(p), {bytes.data(), bytes.bytes()}, mask.bits(), stream));
  stream.wait();
  return mask.download();
}

struct HostLists {
  std::vector<std::int32_t> counts, indices;
  std::int64_t capacity = 0;
};

inline HostLists run_to_lists(AttentionProblem const& p, MaskWords const& words, std::int64_t capacity) {
  std::int64_t const rows = p.batch * p.heads * p.q_blocks();
  DeviceMask const mask(words);
  DeviceBuffer<std::int32_t> const counts(rows), indices(rows * capacity);
  Stream const stream;
  must(mask_to_lists(form_plan(p), mask.bits(), {counts.data(), indices.data(), capacity}, stream));
  stream.wait();
  return {counts.download(), indices.download(), capacity};
}

inline MaskWords run_from_lists(AttentionProblem const& p, HostLists const& lists) {
  DeviceBuffer<std::int32_t> const counts(lists.counts), indices(lists.indices);
  DeviceMask const mask(words_of(p));
  Stream const stream;
  must(mask_from_lists(form_plan(p), {counts.data(), indices.data(), lists.capacity}, mask.bits(), stream));
  stream.wait();
  return mask.download();
}

// ---- Reading results -----------------------------------------------------------------------------------------------

inline std::vector<bool> row_bits(AttentionProblem const& p, MaskWords const& words, std::int64_t row) {
  std::vector<bool> bits;
  for (std::int64_t j = 0; j < p.kv_blocks(); ++j)
    bits.push_back(reference::keeps(words.data() + row * p.row_words(), j));
  return bits;
}

inline std::int64_t mask_rows(AttentionProblem const& p) { return p.batch * p.heads * p.q_blocks(); }

inline std::int64_t count_row(AttentionProblem const& p, MaskWords const& words, std::int64_t row) {
  std::int64_t count = 0;
  for (bool bit : row_bits(p, words, row)) count += bit;
  return count;
}

/// Whether every row keeps exactly `count` blocks.
inline bool every_row_keeps(AttentionProblem const& p, MaskWords const& words, std::int64_t count) {
  for (std::int64_t row = 0; row < mask_rows(p); ++row)
    if (count_row(p, words, row) != count) return false;
  return true;
}

inline bool padding_is_zero(AttentionProblem const& p, MaskWords const& words) {
  std::int64_t const used = p.kv_blocks() % 32;
  if (used == 0) return true;
  for (std::size_t last = static_cast<std::size_t>(p.row_words() - 1); last < words.size();
       last += static_cast<std::size_t>(p.row_words()))
    if (words[last] >> used != 0) return false;
  return true;
}

inline MaskRule rule_of(double top_k, double top_p, std::int32_t min_blocks = 1) {
  MaskRule rule;
  rule.top_k = top_k, rule.top_p = top_p, rule.min_blocks = min_blocks;
  return rule;
}

}  // namespace sparge::test
