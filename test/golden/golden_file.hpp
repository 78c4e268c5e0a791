#pragma once
/// Reads the files that make_golden.py writes.

#include <cstdint>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "sparge/core/problem.hpp"
#include "support/host_tensor.hpp"

namespace sparge::test {

/// An array of a golden file, widened to f64; inputs are whole eighths, stored as i8.
struct GoldenArray {
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::vector<double> values;
};

class GoldenFile {
public:
  explicit GoldenFile(std::string const& name) {
    std::ifstream file(std::string(SPARGE_TEST_DATA) + "/" + name, std::ios::binary);
    if (!file) throw std::runtime_error("cannot open golden file " + name);
    std::vector<std::string> order;
    for (std::string line; std::getline(file, line) && line != "end";) {
      std::istringstream words(line);
      GoldenArray array;
      std::string key;
      words >> key >> array.dtype;
      for (std::int64_t dim; words >> dim;) array.shape.push_back(dim);
      arrays_[key] = array;
      order.push_back(key);
    }
    for (std::string const& key : order) read(file, arrays_[key]);
    if (!file || file.peek() != std::ifstream::traits_type::eof())
      throw std::runtime_error("golden file has the wrong length: " + name);
  }

  GoldenArray const& array(std::string const& key) const { return arrays_.at(key); }
  std::vector<double> const& operator[](std::string const& key) const { return arrays_.at(key).values; }

  /// An i8 array as real numbers.
  std::vector<double> eighths(std::string const& key) const {
    std::vector<double> values = arrays_.at(key).values;
    for (double& value : values) value /= 8;
    return values;
  }

  /// An i8 array [batch, heads, tokens, channels] as a tensor of T, exactly.
  template <class T>
  HostTensor<T> tensor(std::string const& key) const {
    std::vector<std::int64_t> const& s = arrays_.at(key).shape;
    HostTensor<T> x({s.at(0), s.at(1), s.at(2), s.at(3)});
    std::vector<double> const values = eighths(key);
    for (std::size_t i = 0; i < values.size(); ++i)
      x.storage()[i] = reference::round_to<T>(static_cast<float>(values[i]));
    return x;
  }

  AttentionProblem problem() const {
    std::vector<double> const& v = arrays_.at("problem").values;
    auto const whole = [&](int i) { return static_cast<std::int64_t>(v.at(i)); };
    AttentionProblem p{whole(0), whole(1), whole(2), whole(3), whole(4), static_cast<std::int32_t>(whole(5))};
    p.q_block = static_cast<std::int32_t>(whole(6));
    p.kv_block = static_cast<std::int32_t>(whole(7));
    p.scale = static_cast<float>(v.at(8));
    return p;
  }

private:
  template <class Stored>
  static void read_as(std::istream& file, std::vector<double>& values) {
    for (double& value : values) {
      Stored stored{};
      file.read(reinterpret_cast<char*>(&stored), sizeof stored);  // little-endian, as every host of a GPU is
      value = static_cast<double>(stored);
    }
  }

  static void read(std::istream& file, GoldenArray& array) {
    std::int64_t count = 1;
    for (std::int64_t dim : array.shape) count *= dim;
    array.values.resize(static_cast<std::size_t>(count));
    if (array.dtype == "i8") return read_as<std::int8_t>(file, array.values);
    if (array.dtype == "i32") return read_as<std::int32_t>(file, array.values);
    if (array.dtype == "f32") return read_as<float>(file, array.values);
    if (array.dtype == "f64") return read_as<double>(file, array.values);
    throw std::runtime_error("unknown dtype in golden file: " + array.dtype);
  }

  std::map<std::string, GoldenArray> arrays_;
};

}  // namespace sparge::test
