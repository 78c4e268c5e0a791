#pragma once
/// Descriptors of tensors for the copy engine, encoded on the host by the driver.

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "sparge/core/element.hpp"
#include "sparge/core/pending_error.hpp"
#include "sparge/core/status.hpp"
#include "sparge/core/tensor_view.hpp"
#include "sparge/kernel/driver_function.cuh"
#include "sparge/plan/refuse.hpp"

namespace sparge {

/// A host thread that has not yet launched anything has no context, which the encoder needs: makes that of the current device
/// current, as a launch would.
inline bool make_context_current() noexcept {
  int device = 0;
  return cudaGetDevice(&device) == cudaSuccess && cudaSetDevice(device) == cudaSuccess;
}

/// Boxes of `box_tokens` tokens by 64 channels of one head, swizzled by 128 bytes; strides below `box_stride_limit_bytes`. Of a
/// view without elements, whose address and strides may be anything, no box is ever read: it is encoded as one row at
/// `placeholder`.
template <class T>
cudaError_t encode_tensor_map(TensorView<T> const& view, std::uint32_t box_tokens, void* placeholder,
                              CUtensorMap* map) noexcept {
  static auto const encode =
      find_driver_function<decltype(&cuTensorMapEncodeTiled)>("cuTensorMapEncodeTiled", 12000);
  if (encode == nullptr) return cudaErrorCallRequiresNewerDriver;
  constexpr int rank = 4;
  bool const is_empty = view.shape[0] == 0 || view.shape[2] == 0;
  cuuint64_t extent[rank], stride_bytes[rank - 1];
  for (int i = 0; i < rank; ++i) {  // innermost first
    int const axis = rank - 1 - i;
    extent[i] = is_empty && i > 0 ? 1 : static_cast<cuuint64_t>(view.shape[axis]);
    // The stride of a single element may be anything, the encoder's may not.
    if (i > 0)
      stride_bytes[i - 1] = extent[i] == 1 ? 16 : static_cast<cuuint64_t>(view.stride[axis]) * sizeof(T);
  }
  cuuint32_t const box[rank] = {64, box_tokens, 1, 1}, step[rank] = {1, 1, 1, 1};
  void* const data = is_empty ? placeholder : const_cast<std::remove_const_t<T>*>(view.data);
  constexpr CUtensorMapDataType type = std::is_same_v<std::remove_const_t<T>, bfloat16>
                                           ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                                           : CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
  auto const run = [&] {
    return encode(map, type, rank, data, extent, stride_bytes, box, step, CU_TENSOR_MAP_INTERLEAVE_NONE,
                  CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                  CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  };
  CUresult result = run();
  if (result == CUDA_ERROR_INVALID_CONTEXT && make_context_current()) result = run();
  return static_cast<cudaError_t>(result);  // the runtime gives errors of the driver the same numbers
}

/// Encodes the descriptors of a launch, up to the first that fails, and leaves no error behind.
class TensorMaps {
public:
  /// `placeholder`: memory of the call, for views without elements.
  explicit TensorMaps(void* placeholder) : placeholder_(placeholder) {}

  template <class T>
  void add(char const* field, TensorView<T> const& view, std::uint32_t box_tokens,
           CUtensorMap* map) noexcept {
    if (!status_.ok()) return;
    cudaError_t const error = encode_tensor_map(view, box_tokens, placeholder_, map);
    status_ = launch_result(field, pending_.take_back(error));
  }

  Status const& status() const { return status_; }

private:
  void* placeholder_;
  PendingError pending_;
  Status status_;
};

}  // namespace sparge
