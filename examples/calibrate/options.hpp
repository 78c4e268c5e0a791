#pragma once
/// The command line of the calibrating example.

#include <algorithm>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "sparge/core/calibration.hpp"
#include "support/arguments.hpp"

namespace calibrating {

struct Options {
  std::int64_t tokens = 8192, heads = 4, seed = 1;
  int head_dim = 64;
  double top_k = 0.03;
  std::vector<double> targets = {0.7, 0.8, 0.9, 0.95};
  sparge::CalibrationGoal goal = sparge::CalibrationGoal::sparsity;
  sparge::CalibrationScope scope = sparge::CalibrationScope::each_head;
  demo::Where where = demo::Where::automatic;
  std::string save;
  bool help = false;
};

inline constexpr char usage[] =
    R"(calibrate: the top_p that gives a wanted sparsity, or keeps a wanted mass, and what either rule keeps alone

  --targets LIST   sparsities, or kept masses, in [0, 1] (0.7,0.8,0.9,0.95)
  --goal WHAT      sparsity or mass: what the targets are (sparsity)
  --scope WHOSE    each or all: a top_p for each head, or one for all of them (each)
  --top-k SHARE    key blocks that each query block keeps at least, in [0, 1] (0.03)
  --tokens N       of queries and of keys (8192)
  --heads N        (4)
  --head-dim D     64 or 128 (64)
  --seed N         of the inputs (1)
  --save DIR       writes the mask of each target there, for examples/mask_picture.py
  --device WHERE   auto, cpu or gpu: a GPU if there is one, the host reference, a GPU or nothing (auto)
  --help           print this

It fails unless the masks that are built with each top_p meet the target and keep what the report says.
)";

inline std::vector<double> parse_targets(std::string const& text) {
  std::vector<double> targets;
  for (std::size_t at = 0; at <= text.size();) {
    std::size_t const end = std::min(text.find(',', at), text.size());
    targets.push_back(demo::parse_number("--targets", text.substr(at, end - at), 0, 1));
    at = end + 1;
  }
  return targets;
}

/// One of two words.
inline bool parse_second(std::string const& option, std::string const& text, char const* first,
                         char const* second) {
  if (text != first && text != second)
    throw std::runtime_error(option + ": given '" + text + "', needs " + first + " or " + second);
  return text == second;
}

inline Options parse_options(int argc, char** argv) {
  Options o;
  using demo::parse_number, demo::parse_whole;
  std::map<std::string, demo::TakeValue> const with_value = {
      {"--targets", [&](auto& t) { o.targets = parse_targets(t); }},
      {"--goal",
       [&](auto& t) { o.goal = sparge::CalibrationGoal{parse_second("--goal", t, "sparsity", "mass")}; }},
      {"--scope",
       [&](auto& t) { o.scope = sparge::CalibrationScope{parse_second("--scope", t, "each", "all")}; }},
      {"--top-k", [&](auto& t) { o.top_k = parse_number("--top-k", t, 0, 1); }},
      {"--tokens", [&](auto& t) { o.tokens = parse_whole("--tokens", t, 1, 1e8); }},
      {"--heads", [&](auto& t) { o.heads = parse_whole("--heads", t, 1, 1e4); }},
      {"--head-dim", [&](auto& t) { o.head_dim = int(parse_whole("--head-dim", t, 1, 1024)); }},
      {"--seed", [&](auto& t) { o.seed = parse_whole("--seed", t, 0, 1e15); }},
      {"--save", [&](auto& t) { o.save = t; }},
      {"--device", [&](auto& t) { o.where = demo::parse_where(t); }}};
  demo::read_options(argc, argv, with_value, {{"--help", &o.help}});
  return o;
}

}  // namespace calibrating
