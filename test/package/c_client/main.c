/* As plans.hpp, in C: makes a plan, which needs no GPU, and prints a refusal. */

#include <stdio.h>

#include "sparge/sparge.h"

int main(void) {
  sparge_problem problem = {.struct_size = sizeof problem,
                            .batch = 1,
                            .heads = 12,
                            .kv_heads = 12,
                            .q_tokens = 32760,
                            .kv_tokens = 32760,
                            .head_dim = 64};
  sparge_device const device = {.struct_size = sizeof device,
                                .capability_major = 9,
                                .sm_count = 132,
                                .shared_bytes_per_block = 227 * 1024,
                                .shared_bytes_per_sm = 228 * 1024,
                                .l2_bytes = 50 << 20};
  sparge_status status = {.struct_size = sizeof status};
  sparge_kernel kernel = {.struct_size = sizeof kernel};
  sparge_plan plan = {.struct_size = sizeof plan};
  if (sparge_plan_forward(&problem, SPARGE_BF16, &device, NULL, &plan, &status) != SPARGE_OK ||
      sparge_supported_kernel(plan.kernel, &kernel, &status) != SPARGE_OK) {
    printf("refused: %s\n", status.text);
    return 1;
  }
  printf("kernel %s, workspace %zu bytes\n", kernel.name, plan.workspace_bytes);

  sparge_distillation_problem samples = {
      .struct_size = sizeof samples, .samples = 1, .sample_elements = 1 << 20};
  if (sparge_plan_backward(&problem, SPARGE_BF16, &device, NULL, &plan, &status) != SPARGE_OK ||
      sparge_supported_backward_kernel(plan.dq_kernel, &kernel, &status) != SPARGE_OK ||
      sparge_plan_distillation_loss(&samples, SPARGE_F32, &device, NULL, &plan, &status) != SPARGE_OK) {
    printf("refused: %s\n", status.text);
    return 1;
  }
  printf("kernel %s; workspace of the loss %zu bytes\n", kernel.name, plan.workspace_bytes);

  problem.head_dim = 96;
  sparge_code const code = sparge_plan_forward(&problem, SPARGE_BF16, &device, NULL, &plan, &status);
  printf("refused: %s\n", status.text);
  return code == SPARGE_UNSUPPORTED ? 0 : 1;
}
