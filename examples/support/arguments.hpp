#pragma once
/// Command-line options and their values.

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>

namespace demo {

enum class Where { automatic, cpu, gpu };

inline std::string short_text(double x) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", x);
  return text;
}

/// The whole of `text` as a number in [least, most].
inline double parse_number(std::string const& option, std::string const& text, double least, double most) {
  std::size_t used = 0;
  double value = std::nan("");
  try {
    value = std::stod(text, &used);
  } catch (std::exception const&) {
  }
  if (used != text.size() || !(value >= least && value <= most))
    throw std::runtime_error(option + ": given '" + text + "', needs a number from " + short_text(least) +
                             " to " + short_text(most));
  return value;
}

inline std::int64_t parse_whole(std::string const& option, std::string const& text, double least,
                                double most) {
  double const value = parse_number(option, text, least, most);
  if (value != std::floor(value))
    throw std::runtime_error(option + ": given '" + text + "', needs a whole number");
  return std::int64_t(value);
}

inline Where parse_where(std::string const& text) {
  if (text == "auto") return Where::automatic;
  if (text == "cpu") return Where::cpu;
  if (text == "gpu") return Where::gpu;
  throw std::runtime_error("--device: given '" + text + "', needs auto, cpu or gpu");
}

using TakeValue = std::function<void(std::string const&)>;

/// Hands each option's value to its entry of `with_value`, and sets the flag of one that stands `alone`.
inline void read_options(int argc, char** argv, std::map<std::string, TakeValue> const& with_value,
                         std::map<std::string, bool*> const& alone) {
  for (int i = 1; i < argc; ++i) {
    std::string const option = argv[i];
    if (auto const flag = alone.find(option); flag != alone.end()) {
      *flag->second = true;
      continue;
    }
    auto const entry = with_value.find(option);
    if (entry == with_value.end())
      throw std::runtime_error("unknown option '" + option + "'; --help lists them");
    if (++i == argc) throw std::runtime_error(option + " needs a value");
    entry->second(argv[i]);
  }
}

}  // namespace demo
