#pragma once
/// A table of two columns, as plain text or as Markdown, and the numbers in it.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

namespace demo {

/// 262144 as "262,144".
inline std::string count_text(std::int64_t n) {
  std::string text = std::to_string(n);
  for (std::int64_t at = std::int64_t(text.size()) - 3; at > 0; at -= 3) text.insert(std::size_t(at), ",");
  return text;
}

inline std::string number_text(double x, int decimals) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", decimals, x);
  return text;
}

class Table {
public:
  explicit Table(std::string title) : title_(std::move(title)) {}

  void add(std::string name, std::string value) { rows_.emplace_back(std::move(name), std::move(value)); }

  void print(bool markdown) const {
    if (markdown) {
      std::printf("| %s | |\n|---|---|\n", title_.c_str());
      for (auto const& [name, value] : rows_) std::printf("| %s | %s |\n", name.c_str(), value.c_str());
      return;
    }
    std::size_t width = 0;
    for (auto const& row : rows_) width = std::max(width, row.first.size());
    std::printf("%s\n", title_.c_str());
    for (auto const& [name, value] : rows_)
      std::printf("  %-*s  %s\n", int(width), name.c_str(), value.c_str());
  }

private:
  std::string title_;
  std::vector<std::pair<std::string, std::string>> rows_;
};

}  // namespace demo
