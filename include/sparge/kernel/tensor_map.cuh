#pragma once
/// Descriptors of tensors for the copy engine, encoded on the host by the driver.

#include <cuda.h>
#include <cudaTypedefs.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "sparge/core/element.hpp"
#include "sparge/core/tensor_view.hpp"

namespace sparge {

/// The driver's encoder, found at run time so that nothing links libcuda.
class TensorMapEncoder {
public:
  /// cudaErrorNotSupported where the driver has none.
  cudaError_t find() noexcept {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult found{};
    cudaError_t const error = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000,
                                                               cudaEnableDefault, &found);
    if (error != cudaSuccess) return error;
    if (found != cudaDriverEntryPointSuccess) return cudaErrorNotSupported;
    encode_ = reinterpret_cast<PFN_cuTensorMapEncodeTiled_v12000>(function);
    return cudaSuccess;
  }

  /// Boxes of `box_tokens` tokens by 64 channels of one head, swizzled by 128 bytes. Axes of no elements count as one, and
  /// `placeholder` stands for a null pointer: no box of such a tensor is ever read.
  template <class T>
  cudaError_t encode(TensorView<T> const& view, std::uint32_t box_tokens, void* placeholder,
                     CUtensorMap* map) const noexcept {
    constexpr int rank = 4;
    constexpr int axes[rank] = {3, 2, 1, 0};  // of the view, innermost first
    cuuint64_t extent[rank], stride_bytes[rank - 1];
    for (int i = 0; i < rank; ++i)
      extent[i] = static_cast<cuuint64_t>(std::max<std::int64_t>(view.shape[axes[i]], 1));
    for (int i = 1; i < rank; ++i)  // the stride of a single element may be anything, the encoder's may not
      stride_bytes[i - 1] = extent[i] == 1 ? 16 : static_cast<cuuint64_t>(view.stride[axes[i]]) * sizeof(T);
    cuuint32_t const box[rank] = {64, box_tokens, 1, 1}, step[rank] = {1, 1, 1, 1};
    bool const is_empty = view.shape[0] == 0 || view.shape[2] == 0;
    void* const data = is_empty ? placeholder : const_cast<std::remove_const_t<T>*>(view.data);
    constexpr CUtensorMapDataType type = std::is_same_v<std::remove_const_t<T>, bfloat16>
                                             ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                                             : CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
    CUresult const result = encode_(map, type, rank, data, extent, stride_bytes, box, step,
                                    CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                    CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
  }

private:
  PFN_cuTensorMapEncodeTiled_v12000 encode_ = nullptr;
};

}  // namespace sparge
