#pragma once
/// What was measured, as a table and as a line of JSON.

#include <cstdio>
#include <ctime>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>

#include "inference_engine/projection.hpp"
#include "inference_engine/timing.hpp"
#include "support/table.hpp"

namespace engine {

struct Report {
  Model model;
  Shape shape;  ///< what was run: some layers of the model's, perhaps with other tokens
  sparge::MaskRule rule;
  sparge::MaskStats kept;  ///< all heads and measured layers together
  StepTimes dense, sparse;
  Generation generation;
  double other_dense = 0;  ///< milliseconds of a dense self-attention by another library; 0 = not given
  std::string gpu, kernel, sources;
  std::size_t arena_bytes = 0;

  double sparsity() const { return 1 - double(kept.kept_pairs) / double(kept.all_pairs); }
  double layer(StepTimes const& times) const { return times.step / double(shape.layers); }
  double seconds(StepTimes const& times) const { return generation.seconds(layer(times)); }
  double attention_speedup() const { return dense.layer.attention() / sparse.layer.attention(); }
  double speedup() const { return dense.step / sparse.step; }
  double projected_speedup() const { return amdahl(dense.layer.attention_share(), attention_speedup()); }
  /// As if dense attention took `other_dense`.
  double speedup_over_other() const {
    return (layer(dense) - dense.layer.attention() + other_dense) / layer(sparse);
  }
};

inline std::string milliseconds(double x) { return demo::number_text(x, x < 10 ? 3 : x < 100 ? 2 : 1); }
inline std::string percent(double x) { return demo::number_text(100 * x, 1) + " %"; }
inline std::string times(double x) { return demo::number_text(x, 2) + "x"; }

inline void print_columns(std::string const& name, std::string const& dense, std::string const& sparse) {
  std::printf("  %-52s %12s %12s\n", name.c_str(), dense.c_str(), sparse.c_str());
}

inline void print_head(Report const& r) {
  Shape const& s = r.shape;
  using demo::count_text;
  std::printf("%s: %s tokens, dim %s, %lld heads of %d, ffn %s, %s text tokens\n", r.model.name,
              count_text(s.tokens).c_str(), count_text(s.dim).c_str(), (long long)s.heads(), s.head_dim,
              count_text(s.ffn).c_str(), count_text(s.text_tokens).c_str());
  std::printf("%s; %s; arena of %.2f GB; %lld of %lld layers, each with random weights of its own\n",
              r.gpu.c_str(), r.kernel.c_str(), double(r.arena_bytes) * 1e-9, (long long)s.layers,
              (long long)r.model.shape.layers);
  std::printf("mask: top_k %g, top_p %g; of %s block pairs kept %s, sparsity %s; pooled mass kept %s\n",
              r.rule.top_k, r.rule.top_p, count_text(r.kept.all_pairs).c_str(),
              count_text(r.kept.kept_pairs).c_str(), percent(r.sparsity()).c_str(),
              percent(r.kept.pooled_mass).c_str());
}

inline void print_layer(Report const& r) {
  print_columns("one layer, ms", "dense", "sparse");
  for (int part = 0; part < part_count; ++part)
    print_columns(part_names[part], milliseconds(r.dense.layer.of[part]),
                  milliseconds(r.sparse.layer.of[part]));
  print_columns("sum of the parts", milliseconds(r.dense.layer.total()),
                milliseconds(r.sparse.layer.total()));
  print_columns("share of self-attention, mask included", percent(r.dense.layer.attention_share()),
                percent(r.sparse.layer.attention_share()));
  print_columns("by replay of the graph: step / layers", milliseconds(r.layer(r.dense)),
                milliseconds(r.layer(r.sparse)));
  print_columns("step of " + std::to_string(r.shape.layers) + " layers, replayed", milliseconds(r.dense.step),
                milliseconds(r.sparse.step));
}

inline void print_generation(Report const& r) {
  Generation const& g = r.generation;
  print_columns(std::to_string(g.layers) + " layers x " + std::to_string(g.steps) + " steps x " +
                    std::to_string(g.passes) + " passes x layer, s",
                demo::number_text(r.seconds(r.dense), 1), demo::number_text(r.seconds(r.sparse), 1));
  print_columns("speed-up of self-attention, mask included: s", "", times(r.attention_speedup()));
  print_columns("speed-up of all layers, replayed", "", times(r.speedup()));
  print_columns("by Amdahl, 1 / ((1 - a) + a / s), a = dense share", "", times(r.projected_speedup()));
  if (r.other_dense > 0)
    print_columns("with dense attention of " + milliseconds(r.other_dense) + " ms instead", "",
                  times(r.speedup_over_other()));
  print_columns("published for the whole generation, another GPU", "", times(r.model.published_speedup));
  std::puts("Text encoder, VAE, patch embedding and head are in none of these.");
}

inline void print(Report const& report) {
  print_head(report);
  print_layer(report);
  print_generation(report);
}

// ---- JSON ----------------------------------------------------------------------------------------------------------

class JsonLine {
public:
  void add(char const* name, std::string const& text) {
    begin(name) << '"';
    for (char c : text) {
      if (c == '"' || c == '\\') line_ << '\\';
      line_ << (static_cast<unsigned char>(c) < 0x20 ? ' ' : c);
    }
    line_ << '"';
  }
  void add(char const* name, char const* text) { add(name, std::string(text)); }
  void add(char const* name, std::int64_t value) { begin(name) << value; }
  void add(char const* name, double value) { begin(name) << value; }
  void add(char const* name, PartTimes const& times) {
    static constexpr char const* keys[part_count] = {"linear", "mask", "self_attention", "cross_attention",
                                                     "elementwise"};
    begin(name) << '{';
    for (int part = 0; part < part_count; ++part)
      line_ << (part > 0 ? ", \"" : "\"") << keys[part] << "\": " << times.of[part];
    line_ << '}';
  }
  std::string text() const { return "{" + line_.str() + "}"; }

private:
  std::ostream& begin(char const* name) {
    line_.precision(6);
    return line_ << (line_.tellp() > 0 ? ", \"" : "\"") << name << "\": ";
  }
  std::ostringstream line_;
};

inline std::string today() {
  std::time_t const now = std::time(nullptr);
  char text[16];
  std::strftime(text, sizeof text, "%Y-%m-%d", std::gmtime(&now));
  return text;
}

inline std::string json_of(Report const& r) {
  JsonLine line;
  line.add("date", today());
  line.add("gpu", r.gpu), line.add("sources", r.sources), line.add("kernel", r.kernel);
  line.add("model", r.model.name), line.add("dim", r.shape.dim), line.add("heads", r.shape.heads());
  line.add("ffn", r.shape.ffn), line.add("tokens", r.shape.tokens);
  line.add("text_tokens", r.shape.text_tokens);
  line.add("model_layers", r.model.shape.layers), line.add("layers", r.shape.layers);
  line.add("arena_bytes", std::int64_t(r.arena_bytes));
  line.add("top_k", r.rule.top_k), line.add("top_p", r.rule.top_p);
  line.add("kept_pairs", r.kept.kept_pairs), line.add("all_pairs", r.kept.all_pairs);
  line.add("pooled_mass", r.kept.pooled_mass);
  line.add("dense_step_ms", r.dense.step), line.add("sparse_step_ms", r.sparse.step);
  line.add("dense_layer_ms", r.dense.layer), line.add("sparse_layer_ms", r.sparse.layer);
  line.add("steps", r.generation.steps), line.add("passes", r.generation.passes);
  line.add("other_dense_ms", r.other_dense);
  line.add("speedup", r.speedup()), line.add("attention_speedup", r.attention_speedup());
  line.add("projected_speedup", r.projected_speedup());
  line.add("published_speedup", r.model.published_speedup);
  return line.text();
}

inline void append_line(std::string const& path, std::string const& line) {
  std::ofstream file(path, std::ios::app);
  file << line << '\n';
  if (!file.flush()) throw std::runtime_error("cannot write " + path);
}

}  // namespace engine
