#pragma once
/// Which query rows to compute, grouped by the query block whose mask row they share.

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <vector>

#include "sparge/core/problem.hpp"

namespace sparge::reference {

/// One query token of one head.
struct QueryRow {
  std::int64_t batch, head, token;
};

/// Every row of a problem, in the order of a contiguous [batch, heads, q_tokens].
inline std::vector<QueryRow> all_rows(AttentionProblem const& p) {
  std::vector<QueryRow> rows;
  rows.reserve(static_cast<std::size_t>(p.batch * p.heads * p.q_tokens));
  for (std::int64_t batch = 0; batch < p.batch; ++batch)
    for (std::int64_t head = 0; head < p.heads; ++head)
      for (std::int64_t token = 0; token < p.q_tokens; ++token) rows.push_back({batch, head, token});
  return rows;
}

/// Rows of one query block; `slots` index the list of rows that was grouped.
struct RowGroup {
  std::int64_t batch, head, q_block;
  std::vector<std::int64_t> slots;
};

inline std::vector<RowGroup> group_rows(AttentionProblem const& p, std::vector<QueryRow> const& rows) {
  auto const key = [&](std::int64_t slot) {
    QueryRow const& row = rows[static_cast<std::size_t>(slot)];
    return std::make_tuple(row.batch, row.head, row.token / p.q_block);
  };
  std::vector<std::int64_t> order(rows.size());
  for (std::size_t slot = 0; slot < rows.size(); ++slot) order[slot] = static_cast<std::int64_t>(slot);
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return key(a) < key(b); });
  std::vector<RowGroup> groups;
  for (std::int64_t slot : order) {
    auto const [batch, head, q_block] = key(slot);
    bool const same = !groups.empty() && key(groups.back().slots[0]) == key(slot);
    if (!same) groups.push_back({batch, head, q_block, {}});
    groups.back().slots.push_back(slot);
  }
  return groups;
}

}  // namespace sparge::reference
