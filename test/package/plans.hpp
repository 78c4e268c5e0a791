#pragma once
/// What every consumer does: it makes a plan, which needs no GPU, and prints a refusal.

#include <cstdio>

#include "sparge/sparge.hpp"

inline void print_refusal(sparge::Status const& status) {
  char text[256];
  sparge::describe(status, text, sizeof(text));
  std::printf("refused: %s\n", text);
}

/// A GPU that is not here, in the numbers that a plan needs; code for 9.0 and PTX for 8.0 both serve it.
inline sparge::Device some_device() {
  sparge::Device device;
  device.capability_major = 9;
  device.sm_count = 132;
  device.shared_bytes_per_block = 227 * 1024;
  device.shared_bytes_per_sm = 228 * 1024;
  device.l2_bytes = 50 << 20;
  return device;
}

inline sparge::AttentionProblem some_problem(int head_dim) {
  sparge::AttentionProblem problem;
  problem.batch = 1;
  problem.heads = problem.kv_heads = 12;
  problem.q_tokens = problem.kv_tokens = 32760;
  problem.head_dim = head_dim;
  return problem;
}

/// 0 where the plan is made and the unsupported head_dim refused.
inline int make_plans() {
  sparge::ForwardPlan<sparge::bfloat16> plan;
  if (sparge::Status const status = sparge::plan_forward(some_problem(64), some_device(), {}, &plan);
      !status) {
    print_refusal(status);
    return 1;
  }
  sparge::KernelInfo kernel{};
  if (sparge::Status const status = sparge::supported_kernel(plan.kernel, &kernel); !status) return 1;
  std::printf("kernel %s, workspace %zu bytes\n", kernel.name, plan.workspace_bytes);

  sparge::Status const refused = sparge::plan_forward(some_problem(96), some_device(), {}, &plan);
  print_refusal(refused);
  return refused ? 1 : 0;
}
