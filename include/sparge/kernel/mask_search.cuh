#pragma once
/// Where to look next for the end of a prefix: the interval of keys that holds it, and a key inside.

#include <cstdint>

#include "sparge/device/math.cuh"
#include "sparge/kernel/mask_rule.cuh"

namespace sparge {

/// Among so few blocks the end of a prefix is found by looking at all of them: a lane each.
inline constexpr int few_blocks = 32;

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

/// Near enough for a guess, in units of 2^16 of it.
__device__ __forceinline__ float mass_as_float(std::uint64_t mass) {
  return static_cast<float>(static_cast<std::uint32_t>(mass >> 16));
}

/// The next key to ask about. The tails of rows of scores fall much like exponentials, so guesses treat the number of blocks and
/// their mass as one, and after the first aim beyond the goal on the side that stood still last, so that both ends close in: by
/// `aside` blocks, or by what the guess may be wrong; after eight guesses every second halves the interval, so that nothing takes more than 72. Any guess is right.
__device__ __forceinline__ std::uint32_t next_key(PrefixInterval const& at, PrefixGoal goal,
                                                  std::uint32_t lowest, int guesses) {
  constexpr float aside = 0.375f * few_blocks;
  std::uint32_t const least = at.in < lowest ? lowest : at.in + 1, most = at.out - 1,
                      half = least + (most - least) / 2;
  if (guesses >= 8 && guesses % 2 != 0) return half;
  float const low = score_of(at.in > lowest ? at.in : lowest), way = score_of(most) - low;
  float const reached = static_cast<float>(static_cast<int>(at.reached.blocks)),
              above = fmaxf(static_cast<float>(static_cast<int>(at.above.blocks)), 0.5f);
  float const share = fminf(share_of_way(reached, static_cast<float>(static_cast<int>(goal.blocks)), above),
                            share_of_way(mass_as_float(at.reached.mass), mass_as_float(goal.mass),
                                         fmaxf(mass_as_float(at.above.mass), 0x1p13f)));
  float const falls = log2_fast(reached) - log2_fast(above),  // over the whole way
      blocks = reached * exp2_fast(-share * falls);
  float const wrong =
      (guesses < 3 ? 1.0f : 0.5f) * share * (1 - share);  // as tails that are no exponentials are
  float const beyond = guesses == 0 ? 0 : fmaxf(__fdividef(aside / ln_2, blocks * falls), wrong);
  float const up = fminf(beyond, 0.5f * (1 - share)), down = fminf(beyond, 0.5f * share);
  float const guess = fmaf(at.in_moved ? share + up : share - down, way, low);
  if (!(fabsf(guess) < infinity())) return half;
  std::uint32_t const key = ranking_key(guess);
  return key < least ? least : key > most ? most : key;
}

}  // namespace sparge
