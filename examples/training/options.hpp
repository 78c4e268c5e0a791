#pragma once
/// The command line of training_step.

#include <map>
#include <stdexcept>
#include <string>

#include "support/arguments.hpp"

namespace training {

using demo::Where;

struct Options {
  Where where = Where::automatic;
  std::int64_t steps = 0;  ///< 0 = as many as suit the device
  double learning_rate = 0.1, top_k = 0.1, top_p = 0.1;
  std::int64_t seed = 1;
  std::string csv;
  bool is_small = false, is_check = false, is_help = false;
};

inline constexpr char usage[] =
    R"(training_step: velocity distillation of one attention layer, full attention into sparse attention

  --check          compares gradients with finite differences of the loss in f64, and trains nothing
  --steps N        (600 on a GPU, 100 on the host)
  --rate R         learning rate at the first step; it falls linearly to 0 (0.1)
  --top-k SHARE    key blocks that each query block keeps at least, in [0, 1] (0.1)
  --top-p SHARE    pooled softmax mass that they hold at least, in [0, 1] (0.1)
  --seed N         of teacher, videos and noise (1)
  --csv FILE       writes the loss of every step, and the error on held-out videos now and then
  --small          on a GPU too, the shape that the host takes: batch 2, 1,024 tokens, 2 heads instead of 4, 8,192, 4
  --device WHERE   auto, cpu or gpu: a GPU if there is one, the host reference, a GPU or nothing (auto)
  --help           print this

Exits with 1 if the loss, or the error on held-out videos, did not go down, or a gradient is wrong; with 2 on an error; with 4
if --device gpu finds no GPU.
)";

inline Options parse_options(int argc, char** argv) {
  Options o;
  std::map<std::string, demo::TakeValue> const with_value = {
      {"--steps", [&](auto& t) { o.steps = demo::parse_whole("--steps", t, 4, 1e6); }},
      {"--rate", [&](auto& t) { o.learning_rate = demo::parse_number("--rate", t, 0, 1e3); }},
      {"--top-k", [&](auto& t) { o.top_k = demo::parse_number("--top-k", t, 0, 1); }},
      {"--top-p", [&](auto& t) { o.top_p = demo::parse_number("--top-p", t, 0, 1); }},
      {"--seed", [&](auto& t) { o.seed = demo::parse_whole("--seed", t, 0, 1e15); }},
      {"--csv", [&](auto& t) { o.csv = t; }},
      {"--device", [&](auto& t) { o.where = demo::parse_where(t); }}};
  demo::read_options(argc, argv, with_value,
                     {{"--small", &o.is_small}, {"--check", &o.is_check}, {"--help", &o.is_help}});
  return o;
}

}  // namespace training
