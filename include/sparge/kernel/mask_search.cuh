#pragma once
/// Where to look next for the end of a prefix: the interval of keys that holds it, and a key inside.

#include <cstdint>

#include "sparge/device/math.cuh"
#include "sparge/kernel/mask_rule.cuh"

namespace sparge {

/// The keys at or above `in` reach the goal, those at or above `out` do not: the prefix ends at a key in [in, out).
struct PrefixInterval {
  std::uint32_t in, out;
  Tally reached, above;  ///< of the keys at or above `in` and `out`
  bool in_moved = false;

  __device__ __forceinline__ std::int64_t blocks() const { return reached.blocks - above.blocks; }
  __device__ __forceinline__ bool is_one_key() const { return out - in <= 1; }

  __device__ __forceinline__ void narrow(std::uint32_t key, Tally at_or_above, PrefixGoal goal) {
    in_moved = at_or_above.reaches(goal);
    if (in_moved)
      in = key, reached = at_or_above;
    else
      out = key, above = at_or_above;
  }
};

/// How far from `in` to `out` a quantity that falls from `most` to `least`, as an exponential does, passes `goal`; 1 where it
/// is at least the goal all the way.
__device__ __forceinline__ float share_of_way(float most, float goal, float least) {
  if (goal <= least) return 1;
  float const top = log2_fast(most);
  return __fdividef(top - log2_fast(goal), top - log2_fast(least));
}

/// The next key to ask about. The tails of rows of scores fall much like exponentials, so the first guesses treat the number of
/// blocks and their mass as one, a little beyond the goal on the side that stood still last, so that both ends close in;
/// later guesses take turns with halves of the interval, so that nothing takes more than 72 guesses. Any guess is right.
__device__ __forceinline__ std::uint32_t next_key(PrefixInterval const& at, PrefixGoal goal,
                                                  std::uint32_t lowest, int guesses) {
  std::uint32_t const least = at.in < lowest ? lowest : at.in + 1, most = at.out - 1,
                      half = least + (most - least) / 2;
  if (guesses >= 8 && guesses % 2 != 0) return half;
  float const low = score_of(at.in > lowest ? at.in : lowest), way = score_of(most) - low;
  float share = fminf(share_of_way(static_cast<float>(static_cast<int>(at.reached.blocks)),
                                   static_cast<float>(static_cast<int>(goal.blocks)),
                                   fmaxf(static_cast<float>(static_cast<int>(at.above.blocks)), 0.5f)),
                      share_of_way(static_cast<float>(at.reached.mass), static_cast<float>(goal.mass),
                                   fmaxf(static_cast<float>(at.above.mass), 0x1p29f)));
  float const beyond = guesses == 0 ? 0 : guesses < 3 ? 0.25f : 0.125f;
  share = at.in_moved ? fmaf(1 - share, beyond, share) : share - share * beyond;
  float const guess = fmaf(share, way, low);
  if (!(fabsf(guess) < infinity())) return half;
  std::uint32_t const key = ranking_key(guess);
  return key < least ? least : key > most ? most : key;
}

}  // namespace sparge
