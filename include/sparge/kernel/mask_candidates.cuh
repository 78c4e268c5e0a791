#pragma once
/// The blocks of a row that may be where its prefix ends: those that score at least a floor, in shared memory.

#include <cstdint>

#include "sparge/device/shared_list.cuh"
#include "sparge/device/swizzle.cuh"
#include "sparge/kernel/mask_row_team.cuh"
#include "sparge/kernel/mask_search.cuh"

namespace sparge {

/// A list for each thread, which no other touches, with room for all of the thread's `values`. Lists of a warp are padded to the
/// longest one by NaN of no mass, so that no loop asks how long a list is. Masses of short rows are listed too; those of long ones
/// are made again, so that two rows fit an SM.
template <int warps, int values>
class CandidateLists {
public:
  using Team = RowTeam<warps>;
  static constexpr int stride = Team::threads;  ///< from one entry of a list to the next
  static constexpr bool lists_masses = warps == 1;
  static constexpr int words = (lists_masses ? 2 : 1) * values * stride;  ///< of a row: scores, then masses
  static constexpr std::int64_t bytes = std::int64_t{4} * words;

  __device__ __forceinline__ explicit CandidateLists(std::uint32_t* words_of_row)
      : score_(reinterpret_cast<float*>(words_of_row) + Team::thread()),
        mass_(words_of_row + values * stride + Team::thread()) {}

  /// Takes the scores that are at least `floor`; what they and their masses come to. `largest` is that of the row, and finite.
  __device__ __forceinline__ Tally take(Team const& team, float const (&scores)[values], float floor,
                                        float largest) {
    std::uint32_t const begin = shared_address(score_);
    std::uint32_t end = begin;
#pragma unroll
    for (int v = 0; v < values; ++v) append_if_at_least<4 * stride>(end, scores[v], floor);
    int const blocks = static_cast<int>((end - begin) / (4 * stride));
    largest_ = largest;
    longest_ = __reduce_max_sync(all_lanes, static_cast<std::uint32_t>(blocks));
    std::uint64_t mass = 0;
    for (int i = 0; i < longest_; ++i) {
      float const score = i < blocks ? score_[i * stride] : __uint_as_float(0x7fffffff);
      std::uint32_t const one = finite_softmax_mass(score, largest);
      score_[i * stride] = score;
      if constexpr (lists_masses) mass_[i * stride] = one;
      mass += one;
    }
    return team.tally(blocks, mass);
  }

  /// Of scores that are at least `least`.
  __device__ __forceinline__ Tally tally(Team const& team, float least) const {
    int blocks = 0;
    std::uint64_t mass = 0;
#pragma unroll 2
    for (int i = 0; i < longest_; ++i) {
      float const score = score_[i * stride];
      bool const counts = score >= least;
      blocks += counts;
      mass += counts ? mass_of(i, score) : 0;
    }
    return team.tally(blocks, mass);
  }

  /// Narrows an interval of at most `few_blocks` blocks to one key.
  __device__ __forceinline__ void narrow_to_one_key(Team const& team, PrefixInterval& interval,
                                                    PrefixGoal goal) const {
    gather(team, score_of(interval.in), score_of(interval.out));
    auto const& candidate = team.storage().candidate;
    int const lane = lane_index(), candidates = static_cast<int>(interval.blocks());
    uint2 const mine = candidate[lane];
    PackedTally up_to = 0;
    for (int i = 0; i < candidates; i += 2) {
      uint4 const two = *reinterpret_cast<uint4 const*>(&candidate[i]);
      if (two.x >= mine.x) up_to += pack_block(two.y);
      if (two.z >= mine.x) up_to += pack_block(two.w);
    }
    Tally const with = plus(interval.above, up_to);
    std::uint32_t const key =
        __reduce_max_sync(all_lanes, lane < candidates && with.reaches(goal) ? mine.x : 0);
    unsigned const ties = __ballot_sync(all_lanes, mine.x == key);
    int const one = __ffs(static_cast<int>(ties)) - 1;
    up_to = __shfl_sync(all_lanes, up_to, one);
    std::uint32_t const mass = __shfl_sync(all_lanes, mine.y, one);
    interval.reached = plus(interval.above, up_to);
    interval.above = plus(interval.above, up_to - __popc(ties) * pack_block(mass));
    interval.in = key, interval.out = key + 1;
  }

private:
  __device__ __forceinline__ std::uint32_t mass_of(int i, float score) const {
    if constexpr (lists_masses)
      return mass_[i * stride];
    else
      return finite_softmax_mass(score, largest_);
  }

  static __device__ __forceinline__ Tally plus(Tally a, PackedTally packed) {
    Tally const b = unpack(packed);
    return {a.blocks + b.blocks, a.mass + b.mass};
  }

  /// In any order: what is made of the candidates does not depend on it. Where there are fewer than few_blocks, zeros follow.
  __device__ __forceinline__ void gather(Team const& team, float in, float out) const {
    auto& storage = team.storage();
    if (Team::warp() == 0) {
      storage.candidate[lane_index()] = make_uint2(0, 0);
      if (lane_index() == 0) storage.candidates = 0;
    }
    Team::synchronize();
    int taken = 0;
    for (int i = 0; i < longest_; ++i) {
      float const score = score_[i * stride];
      bool const is_one = score >= in && !(score >= out);  // `out` is NaN above +inf
      unsigned const ballot = __ballot_sync(all_lanes, is_one);
      if (ballot == 0) continue;
      int const place = team.reserve(ballot, taken) + count_lower_lanes(ballot);
      if (is_one) storage.candidate[place] = make_uint2(ranking_key(score), mass_of(i, score));
    }
    Team::synchronize();
  }

  float* score_;
  std::uint32_t* mass_;
  float largest_ = 0;
  int longest_ = 0;
};

}  // namespace sparge
