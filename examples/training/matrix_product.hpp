#pragma once
/// Products of row-major bf16 matrices by cuBLAS, summed in f32.

#include <cublas_v2.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "sparge/core/element.hpp"
#include "support/device_array.hpp"

namespace training {

inline void check_cublas(cublasStatus_t status) {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw std::runtime_error(std::string("cuBLAS: ") + cublasGetStatusString(status));
}

/// A matrix as it lies in memory, and whether the product reads it turned over.
struct Factor {
  sparge::bfloat16 const* data;
  bool is_transposed = false;
};

class MatrixProduct {
public:
  static constexpr std::size_t scratch_bytes = std::size_t{32} << 20;  // what NVIDIA recommends for Hopper

  /// On one stream, with scratch of its own, so that a product allocates nothing and may be captured into a graph.
  explicit MatrixProduct(cudaStream_t stream) : own_(scratch_bytes) { start(stream, own_.data()); }
  /// With the caller's scratch instead: `scratch_bytes`, 256-byte aligned.
  MatrixProduct(cudaStream_t stream, void* scratch) : own_(0) { start(stream, scratch); }
  ~MatrixProduct() { cublasDestroy(handle_); }
  MatrixProduct(MatrixProduct const&) = delete;
  MatrixProduct& operator=(MatrixProduct const&) = delete;

  /// out [rows, columns] = a [rows, inner] b [inner, columns], where a factor that is transposed lies in memory with its
  /// axes exchanged. `out` is bf16, or f32 for gradients of weights.
  template <class Out>
  void operator()(Factor a, Factor b, Out* out, std::int64_t rows, std::int64_t columns, std::int64_t inner) {
    constexpr bool is_f32 = std::is_same_v<Out, float>;
    static_assert(is_f32 || std::is_same_v<Out, sparge::bfloat16>);
    float const one = 1, zero = 0;
    // cuBLAS is column-major: there, a row-major matrix is its transpose, and out^T = b^T a^T.
    check_cublas(cublasGemmEx(handle_, operation(b), operation(a), int(columns), int(rows), int(inner), &one,
                              b.data, CUDA_R_16BF, int(b.is_transposed ? inner : columns), a.data,
                              CUDA_R_16BF, int(a.is_transposed ? rows : inner), &zero, out,
                              is_f32 ? CUDA_R_32F : CUDA_R_16BF, int(columns), CUBLAS_COMPUTE_32F,
                              CUBLAS_GEMM_DEFAULT));
  }

private:
  void start(cudaStream_t stream, void* scratch) {
    check_cublas(cublasCreate(&handle_));
    check_cublas(cublasSetStream(handle_, stream));  // before the scratch, which it would take away
    check_cublas(cublasSetWorkspace(handle_, scratch, scratch_bytes));
  }
  static cublasOperation_t operation(Factor f) { return f.is_transposed ? CUBLAS_OP_T : CUBLAS_OP_N; }

  demo::DeviceArray<std::byte> own_;
  cublasHandle_t handle_ = nullptr;
};

}  // namespace training
