#pragma once
/// Queries and keys as those of a video: neighbours are alike, things come back later, and heads look more or less sharply.

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "sparge/core/element.hpp"
#include "sparge/core/problem.hpp"
#include "sparge/reference/parallel.hpp"

namespace calibrating {

using sparge::bfloat16;

/// Contiguous [batch, heads, tokens, head_dim] each.
struct Inputs {
  sparge::AttentionProblem problem;
  std::vector<bfloat16> q, k;
};

/// Every run of tokens shows one of a few things, which queries and keys of a head share; the last run is cut short.
inline Inputs make_inputs(sparge::AttentionProblem const& p, std::uint64_t seed) {
  constexpr std::int64_t run_tokens = 192, things = 16;
  Inputs in{p, std::vector<bfloat16>(std::size_t(p.batch * p.heads * p.q_tokens * p.head_dim)), {}};
  in.k = in.q;
  sparge::reference::for_each_piece(p.batch * p.heads, {}, [&] {
    return [&](std::int64_t head) {
      std::mt19937_64 random(seed * 1000003 + std::uint64_t(head));
      std::normal_distribution<float> normal;
      std::vector<float> look(std::size_t(things * p.head_dim));
      for (float& x : look) x = normal(random);
      float const sharpness = 0.25f + 0.35f * float(head % p.heads + 1) / float(p.heads);
      std::int64_t thing = 0;
      for (std::int64_t token = 0; token < p.q_tokens; ++token) {
        if (token % run_tokens == 0) thing = std::int64_t(random() % things);
        std::int64_t const at = (head * p.q_tokens + token) * p.head_dim;
        for (std::int64_t c = 0; c < p.head_dim; ++c) {
          float const shared = sharpness * look[std::size_t(thing * p.head_dim + c)];
          in.q[std::size_t(at + c)] = __float2bfloat16(shared + normal(random));
          in.k[std::size_t(at + c)] = __float2bfloat16(shared + normal(random));
        }
      }
    };
  });
  return in;
}

}  // namespace calibrating
