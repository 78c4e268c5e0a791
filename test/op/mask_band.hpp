#pragma once
/// May a selected row differ from the f64 reference? Only where f32 scores cannot tell (docs/math.md, "Device against
/// reference"). E = 2^-20 * scale * max_j sum_d |pooled_q[d]| |c_j[d]|.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <mutex>
#include <vector>

#include "op/mask_runs.hpp"
#include "sparge/reference/mask.hpp"
#include "support/catch.hpp"

namespace sparge::test {

/// What a comparison of many rows found.
struct RowVerdict {
  std::int64_t rows = 0;
  std::int64_t excused = 0;  ///< differ, and may
  std::int64_t wrong = 0;
  std::int64_t first_wrong = -1;

  void add(RowVerdict const& other) {
    if (first_wrong < 0) first_wrong = other.first_wrong;
    rows += other.rows, excused += other.excused, wrong += other.wrong;
  }
};

/// One row of the reference against the bits that the device kept.
class RowBand {
public:
  RowBand(reference::RowSelection const& row, double top_p)
      : row_(row), blocks_(static_cast<std::int64_t>(row.order.size())), cut_(row.cut()) {
    mass_tolerance_ = 2 * row.score_error + static_cast<double>(blocks_) * 0x1p-32 + 1e-6;
    near_ = scores_are_near() || mass_is_near(cut_, top_p) || mass_is_near(cut_ - 1, top_p);
  }

  /// Whether the row may differ at all.
  bool is_near() const { return near_; }

  /// Whether each differing block may: it lies within 2E of the cut score or between the two cuts.
  bool allows(std::vector<bool> const& kept) const {
    std::vector<bool> const wanted = row_.kept();
    std::int64_t const other_cut = cut_of(kept, wanted);
    for (std::int64_t rank = 0; rank < blocks_; ++rank) {
      std::int64_t const j = row_.order[static_cast<std::size_t>(rank)];
      if (kept[j] == wanted[j]) continue;
      bool const between = rank >= std::min(cut_, other_cut) && rank < std::max(cut_, other_cut);
      bool const close =
          std::abs(score_at(rank) - score_at(std::max<std::int64_t>(cut_ - 1, 0))) <= 2 * row_.score_error;
      if (row_.forced[j] || !(between || close)) return false;
    }
    return true;
  }

private:
  double score_at(std::int64_t rank) const {
    return row_.scores[static_cast<std::size_t>(row_.order[static_cast<std::size_t>(rank)])];
  }

  bool scores_are_near() const {
    return cut_ > 0 && cut_ < blocks_ && score_at(cut_ - 1) - score_at(cut_) <= 2 * row_.score_error;
  }

  /// Of the mass of the first `length` blocks.
  bool mass_is_near(std::int64_t length, double top_p) const {
    if (length < 0 || top_p <= 0 || top_p >= 1) return false;
    double const mass = length == 0 ? 0 : row_.cumulative[static_cast<std::size_t>(length - 1)];
    return std::abs(mass - top_p) <= mass_tolerance_;
  }

  /// Where the other prefix ends, by the number of blocks that it has more; forced blocks are in both.
  std::int64_t cut_of(std::vector<bool> const& kept, std::vector<bool> const& wanted) const {
    std::int64_t more = 0, cut = cut_;
    for (std::int64_t j = 0; j < blocks_; ++j) more += int{kept[j]} - int{wanted[j]};
    auto const is_free = [&](std::int64_t rank) {
      return !row_.forced[row_.order[static_cast<std::size_t>(rank)]];
    };
    for (; more > 0 && cut < blocks_; ++cut) more -= is_free(cut);
    for (; more < 0 && cut > 0; --cut) more += is_free(cut - 1);
    return cut;
  }

  reference::RowSelection const& row_;
  std::int64_t blocks_, cut_;
  double mass_tolerance_ = 0;
  bool near_ = false;
};

/// Compares every `step`-th row of a selected mask with the reference on the same pooled vectors.
inline RowVerdict compare_rows(PooledInputs const& x, MaskRule const& rule, MaskWords const& words,
                               std::int64_t step = 1) {
  AttentionProblem const& p = x.problem;
  reference::BlockSelector const selector(p, rule, x.q.storage().data(), x.k.storage().data());
  RowVerdict verdict;
  std::mutex mutex;
  reference::for_each_mask_row(p, {}, [&](std::int64_t index, auto batch, auto head, auto q_block) {
    if (index % step != 0 && index + 1 != mask_rows(p)) return;
    reference::RowSelection const row = selector.row(batch, head, q_block);
    std::vector<bool> const kept = row_bits(p, words, index);
    bool const same = kept == row.kept();
    RowBand const band(row, selector.top_p(head));
    bool const excused = !same && band.is_near() && band.allows(kept);
    std::lock_guard lock(mutex);
    ++verdict.rows;
    verdict.excused += excused;
    verdict.wrong += !same && !excused;
    if (!same && !excused && verdict.first_wrong < 0) verdict.first_wrong = index;
  });
  return verdict;
}

/// No row may be wrong.
inline RowVerdict check_rows(PooledInputs const& x, MaskRule const& rule, MaskWords const& words,
                             std::int64_t step = 1) {
  RowVerdict const verdict = compare_rows(x, rule, words, step);
  CAPTURE(x.problem.batch, x.problem.heads, x.problem.kv_heads, x.problem.q_tokens, x.problem.kv_tokens);
  CAPTURE(x.problem.head_dim, x.problem.q_block, x.problem.kv_block, rule.top_k, rule.top_p, rule.min_blocks);
  CAPTURE(verdict.rows, verdict.excused, verdict.first_wrong);
  CHECK(verdict.wrong == 0);
  CHECK(padding_is_zero(x.problem, words));
  return verdict;
}

/// Of inputs that are not made of ties, at most 2 % of the rows may be excused.
inline void check_few_excused(RowVerdict const& verdict) {
  CAPTURE(verdict.rows, verdict.excused);
  CHECK(verdict.rows > 0);
  CHECK(50 * verdict.excused <= verdict.rows);
}

}  // namespace sparge::test
