/// Block-sparse attention in one function: plans, memory, mask, forward. Values of 1 make the result known: weights sum to 1.

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <vector>

#include "sparge/throwing.hpp"

using sparge::bfloat16;

struct Free {
  void operator()(void* data) const { cudaFree(data); }
};

std::unique_ptr<void, Free> device_memory(std::size_t bytes) {
  void* data = nullptr;
  cudaError_t const error = bytes > 0 ? cudaMalloc(&data, bytes) : cudaSuccess;
  if (error != cudaSuccess) throw std::runtime_error(cudaGetErrorString(error));
  return std::unique_ptr<void, Free>(data);
}

/// out = softmax(q k^T / sqrt(head_dim)) v over the key blocks that the mask keeps; throws what a Status refuses.
void attend(sparge::AttentionProblem const& problem, sparge::TensorView<bfloat16> q,
            sparge::TensorView<bfloat16> k, sparge::TensorView<bfloat16> v, sparge::TensorView<bfloat16> out,
            cudaStream_t stream) {
  sparge::Device device;
  sparge::BuildMaskPlan<bfloat16> mask_plan;
  sparge::ForwardPlan<bfloat16> plan;
  std::size_t words = 0;
  sparge::check(sparge::query_device(0, &device));
  sparge::check(sparge::plan_build_mask(problem, device, {}, &mask_plan));
  sparge::check(sparge::plan_forward(problem, device, {}, &plan));
  sparge::check(sparge::mask_words(problem, &words));

  std::size_t const bytes = std::max(mask_plan.workspace_bytes, plan.workspace_bytes);
  auto const mask_memory = device_memory(words * sizeof(std::uint32_t)), scratch = device_memory(bytes);
  sparge::MaskOut const mask{static_cast<std::uint32_t*>(mask_memory.get()), words};
  sparge::Workspace const workspace{scratch.get(), bytes};

  sparge::MaskRule rule;
  rule.top_k = 0.03;  // at least 3 % of the key blocks,
  rule.top_p = 0.20;  // and at least 20 % of the pooled softmax mass
  sparge::check(sparge::build_mask<bfloat16>(mask_plan, {q, k, rule, mask}, workspace, stream));
  sparge::check(sparge::forward<bfloat16>(plan, {q, k, v, mask, out}, workspace, stream));
}

int main() try {
  sparge::AttentionProblem const problem{1,     12,    12,
                                         32760, 32760, 128};  // batch, heads, kv_heads, tokens, head_dim
  std::size_t const count = 12 * 32760 * 128, bytes = count * sizeof(bfloat16);
  std::vector<bfloat16> values(count, __float2bfloat16(1.0f));
  auto const ones = device_memory(bytes), result = device_memory(bytes);
  cudaMemcpy(ones.get(), values.data(), bytes, cudaMemcpyHostToDevice);
  auto const view = [](void* data) {
    return sparge::contiguous_bhnd(static_cast<bfloat16*>(data), 1, 12, 32760, 128);
  };
  attend(problem, view(ones.get()), view(ones.get()), view(ones.get()), view(result.get()), nullptr);
  if (cudaMemcpy(values.data(), result.get(), bytes, cudaMemcpyDeviceToHost) != cudaSuccess)
    throw std::runtime_error("the GPU reports an error");
  bool const right =
      std::all_of(values.begin(), values.end(), [](bfloat16 x) { return __bfloat162float(x) == 1; });
  std::puts(right ? "every output is 1, as it must be" : "WRONG: an output is not 1");
  return right ? 0 : 1;
} catch (std::exception const& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
