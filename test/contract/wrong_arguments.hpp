#pragma once
/// Ways to spoil one argument of a public call, and what the call must say. Tables of these run on imagined addresses
/// without a GPU, and on real memory with one.

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "contract/refusal.hpp"
#include "sparge/sparge.hpp"

namespace sparge::test {

template <class Call>
struct WrongCall {
  std::string name;
  std::function<void(Call&)> spoil;
  Refusal refusal;
};

/// Rows for one kind of call, from a right one.
template <class Call>
class WrongCalls {
public:
  explicit WrongCalls(Call const& right) : right_(right) {}

  std::vector<WrongCall<Call>> const& rows() const { return rows_; }
  Call const& right() const { return right_; }

  void add(std::string name, Refusal refusal, std::function<void(Call&)> spoil) {
    rows_.push_back({std::move(name), std::move(spoil), refusal});
  }

  /// `reach(call)` is a pointer member. Null is refused unless the argument is optional.
  template <class Reach>
  void add_pointer(char const* field, Reach reach, std::int64_t alignment, bool optional = false) {
    if (!optional)
      add(field + std::string(" null"), invalid(field), [=](Call& call) { reach(call) = nullptr; });
    for (std::int64_t bytes : {1, 2, 4, 8, 16, 128}) {
      if (bytes % alignment == 0) continue;
      add(field + std::string(" misaligned by ") + std::to_string(bytes), invalid(field, bytes, alignment),
          [=](Call& call) { reach(call) = moved(reach(call), bytes); });
    }
  }

  /// `reach(call)` is a MaskBits.
  template <class Reach>
  void add_mask(char const* data, char const* words, Reach reach) {
    add_pointer(
        data, [=](Call & call) -> auto& { return reach(call).data; }, 16);
    auto const count = static_cast<std::int64_t>(reach(right_).words);
    for (std::int64_t wrong : {count - 1, count + 1, std::int64_t{0}, 2 * count})
      add(words, not_the_plans(words, wrong, count),
          [=](Call& call) { reach(call).words = static_cast<std::size_t>(wrong); });
  }

  /// `reach(call)` is a TensorView; `unit` of its elements are 16 bytes.
  template <class Reach>
  void add_view(char const* data, char const* shape, char const* stride, Reach reach, std::int64_t unit = 8) {
    add_pointer(
        data, [=](Call & call) -> auto& { return reach(call).data; }, 16);
    add_shapes_and_strides(shape, stride, reach, unit);
  }

  /// The same for a view that may be null.
  template <class Reach>
  void add_misplaced_view(char const* data, char const* shape, char const* stride, Reach reach,
                          std::int64_t unit) {
    add_pointer(
        data, [=](Call & call) -> auto& { return reach(call).data; }, 16, true);
    add_shapes_and_strides(shape, stride, reach, unit);
  }

  template <class Reach>
  void add_shapes_and_strides(char const* shape, char const* stride, Reach reach, std::int64_t unit) {
    for (int axis = 0; axis < 4; ++axis) {
      std::int64_t const length = reach(right_).shape[axis];
      for (std::int64_t wrong : {length - 1, length + 1, -length})
        add(shape, not_the_plans_axis(shape, axis, wrong, length),
            [=](Call& call) { reach(call).shape[axis] = wrong; });
    }
    std::int64_t const too_far = std::numeric_limits<std::int64_t>::max() / 16 * 8;
    for (int axis = 0; axis < 3; ++axis) {
      std::int64_t const step = reach(right_).stride[axis];
      add_stride(stride, reach, axis, step + unit / 2,
                 {StatusCode::invalid_argument, stride, axis, step + unit / 2, unit});
      add_stride(stride, reach, axis, step + 1, {StatusCode::invalid_argument, stride, axis, step + 1, unit});
      add_stride(stride, reach, axis, -step, invalid_axis(stride, axis, -step));
      add_stride(stride, reach, axis, too_far, invalid_axis(stride, axis, too_far));
    }
    for (std::int64_t step : {0, 2, -1})
      add_stride(stride, reach, 3, step, {StatusCode::invalid_argument, stride, 3, step, 1});
  }

  /// Strides that make an output, contiguous [batch, heads, tokens, channels], write one element twice.
  template <class Reach>
  void add_overlapping_output(char const* stride, Reach reach) {
    std::int64_t const channels = reach(right_).shape[3], head = reach(right_).stride[1];
    for (int axis = 0; axis < 3; ++axis) add_stride(stride, reach, axis, 0, invalid(stride));
    add_stride(stride, reach, 1, channels, invalid(stride));
    add_stride(stride, reach, 2, channels / 2, invalid(stride));
    add_stride(stride, reach, 1, head - channels, invalid(stride));
    add_stride(stride, reach, 0, reach(right_).stride[0] - channels, invalid(stride));
  }

  /// Call has a plan with workspace_bytes, and a workspace.
  void add_workspace() {
    auto const need = static_cast<std::int64_t>(right_.plan.workspace_bytes);
    if (need == 0) return;
    for (std::int64_t given : {need - 1, std::int64_t{0}})
      add("workspace too small", {StatusCode::workspace_too_small, "workspace.bytes", -1, given, need},
          [=](Call& call) { call.workspace.bytes = static_cast<std::size_t>(given); });
    add_pointer(
        "workspace.data", [](Call & call) -> auto& { return call.workspace.data; }, 256);
  }

  /// An argument that has the address of an output.
  void add_alias(char const* field, std::function<void(Call&)> spoil) {
    add(field + std::string(" is another argument"), invalid(field), std::move(spoil));
  }

private:
  template <class T>
  static T* moved(T* data, std::int64_t bytes) {
    return reinterpret_cast<T*>(reinterpret_cast<std::uintptr_t>(data) + static_cast<std::uintptr_t>(bytes));
  }

  template <class Reach>
  void add_stride(char const* field, Reach reach, int axis, std::int64_t step, Refusal refusal) {
    add(field + std::string(" axis ") + std::to_string(axis) + " = " + std::to_string(step), refusal,
        [=](Call& call) { reach(call).stride[axis] = step; });
  }

  Call right_;
  std::vector<WrongCall<Call>> rows_;
};

/// Each row is refused in its words.
template <class Call>
void check_refusals(WrongCalls<Call> const& wrong, cudaStream_t stream = nullptr) {
  for (WrongCall<Call> const& row : wrong.rows()) {
    CAPTURE(row.name);
    Call call = wrong.right();
    row.spoil(call);
    check_refused(call.run(stream), row.refusal);
  }
}

}  // namespace sparge::test
