#pragma once
/// The values of a plan one after the other, without the padding between them, so that equal plans are equal bytes.

#include <cstring>
#include <type_traits>

#include "sparge/sparge.hpp"

namespace sparge::c_api {

// ---- Which values a plan has: a member that is not listed here does not compile ------------------------------------

template <class Use>
void each_value(AttentionProblem& p, Use& use) {
  auto& [batch, heads, kv_heads, q_tokens, kv_tokens, head_dim, q_block, kv_block, scale, order, q_offset,
         all_q_tokens] = p;
  use(batch, heads, kv_heads, q_tokens, kv_tokens, head_dim, q_block, kv_block, scale, order, q_offset,
      all_q_tokens);
}

template <class Use>
void each_value(DistillationProblem& p, Use& use) {
  auto& [samples, sample_elements] = p;
  use(samples, sample_elements);
}

template <class Plan, class Use>
void each_value(Plan& plan, Use& use) {
  auto& [problem, device, options, workspace_bytes] = plan;
  each_value(problem, use);
  use(device, options, workspace_bytes);
}

template <class Use>
void each_value(MaskFormPlan& plan, Use& use) {
  auto& [problem, device, options] = plan;
  each_value(problem, use);
  use(device, options);
}

template <class T, class Use>
void each_value(MergePlan<T>& plan, Use& use) {
  auto& [problem, device, options] = plan;
  each_value(problem, use);
  use(device, options);
}

template <class T, class Use>
void each_value(InterpolatePlan<T>& plan, Use& use) {
  auto& [problem, device, options] = plan;
  each_value(problem, use);
  use(device, options);
}

template <class T, class Use>
void each_value(ForwardPlan<T>& plan, Use& use) {
  auto& [problem, device, options, kernel, workspace_bytes] = plan;
  each_value(problem, use);
  use(device, options, kernel, workspace_bytes);
}

template <class T, class Use>
void each_value(BackwardPlan<T>& plan, Use& use) {
  auto& [problem, device, options, dkdv_kernel, dq_kernel, workspace_bytes] = plan;
  each_value(problem, use);
  use(device, options, dkdv_kernel, dq_kernel, workspace_bytes);
}

// ---- To bytes and back ---------------------------------------------------------------------------------------------

template <class Value>
inline constexpr bool has_no_padding =
    std::has_unique_object_representations_v<Value> || std::is_floating_point_v<Value>;

class ValueWriter {
public:
  explicit ValueWriter(unsigned char* to) : to_(to) {}

  template <class... Values>
  void operator()(Values const&... values) {
    static_assert((has_no_padding<Values> && ...));
    ((std::memcpy(to_, &values, sizeof values), to_ += sizeof values), ...);
  }

private:
  unsigned char* to_;
};

class ValueReader {
public:
  explicit ValueReader(unsigned char const* from) : from_(from) {}

  template <class... Values>
  void operator()(Values&... values) {
    ((std::memcpy(&values, from_, sizeof values), from_ += sizeof values), ...);
  }

private:
  unsigned char const* from_;
};

}  // namespace sparge::c_api
