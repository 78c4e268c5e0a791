#pragma once
/// The demo on the host, by the f64 reference: right everywhere, and slow.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "sparge/reference/attention.hpp"
#include "sparge/reference/mask.hpp"
#include "support/attention_run.hpp"

namespace demo {

/// Full attention on the host is computed for as many rows as make this many (query, key) pairs: about 20 s on two cores.
inline constexpr std::int64_t full_pairs_on_host = std::int64_t{1} << 28;

/// Rows in runs of 16, whose neighbours share the reading of keys: one run in each of equal parts of all rows, at a place
/// that the golden ratio shifts from part to part, since a fixed one could fall on the same column of a picture every time.
inline std::vector<std::int64_t> sample_rows(std::int64_t rows, std::int64_t wanted) {
  std::int64_t const run_length = 16, runs = std::max<std::int64_t>(1, wanted / run_length);
  std::vector<std::int64_t> sample;
  if (wanted >= rows) {
    for (std::int64_t row = 0; row < rows; ++row) sample.push_back(row);
    return sample;
  }
  for (std::int64_t run = 0; run < runs; ++run) {
    std::int64_t const part_begin = run * rows / runs, part_end = (run + 1) * rows / runs;
    double const golden = 0.6180339887498949 * double(run);
    std::int64_t const places = std::max<std::int64_t>(1, (part_end - part_begin) / run_length);
    std::int64_t const begin =
        part_begin + std::int64_t((golden - std::floor(golden)) * double(places)) * run_length;
    for (std::int64_t row = begin; row < std::min(begin + run_length, part_end); ++row) sample.push_back(row);
  }
  return sample;
}

/// A line on stderr that says how far a long computation has come, about ten times.
inline sparge::reference::RunOptions with_progress(std::string const& what) {
  sparge::reference::RunOptions options;
  options.progress = [what, shown = std::int64_t{-1}](std::int64_t done, std::int64_t total) mutable {
    if (done * 10 / total == shown) return;
    shown = done * 10 / total;
    std::fprintf(stderr, "%s: %d %%\n", what.c_str(), int(done * 100 / total));
  };
  return options;
}

class Stopwatch {
public:
  double milliseconds() const {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start_).count();
  }

private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

class HostRunner {
public:
  explicit HostRunner(AttentionInput const& in)
      : p_(in.problem),
        rule_(in.rule),
        q_(sparge::contiguous_bhnd(in.q.data(), p_.batch, p_.heads, p_.q_tokens, p_.head_dim)),
        k_(sparge::contiguous_bhnd(in.k.data(), p_.batch, p_.kv_heads, p_.kv_tokens, p_.head_dim)),
        v_(sparge::contiguous_bhnd(in.v.data(), p_.batch, p_.kv_heads, p_.kv_tokens, p_.head_dim)) {}

  AttentionRun run() const {
    AttentionRun result;
    result.device = "host reference, f64";
    choose_blocks(result);
    std::int64_t const rows = p_.batch * p_.heads * p_.q_tokens;
    result.sparse = attend(result.mask, sample_rows(rows, rows), "sparse attention");
    result.sample = sample_rows(rows, full_pairs_on_host / std::max<std::int64_t>(p_.kv_tokens, 1));
    result.full = attend(sparge::reference::full_mask(p_), result.sample, "full attention");
    return result;
  }

private:
  void choose_blocks(AttentionRun& result) const {
    Stopwatch const watch;
    std::vector<float> const pooled_q = sparge::reference::to_f32(sparge::reference::pool(q_, p_.q_block));
    std::vector<float> const pooled_k = sparge::reference::to_f32(sparge::reference::pool(k_, p_.kv_block));
    result.mask = sparge::reference::select_blocks(p_, rule_, pooled_q.data(), pooled_k.data());
    result.mask_milliseconds = watch.milliseconds();
    sparge::MaskView const mask{result.mask.data(), result.mask.size()};
    result.stats = sparge::reference::mask_stats(p_, rule_, pooled_q.data(), pooled_k.data(), mask);
  }

  AttentionRows attend(std::vector<std::uint32_t> const& mask, std::vector<std::int64_t> const& indices,
                       char const* what) const {
    std::vector<sparge::reference::QueryRow> rows;
    for (std::int64_t i : indices)
      rows.push_back({i / p_.q_tokens / p_.heads, i / p_.q_tokens % p_.heads, i % p_.q_tokens});
    Stopwatch const watch;
    sparge::reference::Attention const result = sparge::reference::attention_rows(
        p_, q_, k_, v_, {mask.data(), mask.size()}, rows, with_progress(what));
    return {
        {result.out.begin(), result.out.end()}, {result.lse.begin(), result.lse.end()}, watch.milliseconds()};
  }

  sparge::AttentionProblem p_;
  sparge::MaskRule rule_;
  sparge::TensorView<float16 const> q_, k_, v_;
};

}  // namespace demo
