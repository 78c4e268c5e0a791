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

/// Ranking keys and softmax masses; `values` of them a lane. A warp holds 32 consecutive blocks at a time, one word of the
/// mask. Blocks that do not exist have key 0, as NaN has, and no mass.
template <int warps, int values>
class RegisterRow {
public:
  using Team = RowTeam<warps>;

  __device__ __forceinline__ RegisterRow(Team const& team, std::uint32_t const* scores, int blocks)
      : team_(team), blocks_(blocks), existing_(count_before(blocks)) {
    std::uint32_t const* const mine = scores + block(0);
    std::uint32_t greatest = 0, least = ~0u;
#pragma unroll
    for (int v = 0; v < values; ++v) mass_[v] = v < existing_ ? mine[32 * warps * v] : 0x7fffffff;  // NaN
#pragma unroll
    for (int v = 0; v < values; ++v) {
      key_[v] = ranking_key(__uint_as_float(mass_[v]));
      greatest = key_[v] > greatest ? key_[v] : greatest;
      least = key_[v] - 1 < least ? key_[v] - 1 : least;  // key 0 becomes the greatest
    }
    greatest_ = team_.max(greatest), lowest_ = team_.min(least) + 1;
    float const largest = score_of(greatest_);
#pragma unroll
    for (int v = 0; v < values; ++v) mass_[v] = softmax_mass(__uint_as_float(mass_[v]), largest);
    all_ = tally(1);
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
    }
    if (!interval.is_one_key()) narrow_to_one_key(interval, goal);
    std::int64_t const ties = count_ties(goal, interval.reached, interval.above);
    return {interval.in,
            ties == interval.blocks() ? blocks_ : end_of_ties(interval.in, static_cast<int>(ties))};
  }

  /// `ties` is count_before(prefix.tie_end); blocks that do not exist lie past every such end.
  __device__ __forceinline__ bool holds(RowPrefix const& prefix, int ties, int v) const {
    return key_[v] > prefix.key || (key_[v] == prefix.key && v < ties);
  }

private:
  /// Of keys at or above `key` > 0.
  __device__ __forceinline__ Tally tally(std::uint32_t key) const {
    constexpr int chains = 2;  // sums that do not wait for each other
    constexpr std::uint32_t one_block = 1u << (tally_mass_bits - 32);
    std::uint32_t low[chains] = {}, high[chains] = {};
#pragma unroll
    for (int v = 0; v < values; ++v)
      add_where_at_least(low[v % chains], high[v % chains], key_[v], key, mass_[v], one_block);
    PackedTally sum = 0;
#pragma unroll
    for (int chain = 0; chain < chains; ++chain) sum += PackedTally{high[chain]} << 32 | low[chain];
    return unpack(team_.sum(sum));
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
      Tally const sum = unpack(Team::warp_tally(counts ? pack_block(mine.y) : 0));
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
#pragma unroll
    for (int v = 0; v < values; ++v)
      if (key_[v] - interval.in < interval.out - interval.in && v < existing_)
        storage.candidate[atomicAdd(&storage.candidates, 1u)] = make_uint2(key_[v], mass_[v]);
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
      for (int v = 0; v < values; ++v) before += key_[v] == key && v < mine;
      if (static_cast<int>(team_.sum(before)) >= ties)
        end = middle;
      else
        none = middle;
    }
    return end;
  }

  Team team_;
  int blocks_, existing_;
  std::uint32_t key_[values], mass_[values];
  std::uint32_t greatest_, lowest_;
  Tally all_;
};

}  // namespace sparge
