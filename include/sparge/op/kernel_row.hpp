#pragma once
/// Refusals about rows of a table of kernels, whatever the call: a forced row that cannot serve, and no row that does.

#include <cstdint>

#include "sparge/core/device.hpp"
#include "sparge/core/element.hpp"
#include "sparge/core/problem.hpp"
#include "sparge/plan/refuse.hpp"

namespace sparge::detail {

/// A table as refusals see it.
template <class Config>
struct KernelTable {
  Config const* rows;
  std::int32_t count;
  bool (*is_built)(std::int32_t row);
  char const* index_rule;  ///< what an index must be, such as "must be less than supported_kernels()"
};

template <class Config>
Status check_forced_row(KernelTable<Config> const& table, ElementType type, AttentionProblem const& p,
                        Device const& device, std::int32_t row) {
  char const* const field = "options.force_kernel";
  if (row >= table.count) return refuse(field, table.index_rule, row, table.count);
  if (!table.is_built(row)) return unsupported(field, "this build left that kernel out", row);
  Config const& config = table.rows[row];
  if (!config.serves(type, p))
    return unsupported(field, "that kernel is for another element type, head_dim or mask block", row);
  if (!config.is_for(device))
    return unsupported(field, "that kernel runs on compute capability 9.0 alone; sm80 kernels run everywhere",
                       row);
  if (!config.runs_on(device))
    return unsupported(field, "that kernel needs more shared memory than the device has", row);
  return {};
}

/// Why no row was found, most telling first.
template <class Config>
Status no_row(KernelTable<Config> const& table, ElementType type, AttentionProblem const& p,
              Device const& device) {
  bool built_type = false, built_head_dim = false;
  for (std::int32_t row = 0; row < table.count; ++row) {
    if (!table.is_built(row) || table.rows[row].dtype != type) continue;
    built_type = true;
    built_head_dim = built_head_dim || table.rows[row].head_dim == p.head_dim;
  }
  if (!built_type)
    return unsupported("dtype", "this build left the element type out; see SPARGE_DTYPES",
                       static_cast<int>(type));
  if (!built_head_dim)
    return unsupported("problem.head_dim", "this build left it out; see SPARGE_HEAD_DIMS", p.head_dim);
  return unsupported("device.shared_bytes_per_block",
                     "no built kernel is small enough for the device's shared memory",
                     device.shared_bytes_per_block);
}

}  // namespace sparge::detail
