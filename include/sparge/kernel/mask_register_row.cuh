#pragma once
/// One row of scores in registers: every score is read once, and no pass over the row leaves the registers.

#include <cstdint>

#include "sparge/device/tally.cuh"
#include "sparge/kernel/mask_row.cuh"
#include "sparge/kernel/mask_row_team.cuh"
#include "sparge/kernel/mask_search.cuh"

namespace sparge {

/// A prefix of the order: every key above `key`, and of the blocks that equal it those before block `tie_end`.
struct RowPrefix {
  std::uint32_t key;
  int tie_end;
};

/// Scores and softmax masses; `values` of them a lane. A warp holds 32 consecutive blocks at a time, one word of the mask.
/// Blocks that do not exist score NaN.
///
/// A mass of softmax_mass() is kept as two integers in f32, mass = 2^15 high + low with |low| <= 2^14, whose sums over a lane
/// are exact.
template <int warps, int values>
class RegisterRow {
public:
  using Team = RowTeam<warps>;

  __device__ __forceinline__ RegisterRow(Team const& team, std::uint32_t const* scores, int blocks)
      : team_(team), blocks_(blocks), existing_(count_before(blocks)) {
    std::uint32_t const* const mine = scores + block(0);
    float const nan = __uint_as_float(0x7fffffff);
    float greatest = nan, least = nan;
#pragma unroll
    for (int v = 0; v < values; ++v) score_[v] = v < existing_ ? __uint_as_float(mine[32 * warps * v]) : nan;
#pragma unroll
    for (int v = 0; v < values; ++v) greatest = fmaxf(greatest, score_[v]), least = fminf(least, score_[v]);
    greatest_ = team_.max(ranking_key(greatest));
    lowest_ = team_.min(ranking_key(least) - 1) + 1;  // key 0, of no number, becomes the greatest
    float const largest = score_of(greatest_);
#pragma unroll
    for (int v = 0; v < values; ++v) {
      float const weight = score_[v] == largest ? 1.0f : fmaxf(softmax_weight(score_[v], largest), 0.0f);
      high_[v] = round_small(weight * 0x1p16f);
      low_[v] = round_small(fmaf(weight, 0x1p16f, -high_[v]) * 0x1p15f);
    }
    all_ = tally(lowest_);
  }

  __device__ __forceinline__ int blocks() const { return blocks_; }
  __device__ __forceinline__ static int word(int v) { return v * warps + Team::warp(); }
  __device__ __forceinline__ static int block(int v) { return 32 * word(v) + lane_index(); }
  /// How many of this lane's blocks come before block `end`. To compare v with it takes fewer registers than to compare block(v).
  __device__ __forceinline__ static int count_before(int end) {
    return (end - block(0) + 32 * warps - 1) / (32 * warps);
  }

  /// Blocks that exist and the mass of all.
  __device__ __forceinline__ Tally all() const { return {blocks_, all_.mass}; }

  /// The shortest prefix that reaches `goal`.
  __device__ __forceinline__ RowPrefix prefix(PrefixGoal goal) const {
    PrefixInterval interval{0, greatest_ + 1, all(), {0, 0}};
    if (goal.blocks <= 0 && goal.mass == 0) return {~0u, 0};
    for (int guesses = 0; interval.blocks() > 32 && !interval.is_one_key(); ++guesses) {
      std::uint32_t const key = next_key(interval, goal, lowest_, guesses);
      interval.narrow(key, tally(key), goal);
      if (interval.out <= lowest_) interval.out = 1;  // what is left is NaN
    }
    if (!interval.is_one_key()) narrow_to_one_key(interval, goal);
    std::int64_t const ties = count_ties(goal, interval.reached, interval.above);
    return {interval.in,
            ties == interval.blocks() ? blocks_ : end_of_ties(interval.in, static_cast<int>(ties))};
  }

  /// The prefix as this lane asks for it.
  struct Share {
    float cut;         ///< everything above is in
    int ties, of_nan;  ///< of the lane's values that equal the cut, or are NaN, those before
  };
  __device__ __forceinline__ Share share_of(RowPrefix const& prefix) const {
    int const ties = count_before(prefix.tie_end);
    if (prefix.key == 0) return {-infinity(), values, ties};
    return {score_of(prefix.key), ties, 0};
  }
  __device__ __forceinline__ bool holds(Share const& share, int v) const {
    return score_[v] > share.cut || (score_[v] == share.cut && v < share.ties) ||
           (score_[v] != score_[v] && v < share.of_nan);
  }

private:
  /// Of keys at or above `key`, which is that of a number, or 0 where there are none.
  __device__ __forceinline__ Tally tally(std::uint32_t key) const {
    constexpr int chains = 2;  // sums that do not wait for each other
    float const least = score_of(key);
    float blocks[chains] = {}, high[chains] = {}, low[chains] = {};
#pragma unroll
    for (int v = 0; v < values; ++v) {
      float const one = one_where_at_least(score_[v], least);
      int const chain = v % chains;
      blocks[chain] += one;
      high[chain] = fmaf(one, high_[v], high[chain]), low[chain] = fmaf(one, low_[v], low[chain]);
    }
    return unpack(
        team_.sum(Team::warp_tally(static_cast<int>(blocks[0] + blocks[1]),
                                   static_cast<int>(high[0] + high[1]), static_cast<int>(low[0] + low[1]))));
  }

  __device__ __forceinline__ bool equals(std::uint32_t key, int v) const {
    return key == 0 ? score_[v] != score_[v] : score_[v] == score_of(key);
  }
  __device__ __forceinline__ std::uint32_t mass(int v) const {
    return (static_cast<std::uint32_t>(static_cast<int>(high_[v])) << 15) +
           static_cast<std::uint32_t>(static_cast<int>(low_[v]));
  }

  /// Of an interval of at most 32 blocks: a lane each, so that every warp knows all of them.
  __device__ __forceinline__ void narrow_to_one_key(PrefixInterval& interval, PrefixGoal goal) const {
    gather(interval);
    auto& storage = team_.storage();
    int const lane = lane_index(), candidates = static_cast<int>(storage.candidates);
    uint2 const mine = lane < candidates ? storage.candidate[lane] : make_uint2(0, 0);
    PackedTally up_to = 0;
    for (int i = 0; i < candidates; ++i) {
      uint2 const other = storage.candidate[i];
      if (other.x >= mine.x) up_to += pack_block(other.y);
    }
    Tally const with = unpack(up_to);
    Tally const reached{interval.above.blocks + with.blocks, interval.above.mass + with.mass};
    bool const is_in = lane < candidates && reached.reaches(goal);
    std::uint32_t const key = __reduce_max_sync(all_lanes, is_in ? mine.x : 0);
    auto const tally_of = [&](bool counts) {
      Tally const sum =
          unpack(Team::warp_tally(counts, counts ? mine.y >> 15 : 0, counts ? mine.y & 0x7fff : 0));
      return Tally{interval.above.blocks + sum.blocks, interval.above.mass + sum.mass};
    };
    Tally const at_or_above = tally_of(lane < candidates && mine.x >= key),
                above = tally_of(lane < candidates && mine.x > key);
    interval.in = key, interval.out = key + 1, interval.reached = at_or_above, interval.above = above;
  }

  /// In any order: what is made of the candidates does not depend on it.
  __device__ __forceinline__ void gather(PrefixInterval const& interval) const {
    auto& storage = team_.storage();
    Team::synchronize();
    if (Team::is_first_thread()) storage.candidates = 0;
    Team::synchronize();
    float const in = score_of(interval.in),
                out = score_of(interval.out);  // NaN of 0 and of what is above +inf
#pragma unroll
    for (int v = 0; v < values; ++v)
      if ((score_[v] >= in || interval.in == 0) && !(score_[v] >= out) && v < existing_)
        storage.candidate[atomicAdd(&storage.candidates, 1u)] = make_uint2(ranking_key(score_[v]), mass(v));
    Team::synchronize();
  }

  /// The block before which `ties` blocks have the key.
  __device__ __forceinline__ int end_of_ties(std::uint32_t key, int ties) const {
    int none = 0, end = blocks_;  // fewer than `ties` before `none` + 1, all of them before `end`
    if (ties <= 0) return 0;
    while (end - none > 1) {
      int const middle = none + (end - none) / 2;
      int const mine = count_before(middle);
      std::uint32_t before = 0;
#pragma unroll
      for (int v = 0; v < values; ++v) before += equals(key, v) && v < mine;
      if (static_cast<int>(team_.sum(before)) >= ties)
        end = middle;
      else
        none = middle;
    }
    return end;
  }

  Team team_;
  int blocks_, existing_;
  float score_[values], high_[values], low_[values];
  std::uint32_t greatest_, lowest_;
  Tally all_;
};

}  // namespace sparge
