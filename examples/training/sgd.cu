#include "training/sgd.hpp"

namespace training {
namespace {

__global__ void descend_kernel(SgdArgs args) {
  std::int64_t const i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= args.count) return;
  float const momentum = momentum_decay * args.momentum[i] + args.grad[i];
  float const weight = args.weights[i] - *args.learning_rate * momentum;
  args.momentum[i] = momentum;
  args.weights[i] = weight;
  args.copy[i] = __float2bfloat16(weight);
}

}  // namespace

cudaError_t descend(SgdArgs const& args, cudaStream_t stream) {
  constexpr unsigned threads = 256;
  descend_kernel<<<unsigned((args.count + threads - 1) / threads), threads, 0, stream>>>(args);
  return cudaGetLastError();
}

}  // namespace training
