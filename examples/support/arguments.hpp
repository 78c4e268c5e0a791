#pragma once
/// Values of command-line options.

#include <cmath>
#include <cstdint>
#include <cstdio>
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

}  // namespace demo
