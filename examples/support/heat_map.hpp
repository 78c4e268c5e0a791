#pragma once
/// Pictures of a mask.

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "sparge/core/problem.hpp"
#include "support/image.hpp"
#include "support/patches.hpp"

namespace demo {

inline bool keeps(sparge::AttentionProblem const& p, std::vector<std::uint32_t> const& mask,
                  std::int64_t q_block, std::int64_t kv_block) {
  return mask[std::size_t(q_block * p.row_words() + kv_block / 32)] >> (kv_block % 32) & 1;
}

/// From black over purple and orange to pale yellow, for share in 0..1.
inline std::array<float, 3> heat(float share) {
  static constexpr float stops[5][3] = {
      {0, 0, 0.02f}, {0.34f, 0.06f, 0.43f}, {0.73f, 0.21f, 0.33f}, {0.98f, 0.55f, 0.04f}, {0.99f, 1, 0.64f}};
  float const at = 4 * std::clamp(share, 0.0f, 1.0f);
  int const i = std::min(3, int(at));
  std::array<float, 3> colour;
  for (int c = 0; c < 3; ++c) colour[c] = stops[i][c] + (at - float(i)) * (stops[i + 1][c] - stops[i][c]);
  return colour;
}

/// The mask of the first head as a matrix, query blocks down and key blocks across: a pixel is the kept share of the
/// blocks it stands for, which is one block where the matrix has at most 1024 columns.
inline Image mask_picture(sparge::AttentionProblem const& p, std::vector<std::uint32_t> const& mask) {
  std::int64_t const pair = std::max<std::int64_t>(1, (p.kv_blocks() + 1023) / 1024);
  Image image(int((p.kv_blocks() + pair - 1) / pair), int((p.q_blocks() + pair - 1) / pair), 3);
  for (int y = 0; y < image.height; ++y)
    for (int x = 0; x < image.width; ++x) {
      int kept = 0, all = 0;
      for (std::int64_t i = y * pair; i < std::min((y + 1) * pair, p.q_blocks()); ++i)
        for (std::int64_t j = x * pair; j < std::min((x + 1) * pair, p.kv_blocks()); ++j, ++all)
          kept += keeps(p, mask, i, j);
      std::array<float, 3> const colour = heat(float(kept) / float(all));
      std::copy(colour.begin(), colour.end(), &image.at(x, y));
    }
  return image;
}

/// The picture darkened, but for the key tiles that one query block keeps; the query block itself is outlined.
inline Image kept_tiles_picture(Image const& picture, TileOrder order, sparge::AttentionProblem const& p,
                                std::vector<std::uint32_t> const& mask, std::int64_t q_block) {
  Image image = to_colour(picture);
  std::vector<char> is_query(picture.values.size());
  for (std::int64_t token = 0; token < order.tokens(); ++token) {
    std::int64_t const pixel = order.pixel_of(token);
    is_query[std::size_t(pixel)] = token / p.q_block == q_block;
    bool const kept = keeps(p, mask, q_block, token / p.kv_block);
    float const grey = picture.values[std::size_t(pixel)];
    std::array<float, 3> const colour = heat(kept ? 0.55f + 0.4f * grey : 0.0f);
    for (int c = 0; c < 3; ++c) image.values[std::size_t(3 * pixel + c)] = kept ? colour[c] : 0.45f * grey;
  }
  for (int y = 0; y < image.height; ++y)
    for (int x = 0; x < image.width; ++x) {
      auto const query = [&](int u, int v) {
        return u >= 0 && v >= 0 && u < order.side && v < order.side &&
               is_query[std::size_t(v) * order.side + u];
      };
      bool const edge =
          query(x, y) && !(query(x - 1, y) && query(x + 1, y) && query(x, y - 1) && query(x, y + 1));
      if (edge) image.at(x, y, 0) = 0.2f, image.at(x, y, 1) = image.at(x, y, 2) = 1;
    }
  return image;
}

}  // namespace demo
