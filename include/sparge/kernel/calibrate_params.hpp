#pragma once
/// What the kernels of calibration are given, and their launches. Host code sees only this.

#include <driver_types.h>

#include <cstdint>

#include "sparge/core/calibration.hpp"
#include "sparge/kernel/mask_params.hpp"
#include "sparge/plan/calibrate_config.hpp"

namespace sparge {

/// A scored row is sorted by a thread block, in shared memory or in `order`. The keep rule counts as in MaskSelectParams.
struct CalibrateRowsParams {
  MaskRowsParams rows;             ///< scores are read alone
  std::uint64_t* order = nullptr;  ///< [chunk rows, pitch], or null where rows are sorted in shared memory
  std::int64_t whole_q_tokens = 0, kv_tokens = 0, first_q_block = 0;
  std::int32_t q_block = 0, kv_block = 0;
  double row_mass = 0;  ///< what the masses of a row add up to, a power of two
};

/// One digit of the search: adds to the histogram of its group what each digit of a row keeps beyond the smaller ones.
struct CalibrateCountParams {
  CalibrateRowsParams row;
  CalibrationGroup* groups = nullptr;
  CalibrationGoal goal = CalibrationGoal::sparsity;
  CalibrationScope scope = CalibrationScope::each_head;
  std::int32_t digit_shift = 0;  ///< of the digit in steps of top_p
};

cudaError_t launch_calibrate_count(CalibrateCountParams const& params, CalibrateLayout const& layout,
                                   cudaStream_t stream) noexcept;

/// Chooses a digit from the histograms and clears them. After the last digit writes top_p.
struct CalibrateStepParams {
  CalibrationGroup* groups = nullptr;
  float* top_p_of_head = nullptr;  ///< out, [heads]
  CalibrationGoal goal = CalibrationGoal::sparsity;
  CalibrationScope scope = CalibrationScope::each_head;
  std::int32_t digit_shift = 0, heads = 0;
  double limit = 0;  ///< for a sparsity, the most pairs; for a mass, the least mass, in units of a row's
};

cudaError_t launch_calibrate_step(CalibrateStepParams const& params, std::int64_t groups,
                                  cudaStream_t stream) noexcept;

/// What the rule with the found top_p keeps; row.rows.rule holds it.
struct CalibrateReportRowsParams {
  CalibrateRowsParams row;
  CalibrationTally* tallies = nullptr;  ///< [heads]
};

cudaError_t launch_calibrate_report_rows(CalibrateReportRowsParams const& params,
                                         CalibrateLayout const& layout, cudaStream_t stream) noexcept;

struct CalibrateReportParams {
  CalibrationTally const* tallies = nullptr;  ///< [heads]
  CalibrationGroup const* groups = nullptr;
  float const* top_p_of_head = nullptr;
  Calibration* report = nullptr;  ///< out, [heads]
  CalibrationScope scope = CalibrationScope::each_head;
  std::int32_t heads = 0;
  std::int64_t rows_of_head = 0, kv_blocks = 0;
  double row_mass = 0;
};

cudaError_t launch_calibrate_report(CalibrateReportParams const& params, cudaStream_t stream) noexcept;

/// Enqueues zeros over what is counted.
cudaError_t launch_calibrate_clear(CalibrationGroup* groups, CalibrationTally* tallies, std::int64_t heads,
                                   cudaStream_t stream) noexcept;

}  // namespace sparge
