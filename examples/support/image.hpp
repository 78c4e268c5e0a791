#pragma once
/// Grey pictures: PNG files, cropping, scaling, noise, PSNR.

#include <png.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace demo {

/// A picture of `channels` values a pixel (1 = grey, 3 = red, green, blue), row by row, each in 0..1.
struct Image {
  int width = 0, height = 0, channels = 1;
  std::vector<float> values;

  Image() = default;
  Image(int w, int h, int c = 1) : width(w), height(h), channels(c), values(std::size_t(w) * h * c) {}

  float& at(int x, int y, int c = 0) { return values[(std::size_t(y) * width + x) * channels + c]; }
  float at(int x, int y, int c = 0) const { return values[(std::size_t(y) * width + x) * channels + c]; }
};

/// Reads any PNG as grey; colour is weighted by luminance, transparency lies on white.
inline Image read_png(std::string const& path) {
  png_image png{};
  png.version = PNG_IMAGE_VERSION;
  if (!png_image_begin_read_from_file(&png, path.c_str()))
    throw std::runtime_error("cannot read " + path + ": " + png.message);
  png.format = PNG_FORMAT_GRAY;
  std::vector<png_byte> bytes(PNG_IMAGE_SIZE(png), 255);
  if (!png_image_finish_read(&png, nullptr, bytes.data(), 0, nullptr))
    throw std::runtime_error("cannot read " + path + ": " + png.message);
  Image image(int(png.width), int(png.height));
  std::transform(bytes.begin(), bytes.end(), image.values.begin(), [](png_byte b) { return b / 255.0f; });
  return image;
}

inline void write_png(std::string const& path, Image const& image) {
  png_image png{};
  png.version = PNG_IMAGE_VERSION;
  png.width = png_uint_32(image.width);
  png.height = png_uint_32(image.height);
  png.format = image.channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
  std::vector<png_byte> bytes(image.values.size());
  std::transform(image.values.begin(), image.values.end(), bytes.begin(),
                 [](float v) { return png_byte(std::lround(255 * std::clamp(v, 0.0f, 1.0f))); });
  if (!png_image_write_to_file(&png, path.c_str(), 0, bytes.data(), 0, nullptr))
    throw std::runtime_error("cannot write " + path + ": " + png.message);
}

/// The square in the middle.
inline Image crop_square(Image const& image) {
  int const side = std::min(image.width, image.height);
  int const left = (image.width - side) / 2, top = (image.height - side) / 2;
  Image square(side, side);
  for (int y = 0; y < side; ++y)
    for (int x = 0; x < side; ++x) square.at(x, y) = image.at(left + x, top + y);
  return square;
}

/// Weights with which `size` equal intervals cover `from` >= `size` pixels: [interval][pixel - first].
struct Coverage {
  int first;
  std::vector<float> weight;
};

inline std::vector<Coverage> coverage(int from, int size) {
  std::vector<Coverage> intervals;
  double const step = double(from) / size;
  for (int i = 0; i < size; ++i) {
    double const begin = i * step, end = begin + step;
    Coverage c{int(begin), {}};
    for (int pixel = c.first; pixel < std::min<double>(end, from); ++pixel)
      c.weight.push_back(float((std::min<double>(end, pixel + 1) - std::max<double>(begin, pixel)) / step));
    intervals.push_back(std::move(c));
  }
  return intervals;
}

/// A square picture made smaller: each pixel is the mean of the area it covers.
inline Image shrink(Image const& image, int size) {
  if (size > image.width) throw std::runtime_error("the picture has fewer than --size pixels a side");
  if (size == image.width) return image;
  std::vector<Coverage> const cover = coverage(image.width, size);
  Image small(size, size);
  for (int y = 0; y < size; ++y)
    for (int x = 0; x < size; ++x)
      for (std::size_t dy = 0; dy < cover[y].weight.size(); ++dy)
        for (std::size_t dx = 0; dx < cover[x].weight.size(); ++dx)
          small.at(x, y) += cover[y].weight[dy] * cover[x].weight[dx] *
                            image.at(cover[x].first + int(dx), cover[y].first + int(dy));
  return small;
}

/// Each pixel becomes a square of `times` x `times`, so that small pictures can be looked at.
inline Image enlarge(Image const& image, int times) {
  Image big(image.width * times, image.height * times, image.channels);
  for (int y = 0; y < big.height; ++y)
    for (int x = 0; x < big.width; ++x)
      for (int c = 0; c < image.channels; ++c) big.at(x, y, c) = image.at(x / times, y / times, c);
  return big;
}

inline Image to_colour(Image const& image) {
  if (image.channels == 3) return image;
  Image colour(image.width, image.height, 3);
  for (std::size_t i = 0; i < image.values.size(); ++i)
    for (int c = 0; c < 3; ++c) colour.values[3 * i + c] = image.values[i];
  return colour;
}

/// Pictures of one height in a row, with a white gap between them.
inline Image side_by_side(std::vector<Image> const& images, int gap = 8) {
  int width = -gap;
  for (Image const& image : images) width += image.width + gap;
  Image row(width, images.front().height, 3);
  std::fill(row.values.begin(), row.values.end(), 1.0f);
  int left = 0;
  for (Image const& image : images) {
    Image const colour = to_colour(image);
    for (int y = 0; y < colour.height; ++y)
      std::copy_n(&colour.values[std::size_t(y) * colour.width * 3], colour.width * 3, &row.at(left, y));
    left += image.width + gap;
  }
  return row;
}

/// Normally distributed numbers that are the same on every machine: splitmix64, then Box and Muller's transform.
class Noise {
public:
  explicit Noise(std::uint64_t seed) : state_(seed) {}

  double normal() {
    double const two_pi = 6.283185307179586;
    double const radius = std::sqrt(-2 * std::log(uniform()));
    return radius * std::cos(two_pi * uniform());
  }

private:
  /// In (0, 1].
  double uniform() {
    state_ += 0x9e3779b97f4a7c15ull;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return double(((z ^ (z >> 31)) >> 11) + 1) * 0x1p-53;
  }
  std::uint64_t state_;
};

inline Image add_noise(Image image, double sigma, std::uint64_t seed) {
  Noise noise(seed);
  for (float& v : image.values) v += float(sigma * noise.normal());
  return image;
}

/// Peak signal-to-noise ratio in dB over the given pixels (indices y * width + x), peak 1.
inline double psnr(Image const& truth, std::vector<float> const& values,
                   std::vector<std::int64_t> const& pixels) {
  double sum = 0;
  for (std::size_t i = 0; i < pixels.size(); ++i) {
    double const difference = double(values[i]) - truth.values[std::size_t(pixels[i])];
    sum += difference * difference;
  }
  return -10 * std::log10(sum / double(pixels.size()));
}

}  // namespace demo
