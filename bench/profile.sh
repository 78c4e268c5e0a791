#!/usr/bin/env bash
# Reads the hardware counters of one benchmark case with Nsight Compute, without touching the clocks.
#   bench/profile.sh [PROGRAM [FILTER [KERNELS]]]
#   bench/profile.sh build/bin/forward_bench 'forward/h40_n32768_d128/keep_5/bf16/' 2
# KERNELS: launches of the library's own kernels to profile, behind two to warm up. Arguments of the program go in ARGS.
set -euo pipefail
cd "$(dirname "$0")/.."
program=${1:-build/bin/forward_bench}
filter=${2:-forward/h40_n32768_d128/keep_5/bf16/}
kernels=${3:-1}

# Share of the peak of: tensor cores, issue slots, L2, device memory. Then occupancy, and why warps wait, in cycles an
# instruction: long scoreboard = device memory and L2, wait and math = the pipes, barrier = other warps.
metrics=(
  gpu__time_duration.sum
  sm__throughput.avg.pct_of_peak_sustained_elapsed
  sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active
  sm__pipe_tensor_op_hmma_cycles_active.avg.pct_of_peak_sustained_active
  sm__inst_issued.avg.pct_of_peak_sustained_active
  lts__t_sectors.avg.pct_of_peak_sustained_elapsed
  lts__t_sector_hit_rate.pct
  dram__throughput.avg.pct_of_peak_sustained_elapsed
  dram__bytes_read.sum
  dram__bytes_write.sum
  sm__warps_active.avg.pct_of_peak_sustained_active
  launch__registers_per_thread
  launch__shared_mem_per_block_dynamic
  l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum
  smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio
  smsp__average_warps_issue_stalled_short_scoreboard_per_issue_active.ratio
  smsp__average_warps_issue_stalled_math_pipe_throttle_per_issue_active.ratio
  smsp__average_warps_issue_stalled_mio_throttle_per_issue_active.ratio
  smsp__average_warps_issue_stalled_wait_per_issue_active.ratio
  smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio
  smsp__average_warps_issue_stalled_not_selected_per_issue_active.ratio
)
# A name that this GPU does not have would end the run, so those are left out and named. Facts of a launch are in no list.
known=$(ncu --query-metrics | awk '{ print $1 }')
list=""
for metric in "${metrics[@]}"; do
  if [[ $metric == launch__* ]] || grep -qx "${metric%%.*}" <<<"$known"; then
    list+=${list:+,}$metric
  else
    echo "not on this GPU: $metric" >&2
  fi
done

# Kernels of the library are instances of sparge::entry; the inputs, flushes and probes of the benchmark are not.
# shellcheck disable=SC2086
exec ncu --clock-control none --target-processes all --kernel-name-base demangled --kernel-name 'regex:sparge::entry' \
  --launch-skip 2 --launch-count "$kernels" --metrics "$list" \
  "$program" --benchmark_filter="^$filter" ${ARGS:-}
