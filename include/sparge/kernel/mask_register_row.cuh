#pragma once
/// One row of scores in registers, which are read from memory once.

#include <cstdint>
#include <utility>

#include "sparge/device/global_word.cuh"
#include "sparge/kernel/mask_candidates.cuh"
#include "sparge/kernel/mask_row.cuh"
#include "sparge/kernel/mask_row_team.cuh"
#include "sparge/kernel/mask_search.cuh"

namespace sparge {

/// A prefix of the order: every score above `cut`, and of the blocks that equal it those before block `tie_end`.
struct RowPrefix {
  float cut;
  int tie_end;
};

/// `values` scores a lane. A warp holds 32 consecutive blocks at a time, one word of the mask. Blocks that do not exist score NaN.
template <int warps, int values>
class RegisterRow {
public:
  using Team = RowTeam<warps>;
  using Lists = CandidateLists<warps, values>;

  __device__ __forceinline__ RegisterRow(Team const& team, std::uint32_t const* scores, int blocks)
      : team_(team), blocks_(blocks) {
    load(reinterpret_cast<float const*>(scores) + block(0), std::make_integer_sequence<int, values>());
    float const nan = __uint_as_float(0x7fffffff);
    largest_of_quarter_ = largest_of_lane_ = nan;
#pragma unroll
    for (int v = 0; v < values; v += 4) largest_of_quarter_ = fmaxf(largest_of_quarter_, score_[v]);
#pragma unroll
    for (int v = 0; v < values; ++v)
      if (v % 4 != 0) largest_of_lane_ = fmaxf(largest_of_lane_, score_[v]);
    largest_of_lane_ = fmaxf(largest_of_lane_, largest_of_quarter_);
    largest_ = score_of(team_.max(ranking_key(largest_of_lane_)));
    std::uint64_t mass = 0;
#pragma unroll
    for (int v = 0; v < values; ++v) mass += finite_softmax_mass(score_[v], largest_);
    all_ = {blocks_, team_.tally(0, mass).mass};
  }

  /// Whether the largest score is finite; otherwise masses are not what all() says.
  __device__ __forceinline__ bool is_ordinary() const { return fabsf(largest_) < infinity(); }
  /// Blocks that exist and the mass of all.
  __device__ __forceinline__ Tally all() const { return all_; }
  __device__ __forceinline__ int blocks() const { return blocks_; }
  __device__ __forceinline__ static int word(int v) { return v * warps + Team::warp(); }
  __device__ __forceinline__ static int block(int v) { return 32 * word(v) + lane_index(); }
  __device__ __forceinline__ float score(int v) const { return score_[v]; }
  /// How many of this lane's blocks come before block `end`. To compare v with it takes fewer registers than to compare block(v).
  __device__ __forceinline__ static int count_before(int end) {
    return (end - block(0) + 32 * warps - 1) / (32 * warps);
  }

  /// Finds the shortest prefix that reaches `goal`, of at least one block, in an ordinary row. False where it holds scores that
  /// are not finite.
  __device__ __forceinline__ bool find_prefix(PrefixGoal goal, Lists& lists, RowPrefix& prefix) const {
    constexpr int most_floors = 3;
    for (int i = 0; i < most_floors; ++i) {
      float const floor = i < most_floors - 1 ? floor_of(goal, i) : least_finite();
      Tally const reached = lists.take(team_, score_, floor, largest_);
      if (!reached.reaches(goal)) continue;
      prefix = narrow(goal, lists, {ranking_key(floor), ranking_key(largest_) + 1, reached, {0, 0}});
      return true;
    }
    return false;
  }

private:
  template <int... v>
  __device__ __forceinline__ void load(float const* mine, std::integer_sequence<int, v...>) {
    int const words = (blocks_ + 31) / 32;
    ((score_[v] = load_once_or_nan<4 * 32 * warps * v>(mine, word(v), words)), ...);
  }

  /// A score that about twice as many blocks reach as the prefix has. Any guess is right, and less work if it is a little below
  /// the end of the prefix.
  ///
  /// How many blocks a share of the mass takes lies between that share of the blocks, where all are alike, and as much mass
  /// as the largest score has each; their geometric mean is close for scores that spread like Gaussians. That share of all
  /// blocks becomes a rank among the largest scores of lanes: the largest of g scores is in the top share s with chance
  /// 1 - (1 - s)^g.
  __device__ __forceinline__ float floor_of(PrefixGoal goal, int attempt) const {
    float const blocks = static_cast<float>(blocks_), mass = mass_as_float(all_.mass),
                each = mass * __fdividef(0x1p-15f, blocks);  // relative to that of the largest
    float const of_mass = __fdividef(mass_as_float(goal.mass), mass) * (attempt == 0 ? sqrt_fast(each) : 1);
    float const of_blocks = __fdividef(static_cast<float>(static_cast<int>(goal.blocks)), blocks);
    float const share = fmaf(fmaxf(of_mass, of_blocks), attempt == 0 ? 1.75f : 2.5f, __fdividef(4, blocks));
    if (share > 0.7f) return least_finite();
    float const of_lane = blocks / (32 * warps);
    bool const quarter = share * of_lane > 2.0f;
    float const chance = 1 - exp2_fast(of_lane * (quarter ? 0.25f : 1.0f) * log2_fast(1 - share));
    int const rank = min(static_cast<int>(32 * chance), 31);
    float const greatest = quarter ? largest_of_quarter_ : largest_of_lane_;
    float const sorted = warp_sort_descending(fmaxf(greatest, -3.4028235e38f));
    return team_.first(__shfl_sync(all_lanes, sorted, rank));
  }

  __device__ __forceinline__ float least_finite() const {
    float least = largest_;
#pragma unroll
    for (int v = 0; v < values; ++v)
      if (score_[v] > -infinity()) least = fminf(least, score_[v]);
    return score_of(team_.min(ranking_key(least)));
  }

  __device__ __forceinline__ RowPrefix narrow(PrefixGoal goal, Lists const& lists,
                                              PrefixInterval interval) const {
    std::uint32_t const lowest = interval.in;
    for (int guesses = 0; interval.blocks() > few_blocks && !interval.is_one_key(); ++guesses) {
      if (interval.reached.blocks == goal.blocks) return {score_of(interval.in), blocks_};
      std::uint32_t const key = next_key(interval, goal, lowest, guesses);
      interval.narrow(key, lists.tally(team_, score_of(key)), goal);
    }
    if (!interval.is_one_key()) lists.narrow_to_one_key(team_, interval, goal);
    float const cut = score_of(interval.in);
    if (interval.blocks() == 1) return {cut, blocks_};
    std::int64_t const ties = count_ties(goal, interval.reached, interval.above);
    return {cut, ties == interval.blocks() ? blocks_ : end_of_ties(cut, static_cast<int>(ties))};
  }

  /// The block before which `ties` blocks score `cut`; at least one does.
  __device__ __forceinline__ int end_of_ties(float cut, int ties) const {
    int none = 0, end = blocks_;  // fewer than `ties` before `none` + 1, all of them before `end`
    while (end - none > 1) {
      int const middle = none + (end - none) / 2;
      int const mine = count_before(middle);
      std::uint32_t before = 0;
#pragma unroll
      for (int v = 0; v < values; ++v) before += score_[v] == cut && v < mine;
      if (static_cast<int>(team_.sum(before)) >= ties)
        end = middle;
      else
        none = middle;
    }
    return end;
  }

  Team team_;
  int blocks_;
  float score_[values];
  float largest_of_lane_, largest_of_quarter_, largest_;
  Tally all_;
};

}  // namespace sparge
