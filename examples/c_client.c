/* A client in C99: plans attention, prints the kernel that was chosen and what a refusal says, and runs one small call where
 * there is a GPU. The library holds a CUDA runtime of its own; this program links one for its memory. */

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <string.h>

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

/* Everything on the device, in one allocation: q, k, v, out, then the mask. */
static sparge_tensor tensor_at(void* memory, int index) {
  sparge_tensor tensor = {.data = (char*)memory + index * elements * 2,
                          .shape = {1, heads, tokens, head_dim},
                          .stride = {elements, tokens * head_dim, head_dim, 1},
                          .dtype = SPARGE_BF16};
  return tensor;
}

/* With q = 0 all keys weigh the same, and with v = 1 the result is 1 whatever the mask keeps, if it keeps anything. */
static int run_forward(sparge_plan const* plan, size_t words, void* memory, sparge_status* status) {
  static uint16_t ones[elements], out[elements];
  uint16_t const one = 0x3F80; /* bf16 */
  sparge_forward_args args = {.struct_size = sizeof args,
                              .q = tensor_at(memory, 0),
                              .k = tensor_at(memory, 1),
                              .v = tensor_at(memory, 2),
                              .mask = {(uint32_t*)((char*)memory + 4 * elements * 2), words},
                              .out = tensor_at(memory, 3)};
  for (int i = 0; i < elements; ++i) ones[i] = one;
  if (cudaMemset(args.q.data, 0, sizeof out) != cudaSuccess ||
      cudaMemcpy(args.k.data, ones, sizeof ones, cudaMemcpyHostToDevice) != cudaSuccess ||
      cudaMemcpy(args.v.data, ones, sizeof ones, cudaMemcpyHostToDevice) != cudaSuccess ||
      cudaMemset(args.mask.data, 0xFF, words * sizeof(uint32_t)) != cudaSuccess)
    return 1;
  if (sparge_forward(plan, &args, NULL, 0, NULL, status) != SPARGE_OK) {
    printf("refused: %s\n", status->text);
    return 1;
  }
  if (cudaMemcpy(out, args.out.data, sizeof out, cudaMemcpyDeviceToHost) != cudaSuccess) return 1;
  if (memcmp(out, ones, sizeof out) != 0) return 1;
  printf("forward: all %d results are 1, as they must be\n", elements);
  return 0;
}

int main(void) {
  sparge_status status = {.struct_size = sizeof status};
  sparge_device device = {.struct_size = sizeof device};
  sparge_plan plan = {.struct_size = sizeof plan};
  sparge_kernel kernel = {.struct_size = sizeof kernel};
  sparge_problem const problem = make_problem(head_dim), unsupported = make_problem(96);
  int const has_gpu = find_device(&device);
  size_t words = 0;
  printf("sparge %s\n", sparge_version());
  if (sparge_plan_forward(&problem, SPARGE_BF16, &device, NULL, &plan, &status) != SPARGE_OK ||
      sparge_supported_kernel(plan.kernel, &kernel, &status) != SPARGE_OK ||
      sparge_mask_words(&problem, &words, &status) != SPARGE_OK) {
    printf("refused: %s\n", status.text);
    return 1;
  }
  printf("kernel %s, workspace %zu bytes, mask %zu words\n", kernel.name, plan.workspace_bytes, words);

  if (sparge_plan_forward(&unsupported, SPARGE_BF16, &device, NULL, &plan, &status) == SPARGE_OK) return 1;
  printf("refused: %s\n", status.text);
  if (!has_gpu) {
    printf("no GPU here, so nothing is run\n");
    return 0;
  }
  void* memory = NULL;
  if (cudaMalloc(&memory, 4 * elements * 2 + words * sizeof(uint32_t)) != cudaSuccess) return 1;
  int const failed = run_forward(&plan, words, memory, &status);
  return cudaFree(memory) != cudaSuccess || failed;
}
