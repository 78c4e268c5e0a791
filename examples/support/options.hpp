#pragma once
/// The demo's command line.

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>

#include "support/arguments.hpp"

namespace demo {

struct Options {
  int size = 128;
  double top_k = 0.05, top_p = 0.45, sigma = 20;
  std::optional<std::int64_t> band;
  std::int64_t seed = 1;
  std::string picture, out = "out/demo", q, k, v;
  Where where = Where::automatic;
  double scale = 0;
  bool markdown = false, help = false;
  bool own_settings = false;  ///< a value that the expected quality depends on was given

  /// A picture keeps the tiles beside a query's own; of other arrays nothing is known.
  std::int64_t band_tokens() const { return band.value_or(has_arrays() ? -1 : 64); }
  bool has_arrays() const { return !q.empty() || !k.empty() || !v.empty(); }
};

inline constexpr char usage[] =
    R"(denoise: non-local means by block-sparse attention over the pixels of a picture

  --size N         pixels a side, a multiple of 16; the picture's middle square is scaled to it (128)
  --sigma S        noise that is added, standard deviation in grey levels of 255 (20)
  --top-k SHARE    key blocks that each query block keeps at least, in [0, 1] (0.05)
  --top-p SHARE    pooled softmax mass that they hold at least, in [0, 1] (0.45)
  --band TOKENS    keep key blocks at most this many tokens away, whatever their score; -1 = none (64; arrays: -1)
  --seed N         of the noise (1)
  --picture FILE   a PNG instead of the photograph that comes with the library
  --out DIR        where pictures and arrays go (out/demo)
  --device WHERE   auto, cpu or gpu: a GPU if there is one, the host reference, a GPU or nothing (auto)
  --q, --k, --v FILE.npy   attention over these arrays instead of a picture: f16 or f32, [tokens, head_dim],
                   [heads, tokens, head_dim] or [batch, heads, tokens, head_dim]; writes out.npy and mask.png
  --scale S        of the logits of these arrays; 0 = 1 / sqrt(head_dim) (0)
  --markdown       print the table in Markdown
  --help           print this

With the default settings it fails unless it removes at least 4 dB of the noise and ends within 0.3 dB of full attention.
)";

inline int parse_size(std::string const& text) {
  std::int64_t const size = parse_whole("--size", text, 16, 8192);
  if (size % 16 != 0) throw std::runtime_error("--size: given '" + text + "', needs a multiple of 16");
  return int(size);
}

inline void check_arrays(Options const& o) {
  if (o.has_arrays() && (o.q.empty() || o.k.empty() || o.v.empty()))
    throw std::runtime_error("--q, --k and --v go together: all three or none");
  if (o.has_arrays() && !o.picture.empty())
    throw std::runtime_error("--picture does not go with --q, --k and --v");
}

inline Options parse_options(int argc, char** argv) {
  Options o;
  std::map<std::string, TakeValue> const with_value = {
      {"--size", [&](auto& t) { o.size = parse_size(t); }},
      {"--sigma", [&](auto& t) { o.sigma = parse_number("--sigma", t, 0.1, 255), o.own_settings = true; }},
      {"--top-k", [&](auto& t) { o.top_k = parse_number("--top-k", t, 0, 1), o.own_settings = true; }},
      {"--top-p", [&](auto& t) { o.top_p = parse_number("--top-p", t, 0, 1), o.own_settings = true; }},
      {"--band", [&](auto& t) { o.band = parse_whole("--band", t, -1, 1e9), o.own_settings = true; }},
      {"--seed", [&](auto& t) { o.seed = parse_whole("--seed", t, 0, 1e15); }},
      {"--scale", [&](auto& t) { o.scale = parse_number("--scale", t, 0, 1e9); }},
      {"--picture", [&](auto& t) { o.picture = t, o.own_settings = true; }},
      {"--out", [&](auto& t) { o.out = t; }},
      {"--device", [&](auto& t) { o.where = parse_where(t); }},
      {"--q", [&](auto& t) { o.q = t; }},
      {"--k", [&](auto& t) { o.k = t; }},
      {"--v", [&](auto& t) { o.v = t; }}};
  read_options(argc, argv, with_value, {{"--help", &o.help}, {"--markdown", &o.markdown}});
  check_arrays(o);
  return o;
}

}  // namespace demo
