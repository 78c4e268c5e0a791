/// Context parallelism: ranks that each hold a part of the queries, keys and values of one sequence compute what one GPU computes
/// that holds all of it, forward and backward. Here the ranks take turns on one GPU, or on the host; what they would send to each
/// other is copied. docs/context_parallel.md goes through it.

#include <cmath>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "context_parallel/data.hpp"
#include "context_parallel/gpu_backend.hpp"
#include "context_parallel/host_backend.hpp"
#include "support/arguments.hpp"
#include "training/random.hpp"

namespace context_parallel {
namespace {

using sparge::AttentionProblem;
using sparge::BlockRange;

constexpr int exit_without_gpu = 4;

constexpr char usage[] =
    R"(context_parallel: ranks that hold shards of a sequence compute what one GPU computes

  --ranks N        shards of queries, and of keys and values, from 1 to 8 (2)
  --device WHERE   auto, cpu or gpu: a GPU if there is one, the host reference, a GPU or nothing (auto)
  --help           print this

Exits with 1 if the shards give something else, with 2 on an error, with 4 if --device gpu finds no GPU.
)";

// ---- One sequence --------------------------------------------------------------------------------------------------

/// Both axes end in a partial block; two query heads share a kv head.
AttentionProblem whole_problem() { return {1, 4, 2, 1900, 2100, 64}; }

sparge::MaskRule some_rule() {
  sparge::MaskRule rule;
  rule.top_k = 0.1, rule.top_p = 0.3;
  rule.keep.kv_front_tokens = 64, rule.keep.band_tokens = 100, rule.keep.dense_q_back_tokens = 20;
  return rule;
}

Tensor<bfloat16> normal_values(std::int64_t heads, std::int64_t rows, std::int64_t channels,
                               std::uint64_t seed) {
  Tensor<bfloat16> x(heads, rows, channels);
  training::Random const random(seed);
  for (std::size_t i = 0; i < x.values.size(); ++i) x.values[i] = __float2bfloat16(float(random.normal(i)));
  return x;
}

Inputs make_inputs(AttentionProblem const& p) {
  return {normal_values(p.heads, p.q_tokens, p.head_dim, 1),
          normal_values(p.kv_heads, p.kv_tokens, p.head_dim, 2),
          normal_values(p.kv_heads, p.kv_tokens, p.head_dim, 3),
          normal_values(p.heads, p.q_tokens, p.head_dim, 4)};
}

/// Everything that comes of one step of training.
struct Results {
  MaskWords mask;
  Tensor<float> out, lse, grad_q, grad_k, grad_v;
};

/// Rows `range` of `sum` grow by `part`.
template <class T>
void add(Tensor<float>& sum, Range range, Tensor<T> const& part) {
  for (std::int64_t head = 0; head < part.heads; ++head)
    for (std::int64_t row = 0; row < part.rows; ++row)
      for (std::int64_t c = 0; c < part.channels; ++c)
        sum.row(head, range.begin + row)[c] += float(part.row(head, row)[c]);
}

Results zeros_for(AttentionProblem const& p) {
  Tensor<float> const queries(p.heads, p.q_tokens, p.head_dim), keys(p.kv_heads, p.kv_tokens, p.head_dim);
  return {{}, queries, {p.heads, p.q_tokens, 1}, queries, keys, keys};
}

Results run_whole(Backend& backend, AttentionProblem const& p, Inputs const& inputs) {
  Results results = zeros_for(p);
  Range const queries{0, p.q_tokens}, keys{0, p.kv_tokens};
  results.mask = backend.select(p, some_rule(), backend.pool(p, inputs.q, inputs.k));
  Attended const attended = backend.forward(p, inputs, results.mask);
  Gradients const grad = backend.backward(p, {inputs, attended, results.mask});
  add(results.out, queries, attended.out), add(results.lse, queries, attended.lse);
  add(results.grad_q, queries, grad.q), add(results.grad_k, keys, grad.k), add(results.grad_v, keys, grad.v);
  return results;
}

// ---- The same in shards --------------------------------------------------------------------------------------------

/// A shard of an axis: whole blocks, of which the last may be partial.
struct Shard {
  BlockRange blocks;
  Range tokens;
};

std::vector<Shard> split(std::int64_t blocks, std::int64_t block, std::int64_t tokens, std::int64_t ranks) {
  std::vector<Shard> shards;
  for (std::int64_t r = 0; r < ranks; ++r) {
    std::int64_t const first = blocks * r / ranks, end = blocks * (r + 1) / ranks;
    shards.push_back({{first, end - first}, {first * block, std::min(end * block, tokens)}});
  }
  return shards;
}

class Ranks {
public:
  Ranks(Backend& backend, AttentionProblem const& whole, Inputs const& inputs, std::int64_t ranks)
      : backend_(backend),
        whole_(whole),
        inputs_(inputs),
        queries_(split(whole.q_blocks(), whole.q_block, whole.q_tokens, ranks)),
        keys_(split(whole.kv_blocks(), whole.kv_block, whole.kv_tokens, ranks)),
        results_(zeros_for(whole)) {}

  Results run() {
    gather_pooled_keys();
    for (Shard const& queries : queries_) run_rank(queries);
    return results_;
  }

private:
  /// Every rank pools its own keys and sends the means, one row a block, to all others.
  void gather_pooled_keys() {
    pooled_keys_ = Tensor<float>(whole_.kv_heads, whole_.kv_blocks(), whole_.head_dim);
    for (Shard const& keys : keys_) {
      AttentionProblem p = whole_;
      p.q_tokens = 0, p.kv_tokens = keys.tokens.size();
      Tensor<bfloat16> const no_queries(p.heads, 0, p.head_dim);
      Pooled const pooled = backend_.pool(p, no_queries, inputs_.k.part(keys.tokens));
      pooled_keys_.put({keys.blocks.first, keys.blocks.first + keys.blocks.count}, pooled.k);
    }
  }

  /// The problem of a rank's queries against all keys: where they lie in the whole is what the keep rule needs.
  AttentionProblem rows_of(Shard const& queries) const {
    AttentionProblem p = whole_;
    p.q_tokens = queries.tokens.size();
    p.q_offset = queries.tokens.begin, p.all_q_tokens = whole_.q_tokens;
    return p;
  }

  Inputs inputs_of(Shard const& queries, Shard const& keys) const {
    return {inputs_.q.part(queries.tokens), inputs_.k.part(keys.tokens), inputs_.v.part(keys.tokens),
            inputs_.grad_out.part(queries.tokens)};
  }

  /// The rows of the whole mask that belong to a rank: the rule compares each of its query blocks with all keys.
  MaskWords select(AttentionProblem const& rows, Shard const& queries) {
    AttentionProblem own = rows;
    own.kv_tokens = 0;
    Tensor<bfloat16> const no_keys(own.kv_heads, 0, own.head_dim);
    Pooled pooled = backend_.pool(own, inputs_.q.part(queries.tokens), no_keys);
    pooled.k = pooled_keys_;
    return backend_.select(rows, some_rule(), pooled);
  }

  /// Keys and values of all ranks pass by; what they give is kept, merged, and needed merged by backward.
  void run_rank(Shard const& queries) {
    AttentionProblem const rows = rows_of(queries);
    MaskWords const mask = select(rows, queries);
    std::vector<Attended> parts;
    std::vector<MaskWords> masks;
    for (Shard const& keys : keys_) {
      masks.push_back(backend_.slice(rows, mask, {0, queries.blocks.count}, keys.blocks));
      parts.push_back(backend_.forward(shard_of(rows, keys), inputs_of(queries, keys), masks.back()));
    }
    Attended const merged = backend_.merge(rows, parts);
    store(queries, mask, merged);
    for (std::size_t i = 0; i < keys_.size(); ++i) {
      Gradients const grad =
          backend_.backward(shard_of(rows, keys_[i]), {inputs_of(queries, keys_[i]), merged, masks[i]});
      add(results_.grad_q, queries.tokens, grad.q);
      add(results_.grad_k, keys_[i].tokens, grad.k);
      add(results_.grad_v, keys_[i].tokens, grad.v);
    }
  }

  static AttentionProblem shard_of(AttentionProblem p, Shard const& keys) {
    p.kv_tokens = keys.tokens.size();
    return p;
  }

  void store(Shard const& queries, MaskWords const& mask, Attended const& merged) {
    add(results_.out, queries.tokens, merged.out), add(results_.lse, queries.tokens, merged.lse);
    std::int64_t const head_words = whole_.q_blocks() * whole_.row_words();
    std::int64_t const shard_words = queries.blocks.count * whole_.row_words();
    results_.mask.resize(std::size_t(whole_.heads * head_words));
    for (std::int64_t head = 0; head < whole_.heads; ++head)
      std::copy_n(mask.data() + head * shard_words, shard_words,
                  results_.mask.data() + head * head_words + queries.blocks.first * whole_.row_words());
  }

  Backend& backend_;
  AttentionProblem whole_;
  Inputs const& inputs_;
  std::vector<Shard> queries_, keys_;
  Tensor<float> pooled_keys_;
  Results results_;
};

// ---- Comparison ----------------------------------------------------------------------------------------------------

/// |a - b| / |b|, by the Euclidean norm; infinite entries must be equal.
double relative_error(Tensor<float> const& a, Tensor<float> const& b) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < a.values.size(); ++i) {
    if (a.values[i] == b.values[i] && std::isinf(b.values[i])) continue;
    difference += std::pow(double(a.values[i]) - double(b.values[i]), 2);
    size += std::pow(double(b.values[i]), 2);
  }
  return std::sqrt(difference / size);
}

bool say(char const* name, double error, double allowed) {
  bool const holds = error <= allowed;
  std::printf("  %-8s relative error %8.1e, allowed %.1e%s\n", name, error, allowed, holds ? "" : "  FAILED");
  return holds;
}

/// bf16 keeps 8 digits, so a stored value is off by up to 2^-9 of itself. Results of shards are stored once more than those of the whole.
bool compare(Results const& shards, Results const& whole) {
  bool const same_mask = shards.mask == whole.mask;
  std::printf("  %-8s %s\n", "mask", same_mask ? "the same bits" : "differs  FAILED");
  double const stored = std::ldexp(1, -8);
  bool holds = same_mask;
  holds &= say("out", relative_error(shards.out, whole.out), stored);
  holds &= say("lse", relative_error(shards.lse, whole.lse), 1e-6);
  holds &= say("grad_q", relative_error(shards.grad_q, whole.grad_q), stored);
  holds &= say("grad_k", relative_error(shards.grad_k, whole.grad_k), stored);
  holds &= say("grad_v", relative_error(shards.grad_v, whole.grad_v), stored);
  return holds;
}

// ---- Main ----------------------------------------------------------------------------------------------------------

struct Options {
  std::int64_t ranks = 2;
  demo::Where where = demo::Where::automatic;
  bool is_help = false;
};

Options parse_options(int argc, char** argv) {
  Options options;
  demo::read_options(argc, argv,
                     {{"--ranks", [&](auto& t) { options.ranks = demo::parse_whole("--ranks", t, 1, 8); }},
                      {"--device", [&](auto& t) { options.where = demo::parse_where(t); }}},
                     {{"--help", &options.is_help}});
  return options;
}

int main_of(int argc, char** argv) {
  Options const options = parse_options(argc, argv);
  if (options.is_help) {
    std::fputs(usage, stdout);
    return 0;
  }
  sparge::Device device;
  bool const asks_gpu = options.where != demo::Where::cpu;
  bool const has_gpu = asks_gpu && sparge::query_device(0, &device).ok();
  if (options.where == demo::Where::gpu && !has_gpu) {
    std::fputs("context_parallel: no GPU here\n", stderr);
    return exit_without_gpu;
  }
  std::unique_ptr<Backend> backend = std::make_unique<HostBackend>();
  if (has_gpu) backend = std::make_unique<GpuBackend>(device);
  AttentionProblem const p = whole_problem();
  std::printf("%lld ranks against one, %s: %lld queries, %lld keys, %lld heads of %d, bf16\n",
              (long long)options.ranks, has_gpu ? "on a GPU" : "on the host, by the reference in f64",
              (long long)p.q_tokens, (long long)p.kv_tokens, (long long)p.heads, p.head_dim);
  Inputs const inputs = make_inputs(p);
  Results const whole = run_whole(*backend, p, inputs);
  Results const shards = Ranks(*backend, p, inputs, options.ranks).run();
  bool const holds = compare(shards, whole);
  std::puts(holds ? "The shards give what the whole gives."
                  : "NOT MET: the shards give what the whole gives.");
  return holds ? 0 : 1;
}

}  // namespace
}  // namespace context_parallel

int main(int argc, char** argv) {
  try {
    return context_parallel::main_of(argc, argv);
  } catch (std::exception const& error) {
    std::fprintf(stderr, "context_parallel: %s\n", error.what());
    return 2;
  }
}
