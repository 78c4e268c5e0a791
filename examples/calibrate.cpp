/// From a wanted sparsity, or a wanted mass, to top_p: calibrates on clustered inputs, builds the masks, and prints what the whole rule
/// and either part of it keep. On a GPU if there is one, else on the host reference.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <memory>
#include <string>

#include "calibrate/backends.hpp"
#include "calibrate/inputs.hpp"
#include "calibrate/options.hpp"
#include "support/mask_file.hpp"

namespace calibrating {
namespace {

constexpr int exit_without_gpu = 4;

/// Reports of all heads as one.
struct Total {
  double sparsity = 0, mass = 0, top_k_sparsity = 0, top_k_mass = 0, top_p_sparsity = 0, top_p_mass = 0;
  float least_top_p = 1, greatest_top_p = 0;
  bool met = true;
};

Total total(std::vector<sparge::Calibration> const& heads) {
  Total t;
  double const count = double(heads.size());
  for (sparge::Calibration const& head : heads) {
    auto const dropped = [&](std::int64_t pairs) {
      return (1 - double(pairs) / double(head.all_pairs)) / count;
    };
    t.sparsity += dropped(head.kept_pairs), t.mass += head.kept_mass / count;
    t.top_k_sparsity += dropped(head.top_k_pairs), t.top_k_mass += head.top_k_mass / count;
    t.top_p_sparsity += dropped(head.top_p_pairs), t.top_p_mass += head.top_p_mass / count;
    t.least_top_p = std::min(t.least_top_p, head.top_p);
    t.greatest_top_p = std::max(t.greatest_top_p, head.top_p);
    t.met = t.met && head.met != 0;
  }
  return t;
}

void print_head(Options const& options, std::string const& device) {
  std::printf("%s, %lld tokens, %lld heads, top_k %g, a top_p for %s\n", device.c_str(),
              (long long)options.tokens, (long long)options.heads, options.top_k,
              options.scope == sparge::CalibrationScope::all_heads ? "all heads" : "each head");
  std::printf("%-8s  %-19s  %-17s  %-17s  %-17s\n",
              options.goal == sparge::CalibrationGoal::sparsity ? "sparsity" : "mass", "found top_p",
              "whole rule", "top-k alone", "top-p alone");
  std::printf("%-8s  %-19s  %-8s %-8s  %-8s %-8s  %-8s %-8s\n", "wanted", "least     greatest", "sparsity",
              "mass", "sparsity", "mass", "sparsity", "mass");
}

void print_line(double target, Total const& t) {
  std::printf("%-8.3f  %.6f  %.6f   %.4f   %.4f    %.4f   %.4f    %.4f   %.4f%s\n", target,
              double(t.least_top_p), double(t.greatest_top_p), t.sparsity, t.mass, t.top_k_sparsity,
              t.top_k_mass, t.top_p_sparsity, t.top_p_mass, t.met ? "" : "   not met by any top_p");
}

/// Whether the mask keeps what the reports say.
bool is_as_reported(sparge::AttentionProblem const& p, Calibrated const& result) {
  std::vector<std::int64_t> pairs(std::size_t(p.heads));
  std::int64_t const words_of_head = p.q_blocks() * p.row_words();
  for (std::size_t i = 0; i < result.mask.size(); ++i)
    for (std::uint32_t word = result.mask[i]; word != 0; word &= word - 1)
      ++pairs[i / std::size_t(words_of_head) % pairs.size()];
  for (std::size_t h = 0; h < pairs.size(); ++h)
    if (pairs[h] != result.reports[h].kept_pairs) {
      std::printf("WRONG: head %zu keeps %lld pairs and not %lld\n", h, (long long)pairs[h],
                  (long long)result.reports[h].kept_pairs);
      return false;
    }
  return true;
}

/// Whether what is said to be met is met.
bool meets(sparge::CalibrationTarget const& target, Total const& t) {
  bool const is_sparsity = target.goal == sparge::CalibrationGoal::sparsity;
  bool const met =
      !t.met || (is_sparsity ? t.sparsity >= target.value - 1e-6 : t.mass >= target.value - 1e-6);
  if (!met) std::printf("WRONG: the target %g is not met\n", target.value);
  return met;
}

/// Null where a GPU is asked for and there is none.
std::unique_ptr<Backend> make_backend(Inputs const& in, demo::Where where) {
  if (where == demo::Where::cpu) return std::make_unique<HostBackend>(in);
  sparge::Device device;
  sparge::Status const found = sparge::query_device(0, &device);
  if (found.ok()) return std::make_unique<GpuBackend>(in, device);
  std::printf("No GPU here: %s\n", sparge::Error(found).what());
  if (where == demo::Where::gpu) return nullptr;
  std::puts("The host reference computes everything.");
  return std::make_unique<HostBackend>(in);
}

int run(Options const& options) {
  sparge::AttentionProblem const problem{
      1, options.heads, options.heads, options.tokens, options.tokens, options.head_dim};
  std::size_t words = 0;
  sparge::check(sparge::mask_words(problem, &words));  // refuses what the library refuses, GPU or not
  std::unique_ptr<Backend> const backend =
      make_backend(make_inputs(problem, std::uint64_t(options.seed)), options.where);
  if (backend == nullptr) return exit_without_gpu;
  sparge::MaskRule rule;
  rule.top_k = options.top_k;
  bool right = true;
  print_head(options, backend->device());
  for (double value : options.targets) {
    sparge::CalibrationTarget const target{options.goal, value, options.scope};
    Calibrated const result = backend->run(rule, target);
    Total const t = total(result.reports);
    print_line(value, t);
    right = is_as_reported(problem, result) && meets(target, t) && right;
    if (options.save.empty()) continue;
    std::filesystem::create_directories(options.save);
    demo::write_mask(options.save + "/mask_" + demo::short_text(value) + ".npy", problem, result.mask);
  }
  return right ? 0 : 1;
}

}  // namespace
}  // namespace calibrating

int main(int argc, char** argv) try {
  calibrating::Options const options = calibrating::parse_options(argc, argv);
  if (options.help) return std::fputs(calibrating::usage, stdout) < 0;
  return calibrating::run(options);
} catch (std::exception const& error) {
  std::fprintf(stderr, "calibrate: %s\n", error.what());
  return 2;
}
