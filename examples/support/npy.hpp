#pragma once
/// NumPy's .npy files, as far as the demo needs them: little-endian f16 and f32, C order, up to four axes.

#include <cstdint>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "sparge/core/element.hpp"

namespace demo {

using sparge::float16;

/// A contiguous array; f32 files are rounded to f16 on reading.
struct NpyArray {
  std::vector<std::int64_t> shape;
  std::vector<float16> values;
};

/// The text between `key` and the next character of `ends` in a header such as
/// {'descr': '<f2', 'fortran_order': False, 'shape': (2, 3), }.
inline std::string npy_field(std::string const& header, std::string const& key, char const* ends) {
  std::size_t const at = header.find("'" + key + "':");
  if (at == std::string::npos) throw std::runtime_error("has no '" + key + "' in its header");
  std::size_t const begin = header.find_first_not_of(" '(", at + key.size() + 3);
  std::size_t const end = header.find_first_of(ends, begin);
  if (end == std::string::npos) throw std::runtime_error("has an unreadable '" + key + "' in its header");
  return header.substr(begin, end - begin);
}

inline std::vector<std::int64_t> npy_shape(std::string const& text) {
  std::vector<std::int64_t> shape;
  for (std::size_t at = 0; (at = text.find_first_of("0123456789", at)) != std::string::npos;) {
    std::size_t digits = 0;
    shape.push_back(std::stoll(text.substr(at), &digits));
    at += digits;
  }
  return shape;
}

/// The header's text; versions 1 and 2 differ in the width of its length.
inline std::string read_npy_header(std::istream& file) {
  unsigned char start[8] = {}, size[4] = {};
  file.read(reinterpret_cast<char*>(start), 8);
  if (!file || std::memcmp(start, "\x93NUMPY", 6) != 0) throw std::runtime_error("is not a .npy file");
  file.read(reinterpret_cast<char*>(size), start[6] == 1 ? 2 : 4);
  std::string header(size[0] | size[1] << 8 | size[2] << 16, '\0');
  file.read(header.data(), std::streamsize(header.size()));
  if (!file) throw std::runtime_error("ends inside its header");
  return header;
}

template <class T>
std::vector<T> read_values(std::istream& file, std::int64_t count) {
  std::vector<T> values(static_cast<std::size_t>(count));
  file.read(reinterpret_cast<char*>(values.data()), std::streamsize(values.size() * sizeof(T)));
  if (!file) throw std::runtime_error("has fewer values than its shape says");
  return values;
}

inline NpyArray read_npy_stream(std::istream& file) {
  std::string const header = read_npy_header(file);
  std::string const type = npy_field(header, "descr", "'");
  if (npy_field(header, "fortran_order", ",}") != "False") throw std::runtime_error("is in Fortran order");
  NpyArray array{npy_shape(npy_field(header, "shape", ")")), {}};
  std::int64_t count = 1;
  for (std::int64_t n : array.shape) count *= n;
  if (type == "<f2") {
    array.values = read_values<float16>(file, count);
  } else if (type == "<f4") {
    for (float x : read_values<float>(file, count)) array.values.push_back(__float2half(x));
  } else {
    throw std::runtime_error("holds '" + type + "'; '<f2' and '<f4' are read");
  }
  return array;
}

inline NpyArray read_npy(std::string const& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot open " + path);
  try {
    return read_npy_stream(file);
  } catch (std::runtime_error const& error) {
    throw std::runtime_error(path + " " + error.what());
  }
}

/// All of a file before its values: version 1, up to a multiple of 64 bytes.
inline std::string npy_start(std::string const& type, std::vector<std::int64_t> const& shape) {
  std::string header = "{'descr': '" + type + "', 'fortran_order': False, 'shape': (";
  for (std::int64_t n : shape) header += std::to_string(n) + ", ";
  header += "), }";
  header.append(64 - (10 + header.size() + 1) % 64, ' ');
  header += '\n';
  std::string start("\x93NUMPY\x01\x00", 8);
  start += char(header.size() & 255);
  start += char(header.size() >> 8);
  return start + header;
}

/// Writes f32 values of the given shape.
inline void write_npy(std::string const& path, std::vector<std::int64_t> const& shape,
                      std::vector<float> const& values) {
  std::ofstream file(path, std::ios::binary);
  file << npy_start("<f4", shape);
  file.write(reinterpret_cast<char const*>(values.data()), std::streamsize(values.size() * sizeof(float)));
  if (!file) throw std::runtime_error("cannot write " + path);
}

}  // namespace demo
