#pragma once
/// Non-local means as attention: a picture becomes q, k and v, and attention's output becomes a picture again.
///
/// Non-local means replaces a pixel by the mean of all pixels, weighted by exp(-|patch_i - patch_j|^2 / h^2). The square
/// is |q|^2 - 2 (q.k - |k|^2 / 2); |q|^2 is the same for a whole row and cancels, so the weights are the softmax over keys of
/// (2 / h^2) (q.k - |k|^2 / 2). With three more channels for the second term, that is attention with scale 2 / h^2.

#include <cmath>
#include <cstdint>
#include <vector>

#include "sparge/core/element.hpp"
#include "support/image.hpp"

namespace demo {

using sparge::float16;

/// Tokens run through the picture tile by tile, so that a block of tokens is a piece of the picture: 64 keys are a tile
/// of 8 x 8 pixels, 128 queries are two tiles beside each other.
struct TileOrder {
  static constexpr int tile = 8;
  static constexpr int side_multiple =
      2 * tile;  ///< an even number of tiles a row keeps query blocks together
  int side = 0;  ///< of the square picture, in pixels

  std::int64_t tokens() const { return std::int64_t(side) * side; }
  /// y * side + x of a token.
  std::int64_t pixel_of(std::int64_t token) const {
    std::int64_t const tiles_a_row = side / tile, index = token / (tile * tile),
                       in_tile = token % (tile * tile);
    std::int64_t const y = index / tiles_a_row * tile + in_tile / tile;
    std::int64_t const x = index % tiles_a_row * tile + in_tile % tile;
    return y * side + x;
  }
};

inline constexpr int patch_side = 7;
inline constexpr int patch_channels = patch_side * patch_side;
inline constexpr int head_dim = 64;

/// Contiguous [tokens, head_dim] each; v's channel 0 is the pixel less `mean`.
struct PatchTokens {
  std::vector<float16> q, k, v;
  float mean = 0;
};

/// A pixel of a picture that is mirrored at its edges.
inline float mirrored(Image const& image, int x, int y) {
  auto const inside = [](int i, int size) { return i < 0 ? -i : i >= size ? 2 * size - 2 - i : i; };
  return image.at(inside(x, image.width), inside(y, image.height));
}

/// The nearest f16 value, as f32.
inline float round_to_f16(float x) { return __half2float(__float2half(x)); }

/// Writes the patch around (x, y) as f16 and returns half the square of what was written.
inline double write_patch(Image const& image, float mean, int x, int y, float16* channels) {
  double square = 0;
  for (int i = 0; i < patch_channels; ++i) {
    float const value =
        mirrored(image, x + i % patch_side - patch_side / 2, y + i / patch_side - patch_side / 2);
    channels[i] = __float2half(value - mean);
    square += double(__half2float(channels[i])) * __half2float(channels[i]);
  }
  return square / 2;
}

inline PatchTokens make_tokens(Image const& image, TileOrder order) {
  std::int64_t const tokens = order.tokens();
  PatchTokens t;
  t.q.assign(tokens * head_dim, float16{});
  t.k = t.v = t.q;
  double sum = 0;
  for (float v : image.values) sum += v;
  t.mean = float(sum / double(tokens));
  for (std::int64_t token = 0; token < tokens; ++token) {
    std::int64_t const pixel = order.pixel_of(token);
    float16 *q = &t.q[token * head_dim], *k = &t.k[token * head_dim];
    double rest = -write_patch(image, t.mean, int(pixel % order.side), int(pixel / order.side), k);
    for (int i = 0; i < patch_channels; ++i) q[i] = k[i];
    for (int part = 0; part < 3; ++part) {  // high, middle and low: one f16 would lose the logits' digits
      q[patch_channels + part] = __float2half(1.0f);
      k[patch_channels + part] = __float2half(float(rest));
      rest -= __half2float(k[patch_channels + part]);
    }
    t.v[token * head_dim] = __float2half(image.values[pixel] - t.mean);
  }
  return t;
}

/// h^2 = patch_channels sigma^2: between two noisy copies of one patch the exponent is then -2 on average.
inline float logit_scale(double sigma) { return float(2 / (patch_channels * sigma * sigma)); }

/// Channel 0 of [rows, head_dim] plus the mean: the grey value of each row.
inline std::vector<float> to_grey(std::vector<float16> const& out, float mean) {
  std::vector<float> grey(out.size() / head_dim);
  for (std::size_t i = 0; i < grey.size(); ++i) grey[i] = __half2float(out[i * head_dim]) + mean;
  return grey;
}

inline Image to_picture(std::vector<float> const& grey, TileOrder order) {
  Image image(order.side, order.side);
  for (std::int64_t token = 0; token < order.tokens(); ++token)
    image.values[order.pixel_of(token)] = grey[token];
  return image;
}

}  // namespace demo
