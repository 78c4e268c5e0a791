#pragma once
/// top_p for a wanted sparsity or kept mass, in f64: what rows keep as functions of top_p, and a search of the candidates.

#include <cmath>
#include <cstdint>
#include <vector>

#include "sparge/core/calibration.hpp"
#include "sparge/reference/mask.hpp"
#include "sparge/reference/parallel.hpp"

namespace sparge::reference {

/// Candidates are the multiples of 2^-24 in [0, 1].
inline constexpr std::int64_t top_p_steps = std::int64_t{1} << 24;

/// Pairs and mass that some rows keep. The mass is a sum over rows, each of which has 1.
struct Kept {
  std::int64_t pairs = 0;
  double mass = 0;

  void add(Kept const& other) { pairs += other.pairs, mass += other.mass; }
};

/// What one row keeps for every length of its prefix, forced blocks included.
class RowCurve {
public:
  explicit RowCurve(RowSelection const& row) : n_k_(row.n_k), cumulative_(row.cumulative) {
    Kept kept;
    for (std::size_t j = 0; j < row.forced.size(); ++j)
      if (row.forced[j]) kept.add({1, row.probabilities[j]});
    of_length_.push_back(kept);
    for (std::int64_t block : row.order) {
      if (!row.forced[block]) kept.add({1, row.probabilities[block]});
      of_length_.push_back(kept);
    }
  }

  Kept whole_rule(double top_p) const {
    return of_length_[std::size_t(std::max(n_k_, count_top_p(top_p, cumulative_)))];
  }
  Kept top_k_alone() const { return of_length_[std::size_t(n_k_)]; }
  Kept top_p_alone(double top_p) const { return of_length_[std::size_t(count_top_p(top_p, cumulative_))]; }

private:
  std::int64_t n_k_;
  std::vector<double> cumulative_;
  std::vector<Kept> of_length_;
};

/// The rows of one query head, of all batch items.
class HeadCurve {
public:
  void add(RowSelection const& row) { rows_.emplace_back(row); }

  std::int64_t rows() const { return std::int64_t(rows_.size()); }
  Kept whole_rule(double top_p) const {
    return sum([&](RowCurve const& row) { return row.whole_rule(top_p); });
  }
  Kept top_k_alone() const {
    return sum([](RowCurve const& row) { return row.top_k_alone(); });
  }
  Kept top_p_alone(double top_p) const {
    return sum([&](RowCurve const& row) { return row.top_p_alone(top_p); });
  }

private:
  template <class Of>
  Kept sum(Of of) const {
    Kept kept;
    for (RowCurve const& row : rows_) kept.add(of(row));
    return kept;
  }

  std::vector<RowCurve> rows_;
};

/// A curve for each head. The rule's top_p is not read.
template <class Pooled>
std::vector<HeadCurve> calibration_curves(AttentionProblem const& p, MaskRule const& rule,
                                          Pooled const* pooled_q, Pooled const* pooled_k,
                                          RunOptions const& options = {}) {
  std::vector<HeadCurve> heads(static_cast<std::size_t>(p.heads));
  BlockSelector const selector(p, rule, pooled_q, pooled_k);
  for_each_piece(p.heads, options, [&] {
    return [&](std::int64_t head) {
      for (std::int64_t batch = 0; batch < p.batch; ++batch)
        for (std::int64_t i = 0; i < p.q_blocks(); ++i) heads[head].add(selector.row(batch, head, i));
    };
  });
  return heads;
}

struct FoundTopP {
  double top_p = 0;
  bool met = false;
};

/// Searches the candidates for one top_p of some heads.
inline FoundTopP find_top_p(std::vector<HeadCurve const*> const& heads, std::int64_t kv_blocks,
                            CalibrationTarget const& target) {
  std::int64_t rows = 0;
  for (HeadCurve const* head : heads) rows += head->rows();
  if (kv_blocks == 0) rows = 0;  // a problem without pairs meets every target
  auto const meets = [&](std::int64_t step) {
    Kept kept;
    for (HeadCurve const* head : heads) kept.add(head->whole_rule(double(step) / double(top_p_steps)));
    if (target.goal == CalibrationGoal::sparsity)
      return double(kept.pairs) <= (1 - target.value) * double(rows * kv_blocks) + 1e-3;
    return kept.mass >= (target.value - 0x1p-40) * double(rows);
  };
  bool const wants_large = target.goal == CalibrationGoal::sparsity;
  std::int64_t const free_end = wants_large ? 0 : top_p_steps, other_end = top_p_steps - free_end;
  if (meets(other_end)) return {double(other_end) / double(top_p_steps), true};
  if (!meets(free_end)) return {double(free_end) / double(top_p_steps), false};
  std::int64_t good = free_end, bad = other_end;
  while (std::abs(good - bad) > 1) {
    std::int64_t const middle = good + (bad - good) / 2;
    (meets(middle) ? good : bad) = middle;
  }
  return {double(good) / double(top_p_steps), true};
}

inline Calibration report_of(HeadCurve const& head, std::int64_t kv_blocks, FoundTopP const& found) {
  Kept const whole = head.whole_rule(found.top_p), by_k = head.top_k_alone(),
             by_p = head.top_p_alone(found.top_p);
  double const rows = double(std::max<std::int64_t>(head.rows(), 1));
  Calibration report;
  report.kept_pairs = whole.pairs, report.all_pairs = head.rows() * kv_blocks;
  report.top_k_pairs = by_k.pairs, report.top_p_pairs = by_p.pairs;
  report.kept_mass = whole.mass / rows;
  report.top_k_mass = by_k.mass / rows, report.top_p_mass = by_p.mass / rows;
  report.top_p = float(found.top_p);
  report.met = found.met;
  return report;
}

/// Reports of all heads, each with its top_p.
template <class Pooled>
std::vector<Calibration> calibrate(AttentionProblem const& p, MaskRule const& rule, Pooled const* pooled_q,
                                   Pooled const* pooled_k, CalibrationTarget const& target,
                                   RunOptions const& options = {}) {
  std::vector<HeadCurve> const curves = calibration_curves(p, rule, pooled_q, pooled_k, options);
  std::vector<HeadCurve const*> all;
  for (HeadCurve const& head : curves) all.push_back(&head);
  bool const is_common = target.scope == CalibrationScope::all_heads;
  FoundTopP found = is_common ? find_top_p(all, p.kv_blocks(), target) : FoundTopP{};
  std::vector<Calibration> reports;
  for (HeadCurve const& head : curves) {
    if (!is_common) found = find_top_p({&head}, p.kv_blocks(), target);
    reports.push_back(report_of(head, p.kv_blocks(), found));
  }
  return reports;
}

}  // namespace sparge::reference
