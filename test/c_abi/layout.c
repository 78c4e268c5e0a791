/* Prints the size of every struct of sparge.h and the offset and size of every member, one a line. */

#include <stdio.h>

#include "sparge/sparge.h"

#define STRUCT(type) printf("%s %zu\n", #type, sizeof(type))
#define MEMBER(type, name) \
  printf("%s.%s %zu %zu\n", #type, #name, offsetof(type, name), sizeof(((type*)0)->name))

static void print_results_and_device(void) {
  STRUCT(sparge_status);
  MEMBER(sparge_status, struct_size);
  MEMBER(sparge_status, code);
  MEMBER(sparge_status, cuda_error);
  MEMBER(sparge_status, axis);
  MEMBER(sparge_status, reserved);
  MEMBER(sparge_status, field);
  MEMBER(sparge_status, given);
  MEMBER(sparge_status, expected);
  MEMBER(sparge_status, text);
  STRUCT(sparge_device);
  MEMBER(sparge_device, struct_size);
  MEMBER(sparge_device, ordinal);
  MEMBER(sparge_device, capability_major);
  MEMBER(sparge_device, capability_minor);
  MEMBER(sparge_device, sm_count);
  MEMBER(sparge_device, shared_bytes_per_block);
  MEMBER(sparge_device, shared_bytes_per_sm);
  MEMBER(sparge_device, l2_bytes);
  STRUCT(sparge_kernel);
  MEMBER(sparge_kernel, struct_size);
  MEMBER(sparge_kernel, name);
  MEMBER(sparge_kernel, dtype);
  MEMBER(sparge_kernel, head_dim);
  MEMBER(sparge_kernel, q_tile);
  MEMBER(sparge_kernel, kv_tile);
}

static void print_plan(void) {
  STRUCT(sparge_problem);
  MEMBER(sparge_problem, struct_size);
  MEMBER(sparge_problem, batch);
  MEMBER(sparge_problem, heads);
  MEMBER(sparge_problem, kv_heads);
  MEMBER(sparge_problem, q_tokens);
  MEMBER(sparge_problem, kv_tokens);
  MEMBER(sparge_problem, head_dim);
  MEMBER(sparge_problem, q_block);
  MEMBER(sparge_problem, kv_block);
  MEMBER(sparge_problem, scale);
  MEMBER(sparge_problem, order);
  MEMBER(sparge_problem, reserved);
  MEMBER(sparge_problem, q_offset);
  MEMBER(sparge_problem, all_q_tokens);
  STRUCT(sparge_options);
  MEMBER(sparge_options, struct_size);
  MEMBER(sparge_options, has_force_kernel);
  MEMBER(sparge_options, force_kernel);
  MEMBER(sparge_options, pointer_check);
  MEMBER(sparge_options, reserved);
  STRUCT(sparge_plan);
  MEMBER(sparge_plan, struct_size);
  MEMBER(sparge_plan, workspace_bytes);
  MEMBER(sparge_plan, operation);
  MEMBER(sparge_plan, dtype);
  MEMBER(sparge_plan, kernel);
  MEMBER(sparge_plan, dq_kernel);
  MEMBER(sparge_plan, opaque);
}

static void print_tensors_and_masks(void) {
  STRUCT(sparge_tensor);
  MEMBER(sparge_tensor, data);
  MEMBER(sparge_tensor, shape);
  MEMBER(sparge_tensor, stride);
  MEMBER(sparge_tensor, dtype);
  MEMBER(sparge_tensor, reserved);
  STRUCT(sparge_mask);
  MEMBER(sparge_mask, data);
  MEMBER(sparge_mask, words);
  STRUCT(sparge_mask_rule);
  MEMBER(sparge_mask_rule, struct_size);
  MEMBER(sparge_mask_rule, top_k);
  MEMBER(sparge_mask_rule, top_p);
  MEMBER(sparge_mask_rule, top_k_of_head);
  MEMBER(sparge_mask_rule, top_p_of_head);
  MEMBER(sparge_mask_rule, min_blocks);
  MEMBER(sparge_mask_rule, has_band);
  MEMBER(sparge_mask_rule, band_tokens);
  MEMBER(sparge_mask_rule, kv_front_tokens);
  MEMBER(sparge_mask_rule, kv_back_tokens);
  MEMBER(sparge_mask_rule, dense_q_front_tokens);
  MEMBER(sparge_mask_rule, dense_q_back_tokens);
  STRUCT(sparge_mask_stats_record);
  MEMBER(sparge_mask_stats_record, kept_pairs);
  MEMBER(sparge_mask_stats_record, all_pairs);
  MEMBER(sparge_mask_stats_record, owed_to_both);
  MEMBER(sparge_mask_stats_record, owed_to_top_k);
  MEMBER(sparge_mask_stats_record, owed_to_top_p);
  MEMBER(sparge_mask_stats_record, owed_to_force);
  MEMBER(sparge_mask_stats_record, pooled_mass);
}

static void print_args(void) {
  STRUCT(sparge_pool_args);
  MEMBER(sparge_pool_args, struct_size);
  MEMBER(sparge_pool_args, q);
  MEMBER(sparge_pool_args, k);
  MEMBER(sparge_pool_args, pooled_q);
  MEMBER(sparge_pool_args, pooled_k);
  STRUCT(sparge_select_blocks_args);
  MEMBER(sparge_select_blocks_args, struct_size);
  MEMBER(sparge_select_blocks_args, pooled_q);
  MEMBER(sparge_select_blocks_args, pooled_k);
  MEMBER(sparge_select_blocks_args, rule);
  MEMBER(sparge_select_blocks_args, mask);
  STRUCT(sparge_build_mask_args);
  MEMBER(sparge_build_mask_args, struct_size);
  MEMBER(sparge_build_mask_args, q);
  MEMBER(sparge_build_mask_args, k);
  MEMBER(sparge_build_mask_args, rule);
  MEMBER(sparge_build_mask_args, mask);
  STRUCT(sparge_mask_stats_args);
  MEMBER(sparge_mask_stats_args, struct_size);
  MEMBER(sparge_mask_stats_args, pooled_q);
  MEMBER(sparge_mask_stats_args, pooled_k);
  MEMBER(sparge_mask_stats_args, rule);
  MEMBER(sparge_mask_stats_args, mask);
  MEMBER(sparge_mask_stats_args, stats);
  STRUCT(sparge_forward_args);
  MEMBER(sparge_forward_args, struct_size);
  MEMBER(sparge_forward_args, q);
  MEMBER(sparge_forward_args, k);
  MEMBER(sparge_forward_args, v);
  MEMBER(sparge_forward_args, mask);
  MEMBER(sparge_forward_args, out);
  MEMBER(sparge_forward_args, lse);
}

static void print_calibration(void) {
  STRUCT(sparge_calibration_record);
  MEMBER(sparge_calibration_record, kept_pairs);
  MEMBER(sparge_calibration_record, all_pairs);
  MEMBER(sparge_calibration_record, top_k_pairs);
  MEMBER(sparge_calibration_record, top_p_pairs);
  MEMBER(sparge_calibration_record, kept_mass);
  MEMBER(sparge_calibration_record, top_k_mass);
  MEMBER(sparge_calibration_record, top_p_mass);
  MEMBER(sparge_calibration_record, top_p);
  MEMBER(sparge_calibration_record, met);
  STRUCT(sparge_calibrate_args);
  MEMBER(sparge_calibrate_args, struct_size);
  MEMBER(sparge_calibrate_args, pooled_q);
  MEMBER(sparge_calibrate_args, pooled_k);
  MEMBER(sparge_calibrate_args, rule);
  MEMBER(sparge_calibrate_args, target);
  MEMBER(sparge_calibrate_args, goal);
  MEMBER(sparge_calibrate_args, scope);
  MEMBER(sparge_calibrate_args, top_p_of_head);
  MEMBER(sparge_calibrate_args, report);
}

static void print_backward_args(void) {
  STRUCT(sparge_backward_args);
  MEMBER(sparge_backward_args, struct_size);
  MEMBER(sparge_backward_args, q);
  MEMBER(sparge_backward_args, k);
  MEMBER(sparge_backward_args, v);
  MEMBER(sparge_backward_args, out);
  MEMBER(sparge_backward_args, grad_out);
  MEMBER(sparge_backward_args, lse);
  MEMBER(sparge_backward_args, grad_lse);
  MEMBER(sparge_backward_args, mask);
  MEMBER(sparge_backward_args, grad_q);
  MEMBER(sparge_backward_args, grad_k);
  MEMBER(sparge_backward_args, grad_v);
}

static void print_merging(void) {
  STRUCT(sparge_partial);
  MEMBER(sparge_partial, out);
  MEMBER(sparge_partial, lse);
  STRUCT(sparge_merge_partials_args);
  MEMBER(sparge_merge_partials_args, struct_size);
  MEMBER(sparge_merge_partials_args, partials);
  MEMBER(sparge_merge_partials_args, count);
  MEMBER(sparge_merge_partials_args, reserved);
  MEMBER(sparge_merge_partials_args, running);
  MEMBER(sparge_merge_partials_args, out);
  MEMBER(sparge_merge_partials_args, running_out);
  MEMBER(sparge_merge_partials_args, lse);
}

static void print_distillation(void) {
  STRUCT(sparge_distillation_problem);
  MEMBER(sparge_distillation_problem, struct_size);
  MEMBER(sparge_distillation_problem, samples);
  MEMBER(sparge_distillation_problem, sample_elements);
  STRUCT(sparge_distillation_loss_args);
  MEMBER(sparge_distillation_loss_args, struct_size);
  MEMBER(sparge_distillation_loss_args, dtype);
  MEMBER(sparge_distillation_loss_args, reserved);
  MEMBER(sparge_distillation_loss_args, student);
  MEMBER(sparge_distillation_loss_args, teacher);
  MEMBER(sparge_distillation_loss_args, weights);
  MEMBER(sparge_distillation_loss_args, grad_loss);
  MEMBER(sparge_distillation_loss_args, loss);
  MEMBER(sparge_distillation_loss_args, grad_student);
  STRUCT(sparge_interpolate_args);
  MEMBER(sparge_interpolate_args, struct_size);
  MEMBER(sparge_interpolate_args, dtype);
  MEMBER(sparge_interpolate_args, reserved);
  MEMBER(sparge_interpolate_args, x0);
  MEMBER(sparge_interpolate_args, x1);
  MEMBER(sparge_interpolate_args, t);
  MEMBER(sparge_interpolate_args, x_t);
}

static void print_mask_form_args(void) {
  STRUCT(sparge_transpose_mask_args);
  MEMBER(sparge_transpose_mask_args, struct_size);
  MEMBER(sparge_transpose_mask_args, mask);
  MEMBER(sparge_transpose_mask_args, transposed);
  STRUCT(sparge_slice_mask_args);
  MEMBER(sparge_slice_mask_args, struct_size);
  MEMBER(sparge_slice_mask_args, mask);
  MEMBER(sparge_slice_mask_args, q_first_block);
  MEMBER(sparge_slice_mask_args, q_block_count);
  MEMBER(sparge_slice_mask_args, kv_first_block);
  MEMBER(sparge_slice_mask_args, kv_block_count);
  MEMBER(sparge_slice_mask_args, shard);
  STRUCT(sparge_byte_mask_args);
  MEMBER(sparge_byte_mask_args, struct_size);
  MEMBER(sparge_byte_mask_args, mask);
  MEMBER(sparge_byte_mask_args, bytes);
  MEMBER(sparge_byte_mask_args, bytes_count);
  STRUCT(sparge_block_lists_args);
  MEMBER(sparge_block_lists_args, struct_size);
  MEMBER(sparge_block_lists_args, mask);
  MEMBER(sparge_block_lists_args, counts);
  MEMBER(sparge_block_lists_args, indices);
  MEMBER(sparge_block_lists_args, capacity);
}

int main(void) {
  print_results_and_device();
  print_plan();
  print_tensors_and_masks();
  print_args();
  print_calibration();
  print_backward_args();
  print_merging();
  print_distillation();
  print_mask_form_args();
  return 0;
}
