#pragma once
/// Shapes of the diffusion transformers of Wan 2.1 (arXiv 2503.20314, and its published code).

#include <cmath>
#include <cstdint>
#include <vector>

#include "sparge/core/problem.hpp"
#include "sparge/core/tensor_view.hpp"

namespace engine {

/// Latent patches of a video, one a token; the last axis runs fastest.
struct Grid {
  std::int64_t frames = 0, height = 0, width = 0;
  constexpr std::int64_t tokens() const { return frames * height * width; }
};

/// A stack of equal layers, batch 1.
struct Shape {
  std::int64_t dim = 0, ffn = 0, layers = 0;
  Grid grid;
  std::int64_t tokens = 0;  ///< the first of the grid, or more than it has: then further frames
  std::int64_t text_tokens = 512;
  std::int32_t head_dim = 128;

  std::int64_t heads() const { return dim / head_dim; }
  sparge::AttentionProblem self_attention() const { return {1, heads(), heads(), tokens, tokens, head_dim}; }
  sparge::AttentionProblem cross_attention() const {
    return {1, heads(), heads(), tokens, text_tokens, head_dim};
  }
};

/// A model as published, and how much faster its authors' sparse attention made a whole generation.
struct Model {
  char const *key, *name;
  Shape shape;
  double published_speedup;
  std::int64_t measured_layers;  ///< unless asked for others
};

inline constexpr Grid grid_480p{21, 30, 52},
    grid_720p{21, 45, 80};  // 81 frames; a token is 1 x 2 x 2 latents
inline constexpr Model models[] = {
    {"1.3b", "Wan 2.1 1.3B, 480p", {1536, 8960, 30, grid_480p, grid_480p.tokens()}, 2.3, 4},
    {"14b", "Wan 2.1 14B, 720p", {5120, 13824, 40, grid_720p, grid_720p.tokens()}, 4.7, 2},
};

/// Queries, keys or values (`which` is 0, 1 or 2) in [tokens, parts, heads, head_dim], as one product leaves them.
template <class T>
sparge::TensorView<T> part_of(T* data, std::int64_t tokens, std::int64_t parts, int which, Shape const& s) {
  std::int64_t const row = parts * s.dim;
  return {data + which * s.dim, {1, s.heads(), tokens, s.head_dim}, {tokens * row, s.head_dim, row, 1}};
}

/// Cosine and sine of a rotation.
struct Turn {
  float cosine, sine;
};

/// Rotary position encoding, [tokens, head_dim / 2]: channels 2 i and 2 i + 1 of a head turn by the angle of pair i. A sixth of the channels,
/// in pairs, follows a token's column, as many its row, the rest its frame; the pairs of an axis turn by 10000^(-i / pairs) a step.
inline std::vector<Turn> make_turns(Shape const& s) {
  std::int64_t const pairs = s.head_dim / 2, in_plane = s.head_dim / 6, of_frame = pairs - 2 * in_plane;
  std::vector<Turn> turns(std::size_t(s.tokens * pairs));
  std::vector<double> frequency(static_cast<std::size_t>(pairs));
  for (std::int64_t pair = 0; pair < pairs; ++pair) {
    bool const is_frame = pair < of_frame;
    std::int64_t const i = is_frame ? pair : (pair - of_frame) % in_plane;
    frequency[std::size_t(pair)] = std::pow(10000.0, -double(i) / double(is_frame ? of_frame : in_plane));
  }
  for (std::int64_t token = 0; token < s.tokens; ++token) {
    std::int64_t const column = token % s.grid.width, row = token / s.grid.width % s.grid.height,
                       frame = token / (s.grid.width * s.grid.height);
    for (std::int64_t pair = 0; pair < pairs; ++pair) {
      std::int64_t const position = pair < of_frame ? frame : pair < of_frame + in_plane ? row : column;
      double const angle = double(position) * frequency[std::size_t(pair)];
      turns[std::size_t(token * pairs + pair)] = {float(std::cos(angle)), float(std::sin(angle))};
    }
  }
  return turns;
}

}  // namespace engine
