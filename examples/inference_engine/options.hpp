#pragma once
/// The command line of inference_engine.

#include <map>
#include <stdexcept>
#include <string>

#include "inference_engine/model.hpp"
#include "support/arguments.hpp"

namespace engine {

struct Options {
  Model model = models[0];
  std::int64_t tokens = 0, layers = 0;  ///< 0 = the model's; as many as are usually measured
  double top_k = 0.03, top_p = 0.05;
  std::int64_t repeats = 7, steps = 50, seed = 1;
  double other_dense = 0;
  std::string json, sources;
  bool is_check = false, is_plan = false, is_help = false;
};

inline constexpr char usage[] =
    R"(inference_engine: layers of a video diffusion transformer, dense against sparse, each step the replay of a CUDA graph

  --model NAME     1.3b: Wan 2.1 1.3B at 480p, 32,760 tokens; 14b: 14B at 720p, 75,600 tokens (1.3b)
  --tokens N       another number of tokens
  --layers N       layers to run, each with random weights of its own (4 of 1.3b, 2 of 14b); all of them take 30, 40
  --top-k SHARE    key blocks that each query block keeps at least, in [0, 1] (0.03)
  --top-p SHARE    pooled softmax mass that they hold at least, in [0, 1]; with random weights scores are nearly flat, so a
                   share p of the mass takes nearly a share p of the blocks (0.05)
  --repeats N      replays that are timed (7)
  --steps N        of a generation, each with two passes (50)
  --other-dense MS projects a second time, as if dense self-attention of one layer took so many milliseconds
  --seed N         of weights and inputs (1)
  --json FILE      appends one line with all results
  --sources TEXT   what was built, for that line
  --check          compares a small stack with the host in f64, dense with sparse, replayed with enqueued; times nothing
  --device WHERE   gpu, or none: plan for a GPU that is not here, say what loading would allocate, run nothing (gpu)
  --help           print this

Exits with 1 if a check fails, with 2 on an error, with 77 if there is no GPU.
)";

inline Model parse_model(std::string const& text) {
  for (Model const& model : models)
    if (text == model.key) return model;
  throw std::runtime_error("--model: given '" + text + "', needs 1.3b or 14b");
}

inline bool parse_is_plan(std::string const& text) {
  if (text != "gpu" && text != "none")
    throw std::runtime_error("--device: given '" + text + "', needs gpu or none");
  return text == "none";
}

inline Options parse_options(int argc, char** argv) {
  Options o;
  std::map<std::string, demo::TakeValue> const with_value = {
      {"--model", [&](auto& t) { o.model = parse_model(t); }},
      {"--tokens", [&](auto& t) { o.tokens = demo::parse_whole("--tokens", t, 1, 1e6); }},
      {"--layers", [&](auto& t) { o.layers = demo::parse_whole("--layers", t, 1, 1000); }},
      {"--top-k", [&](auto& t) { o.top_k = demo::parse_number("--top-k", t, 0, 1); }},
      {"--top-p", [&](auto& t) { o.top_p = demo::parse_number("--top-p", t, 0, 1); }},
      {"--repeats", [&](auto& t) { o.repeats = demo::parse_whole("--repeats", t, 1, 1000); }},
      {"--steps", [&](auto& t) { o.steps = demo::parse_whole("--steps", t, 1, 1000); }},
      {"--other-dense", [&](auto& t) { o.other_dense = demo::parse_number("--other-dense", t, 0, 1e6); }},
      {"--seed", [&](auto& t) { o.seed = demo::parse_whole("--seed", t, 0, 1e9); }},
      {"--json", [&](auto& t) { o.json = t; }},
      {"--sources", [&](auto& t) { o.sources = t; }},
      {"--device", [&](auto& t) { o.is_plan = parse_is_plan(t); }}};
  demo::read_options(argc, argv, with_value, {{"--check", &o.is_check}, {"--help", &o.is_help}});
  return o;
}

}  // namespace engine
