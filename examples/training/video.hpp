#pragma once
/// Short synthetic videos as tokens: blobs that move before drifting waves, in channels of about unit variance, as the latents
/// of video models are.

#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include "sparge/reference/parallel.hpp"
#include "training/random.hpp"

namespace training {

inline constexpr int latent_channels = 48, place_channels = 15;
inline constexpr int clock_channel = latent_channels + place_channels;
inline constexpr int channels = clock_channel + 1;  ///< of a token: latents, place, clock

/// Tokens run through the video in cubes of 4 x 4 x 4, so that a block of 64 tokens is a piece of it.
struct VideoShape {
  static constexpr std::int64_t cube = 4;
  std::int64_t frames = 0, rows = 0, columns = 0;  ///< multiples of `cube`

  std::int64_t tokens() const { return frames * rows * columns; }

  /// Frame, row and column of a token.
  std::array<std::int64_t, 3> place_of(std::int64_t token) const {
    std::int64_t const index = token / (cube * cube * cube), inside = token % (cube * cube * cube);
    std::int64_t const across = columns / cube, down = rows / cube;
    return {index / across / down * cube + inside / cube / cube,
            index / across % down * cube + inside / cube % cube, index % across * cube + inside % cube};
  }
};

/// One video: patterns that move, each with a shade for every latent channel.
class Video {
public:
  explicit Video(std::uint64_t seed) : random_(seed) {
    std::uint64_t at = 0;
    auto const draw = [&](double least, double most) { return random_.uniform(at++, least, most); };
    for (Wave& wave : waves_) wave = {draw(-2, 2), draw(-2, 2), draw(-1, 1), draw(0, 1)};
    for (Blob& blob : blobs_)
      blob = {draw(0, 1), draw(0, 1), draw(-0.6, 0.6), draw(-0.6, 0.6), draw(0.08, 0.25)};
    for (auto& shades : shades_)
      for (double& shade : shades) shade = random_.normal(at++);
  }

  /// Adds up the patterns at a point of the unit square and of the unit of time.
  void write(double time, double y, double x, float* latents) const {
    std::array<double, waves + blobs> strength;
    std::size_t at = 0;
    for (Wave const& w : waves_)
      strength[at++] = 0.7 * std::sin(two_pi * (w.x * x + w.y * y + w.time * time + w.phase));
    for (Blob const& b : blobs_) {
      double const dx = x - b.x - b.dx * time, dy = y - b.y - b.dy * time;
      strength[at++] = 1.4 * std::exp(-(dx * dx + dy * dy) / (2 * b.radius * b.radius));
    }
    for (std::size_t c = 0; c < latent_channels; ++c) {
      double sum = 0;
      for (std::size_t i = 0; i < strength.size(); ++i) sum += strength[i] * shades_[i][c];
      latents[c] = float(sum);
    }
  }

private:
  static constexpr std::size_t waves = 3, blobs = 8;
  struct Wave {
    double x, y, time, phase;
  };
  struct Blob {
    double x, y, dx, dy, radius;
  };
  Random random_;
  std::array<Wave, waves> waves_{};
  std::array<Blob, blobs> blobs_{};
  std::array<std::array<double, latent_channels>, waves + blobs> shades_{};
};

/// Noise x0 and data x1, [batch, tokens, channels], and a time for each sample.
struct Batch {
  std::vector<float> x0, x1, t;
};

/// The last channels of a token, the same in noise and data, so that x_t has them too: where it is, at three scales ...
inline void write_place(VideoShape const& shape, std::array<std::int64_t, 3> const& place, float* out) {
  double const size[3] = {double(shape.frames), double(shape.rows), double(shape.columns)};
  for (int axis = 0; axis < 3; ++axis) {
    double const u = (double(place[std::size_t(axis)]) + 0.5) / size[axis];
    *out++ = float(2 * u - 1);
    for (double turns : {0.5, 1.0}) {
      *out++ = float(std::sin(two_pi * turns * u));
      *out++ = float(std::cos(two_pi * turns * u));
    }
  }
}

inline void write_token(VideoShape const& shape, Video const& video, Random const& noise, std::int64_t token,
                        float* x0, float* x1) {
  auto const place = shape.place_of(token);
  for (int i = 0; i < latent_channels; ++i)
    x0[i] = float(noise.normal(std::uint64_t(token * latent_channels + i)));
  double const size[3] = {double(shape.frames), double(shape.rows), double(shape.columns)};
  video.write((double(place[0]) + 0.5) / size[0], (double(place[1]) + 0.5) / size[1],
              (double(place[2]) + 0.5) / size[2], x1);
  write_place(shape, place, x0 + latent_channels);
  write_place(shape, place, x1 + latent_channels);
  x0[clock_channel] = 0;  // ... and a clock, that t x1 + (1 - t) x0 sets to t
  x1[clock_channel] = 1;
}

/// Batch number `index` of a seed: new videos and new noise. Times are spread evenly over (0, 1) from a random start.
inline Batch make_batch(VideoShape const& shape, std::int64_t samples, std::uint64_t seed,
                        std::uint64_t index) {
  std::int64_t const tokens = shape.tokens();
  Batch batch;
  batch.x0.resize(std::size_t(samples * tokens * channels));
  batch.x1.resize(batch.x0.size());
  double const start = Random(seed, index).uniform(0);
  for (std::int64_t sample = 0; sample < samples; ++sample) {
    batch.t.push_back(float(std::fmod(start + double(sample) / double(samples), 1.0)));
    std::uint64_t const stream = index * std::uint64_t(samples) + std::uint64_t(sample);
    Video const video(Random(seed, stream).uniform(1) * 0x1p53);
    Random const noise(seed ^ 0x6e6f697365ull, stream);
    sparge::reference::for_each_piece(tokens, {}, [&] {
      return [&](std::int64_t token) {
        std::int64_t const at = (sample * tokens + token) * channels;
        write_token(shape, video, noise, token, &batch.x0[std::size_t(at)], &batch.x1[std::size_t(at)]);
      };
    });
  }
  return batch;
}

}  // namespace training
