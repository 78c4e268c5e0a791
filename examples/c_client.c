/* A client in C99: plans attention forward and backward, prints the kernels that were chosen and what a refusal says, and runs
 * both on a small problem where there is a GPU. The library holds a CUDA runtime of its own; this program links one for its
 * memory. */

#include <cuda_runtime_api.h>
#include <stdio.h>

#include "sparge/sparge.h"

enum { heads = 2, tokens = 200, head_dim = 64, elements = heads * tokens * head_dim };

static sparge_problem make_problem(int32_t wanted_head_dim) {
  sparge_problem problem = {.struct_size = sizeof problem,
                            .batch = 1,
                            .heads = heads,
                            .kv_heads = heads,
                            .q_tokens = tokens,
                            .kv_tokens = tokens,
                            .head_dim = wanted_head_dim};
  return problem;
}

/* The GPU, or the numbers of one that is not here: plans need no more. */
static int find_device(sparge_device* device) {
  device->struct_size = sizeof *device;
  if (sparge_query_device(0, device, NULL) == SPARGE_OK) return 1;
  device->capability_major = 9;
  device->sm_count = 132;
  device->shared_bytes_per_block = 227 * 1024;
  device->shared_bytes_per_sm = 228 * 1024;
  device->l2_bytes = 50 << 20;
  return 0;
}

/* Tensors on the device, one behind the other. */
enum { q, k, v, out, grad_q, grad_k, grad_v, tensors };

typedef struct {
  char* tensors;
  float* lse;
  sparge_mask mask;
  void* workspace;
} memory;

static sparge_tensor tensor_at(memory const* m, int index) {
  sparge_tensor tensor = {.data = m->tensors + index * elements * 2,
                          .shape = {1, heads, tokens, head_dim},
                          .stride = {elements, tokens * head_dim, head_dim, 1},
                          .dtype = SPARGE_BF16};
  return tensor;
}

/* q = 0, k = v = 1, and a mask that keeps everything. */
static int fill(memory const* m) {
  static uint16_t ones[elements];
  for (int i = 0; i < elements; ++i) ones[i] = 0x3F80; /* bf16 */
  return cudaMemset(tensor_at(m, q).data, 0, sizeof ones) == cudaSuccess &&
         cudaMemcpy(tensor_at(m, k).data, ones, sizeof ones, cudaMemcpyHostToDevice) == cudaSuccess &&
         cudaMemcpy(tensor_at(m, v).data, ones, sizeof ones, cudaMemcpyHostToDevice) == cudaSuccess &&
         cudaMemset(m->mask.data, 0xFF, m->mask.words * sizeof(uint32_t)) == cudaSuccess;
}

/* Whether all elements of a tensor are a number of bf16. */
static int all_are(memory const* m, int index, uint16_t number) {
  static uint16_t values[elements];
  if (cudaMemcpy(values, tensor_at(m, index).data, sizeof values, cudaMemcpyDeviceToHost) != cudaSuccess)
    return 0;
  for (int i = 0; i < elements; ++i)
    if (values[i] != number) return 0;
  return 1;
}

/* With q = 0 all keys weigh the same, and with v = 1 the result is 1 whatever the mask keeps, if it keeps anything. */
static int run_forward(sparge_plan const* plan, memory const* m, sparge_status* status) {
  sparge_forward_args args = {.struct_size = sizeof args,
                              .q = tensor_at(m, q),
                              .k = tensor_at(m, k),
                              .v = tensor_at(m, v),
                              .mask = m->mask,
                              .out = tensor_at(m, out),
                              .lse = m->lse};
  if (sparge_forward(plan, &args, m->workspace, plan->workspace_bytes, NULL, status) != SPARGE_OK) return 0;
  if (!all_are(m, out, 0x3F80)) return 0;
  printf("forward: all %d results are 1, as they must be\n", elements);
  return 1;
}

/* As all values are equal, no weight of a key matters to the result: for any grad_out, v here, that of the queries is 0. */
static int run_backward(sparge_plan const* plan, memory const* m, sparge_status* status) {
  sparge_backward_args args = {.struct_size = sizeof args,
                               .q = tensor_at(m, q),
                               .k = tensor_at(m, k),
                               .v = tensor_at(m, v),
                               .out = tensor_at(m, out),
                               .grad_out = tensor_at(m, v),
                               .lse = m->lse,
                               .mask = m->mask,
                               .grad_q = tensor_at(m, grad_q),
                               .grad_k = tensor_at(m, grad_k),
                               .grad_v = tensor_at(m, grad_v)};
  if (sparge_backward(plan, &args, m->workspace, plan->workspace_bytes, NULL, status) != SPARGE_OK) return 0;
  if (!all_are(m, grad_q, 0)) return 0;
  printf("backward: all %d gradients of the queries are 0, as they must be\n", elements);
  return 1;
}

static int run(sparge_plan const* forward, sparge_plan const* backward, size_t words, sparge_status* status) {
  memory m = {.mask = {.words = words}};
  size_t const scratch = forward->workspace_bytes + backward->workspace_bytes; /* enough for either */
  int const succeeded = cudaMalloc((void**)&m.tensors, tensors * elements * 2) == cudaSuccess &&
                        cudaMalloc((void**)&m.lse, heads * tokens * sizeof(float)) == cudaSuccess &&
                        cudaMalloc((void**)&m.mask.data, words * sizeof(uint32_t)) == cudaSuccess &&
                        cudaMalloc(&m.workspace, scratch) == cudaSuccess && fill(&m) &&
                        run_forward(forward, &m, status) && run_backward(backward, &m, status);
  if (!succeeded) printf("failed: %s\n", status->text);
  cudaFree(m.tensors);
  cudaFree(m.lse);
  cudaFree(m.mask.data);
  cudaFree(m.workspace);
  return succeeded;
}

int main(void) {
  sparge_status status = {.struct_size = sizeof status};
  sparge_device device = {.struct_size = sizeof device};
  sparge_plan forward = {.struct_size = sizeof forward}, backward = {.struct_size = sizeof backward};
  sparge_kernel kernel = {.struct_size = sizeof kernel}, dkdv = kernel, dq = kernel;
  sparge_problem const problem = make_problem(head_dim), unsupported = make_problem(96);
  int const has_gpu = find_device(&device);
  size_t words = 0;
  printf("sparge %s\n", sparge_version());
  if (sparge_plan_forward(&problem, SPARGE_BF16, &device, NULL, &forward, &status) != SPARGE_OK ||
      sparge_plan_backward(&problem, SPARGE_BF16, &device, NULL, &backward, &status) != SPARGE_OK ||
      sparge_supported_kernel(forward.kernel, &kernel, &status) != SPARGE_OK ||
      sparge_supported_backward_kernel(backward.kernel, &dkdv, &status) != SPARGE_OK ||
      sparge_supported_backward_kernel(backward.dq_kernel, &dq, &status) != SPARGE_OK ||
      sparge_mask_words(&problem, &words, &status) != SPARGE_OK) {
    printf("refused: %s\n", status.text);
    return 1;
  }
  printf("kernel %s, workspace %zu bytes, mask %zu words\n", kernel.name, forward.workspace_bytes, words);
  printf("kernels %s and %s, workspace %zu bytes\n", dkdv.name, dq.name, backward.workspace_bytes);

  sparge_plan plan = {.struct_size = sizeof plan};
  if (sparge_plan_forward(&unsupported, SPARGE_BF16, &device, NULL, &plan, &status) == SPARGE_OK) return 1;
  printf("refused: %s\n", status.text);
  if (!has_gpu) {
    printf("no GPU here, so nothing is run\n");
    return 0;
  }
  return run(&forward, &backward, words, &status) ? 0 : 1;
}
