/// Removes noise from a photograph by attention over its pixels: the hybrid mask, sparse attention, full attention for
/// comparison, and a table of what that costs and keeps. On a GPU if there is one, else on the host reference.

#include <cmath>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "support/gpu_run.hpp"
#include "support/heat_map.hpp"
#include "support/host_run.hpp"
#include "support/image.hpp"
#include "support/npy.hpp"
#include "support/options.hpp"
#include "support/patches.hpp"
#include "support/table.hpp"

namespace demo {
namespace {

/// Standard output holds nothing but the table where the table is Markdown.
std::FILE* notes_of(Options const& options) { return options.markdown ? stderr : stdout; }

AttentionRun run(AttentionInput const& input, Options const& options) {
  std::size_t words = 0;
  sparge::check(sparge::mask_words(input.problem, &words));  // refuses what the library refuses, GPU or not
  if (options.where == Where::cpu) return HostRunner(input).run();
  sparge::Device device;
  sparge::Status const found = sparge::query_device(0, &device);
  if (found.ok()) return GpuRunner(input, device).run();
  if (options.where == Where::gpu) sparge::check(found);
  std::fprintf(notes_of(options), "No GPU here (%s): the host reference computes everything.\n",
               sparge::Error(found).what());
  return HostRunner(input).run();
}

sparge::MaskRule rule_of(Options const& options) {
  sparge::MaskRule rule;
  rule.top_k = options.top_k;
  rule.top_p = options.top_p;
  rule.keep.band_tokens = options.band_tokens();
  return rule;
}

std::string percent(double part, double whole) { return number_text(100 * part / whole, 1) + " %"; }

void add_attention_rows(Table& table, AttentionInput const& input, AttentionRun const& run) {
  sparge::MaskStats const stats = total(run.stats);
  auto const share = [&](std::int64_t pairs) {
    return count_text(pairs) + " (" + percent(double(pairs), double(stats.kept_pairs)) + ")";
  };
  std::string const rows =
      run.full_is_whole() ? "all rows" : count_text(std::int64_t(run.sample.size())) + " rows";
  table.add("device", run.device);
  table.add("query, key tokens",
            count_text(input.problem.q_tokens) + ", " + count_text(input.problem.kv_tokens));
  table.add("block pairs kept", count_text(stats.kept_pairs) + " of " + count_text(stats.all_pairs));
  table.add("sparsity", percent(double(stats.all_pairs - stats.kept_pairs), double(stats.all_pairs)));
  table.add("kept, owed to top-k and top-p", share(stats.owed_to_both));
  table.add("kept, owed to top-k alone", share(stats.owed_to_top_k));
  table.add("kept, owed to top-p alone", share(stats.owed_to_top_p));
  table.add("kept, owed to the keep rule", share(stats.owed_to_force));
  table.add("kept mass, pooled scores", percent(stats.pooled_mass, 1));
  table.add("kept mass, true (" + rows + ")", percent(kept_mass(run), 1));
  table.add("error against full attention",
            number_text(relative_error(run, input.problem.head_dim), 4) + " of its size (" + rows + ")");
  table.add("time, mask", number_text(run.mask_milliseconds, 3) + " ms");
  table.add("time, sparse attention", number_text(run.sparse.milliseconds, 3) + " ms");
  table.add("time, full attention (" + rows + ")", number_text(run.full.milliseconds, 3) + " ms");
}

/// Enlarged to about 768 pixels across where it is smaller.
Image look_at(Image const& image) { return enlarge(image, std::max(1, 768 / image.width)); }

// ---- A picture -----------------------------------------------------------------------------------------------------

struct Quality {
  double noisy = 0, full = 0, sparse = 0;  ///< PSNR over the whole picture; `full` over the rows that have it
  double sparse_where_full = 0;            ///< of sparse attention, over the rows that `full` has
  std::vector<float> sparse_grey, full_grey;  ///< by token; full's are of the sampled rows
};

std::vector<float> grey_of(AttentionRows const& rows, float mean) {
  std::vector<float> grey(rows.lse.size());
  for (std::size_t i = 0; i < grey.size(); ++i) grey[i] = rows.out[i * head_dim] + mean;
  return grey;
}

Quality measure(Image const& clean, Image const& noisy, TileOrder order, AttentionRun const& run,
                float mean) {
  Quality quality;
  quality.sparse_grey = grey_of(run.sparse, mean);
  quality.full_grey = grey_of(run.full, mean);
  std::vector<float> noisy_grey, sparse_sample;
  std::vector<std::int64_t> pixels, sampled_pixels;
  for (std::int64_t token = 0; token < order.tokens(); ++token) {
    pixels.push_back(order.pixel_of(token));
    noisy_grey.push_back(noisy.values[std::size_t(pixels.back())]);
  }
  for (std::int64_t token : run.sample) {
    sampled_pixels.push_back(order.pixel_of(token));
    sparse_sample.push_back(quality.sparse_grey[std::size_t(token)]);
  }
  quality.noisy = psnr(clean, noisy_grey, pixels);
  quality.sparse = psnr(clean, quality.sparse_grey, pixels);
  quality.full = psnr(clean, quality.full_grey, sampled_pixels);
  quality.sparse_where_full = psnr(clean, sparse_sample, sampled_pixels);
  return quality;
}

void add_quality_rows(Table& table, AttentionRun const& run, Quality const& quality) {
  auto const decibel = [](double x) { return number_text(x, 2) + " dB"; };
  table.add("PSNR, noisy", decibel(quality.noisy));
  table.add("PSNR, sparse attention", decibel(quality.sparse));
  if (run.full_is_whole()) {
    table.add("PSNR, full attention", decibel(quality.full));
  } else {
    std::string const pixels = count_text(std::int64_t(run.sample.size())) + " pixels";
    table.add("PSNR, full attention (" + pixels + ")", decibel(quality.full));
    table.add("PSNR, sparse attention (same " + pixels + ")", decibel(quality.sparse_where_full));
  }
}

void write_pictures(std::string const& out, Image const& noisy, TileOrder order, AttentionInput const& input,
                    AttentionRun const& run, Quality const& quality) {
  int const times = std::max(1, 384 / order.side);
  std::int64_t const middle = (input.problem.q_blocks() + order.side / TileOrder::side_multiple) / 2;
  std::vector<Image> row = {enlarge(noisy, times)};
  write_png(out + "/noisy.png", noisy);
  if (run.full_is_whole()) {
    Image const full = to_picture(quality.full_grey, order);
    write_png(out + "/full.png", full);
    row.push_back(enlarge(full, times));
  }
  Image const sparse = to_picture(quality.sparse_grey, order);
  write_png(out + "/sparse.png", sparse);
  row.push_back(enlarge(sparse, times));
  row.push_back(enlarge(kept_tiles_picture(sparse, order, input.problem, run.mask, middle), times));
  write_png(out + "/kept_tiles.png", row.back());
  write_png(out + "/mask.png", look_at(mask_picture(input.problem, run.mask)));
  write_png(out + "/overview.png", side_by_side(row));
}

/// What default settings must reach on 16,384 tokens and more.
bool meets_expectations(AttentionRun const& run, Quality const& quality, std::FILE* notes) {
  sparge::MaskStats const stats = total(run.stats);
  double const sparsity = 1 - double(stats.kept_pairs) / double(stats.all_pairs);
  bool const sparse_enough = sparsity >= 0.85, clean_enough = quality.sparse >= quality.noisy + 4;
  bool const close_enough = std::abs(quality.sparse_where_full - quality.full) <= 0.3;
  auto const say = [&](bool met, char const* what) {
    std::fprintf(notes, "%s: %s\n", met ? "met" : "NOT MET", what);
  };
  say(sparse_enough, "sparsity of at least 85 %");
  say(clean_enough, "sparse attention at least 4 dB better than the noisy picture");
  say(close_enough, "sparse attention within 0.3 dB of full attention");
  return sparse_enough && clean_enough && close_enough;
}

/// The photograph beside this source file, or in the current directory's tree where the program was built elsewhere.
std::string default_picture() {
  std::filesystem::path const beside = std::filesystem::path(__FILE__).parent_path() / "data/camera.png";
  return std::filesystem::exists(beside) ? beside.string() : "examples/data/camera.png";
}

int denoise(Options const& options) {
  TileOrder const order{options.size};
  double const sigma = options.sigma / 255;
  Image const clean = shrink(
      crop_square(read_png(options.picture.empty() ? default_picture() : options.picture)), options.size);
  Image const noisy = add_noise(clean, sigma, std::uint64_t(options.seed));
  PatchTokens tokens = make_tokens(noisy, order);
  sparge::AttentionProblem problem{1, 1, 1, order.tokens(), order.tokens(), head_dim};
  problem.scale = logit_scale(sigma);
  AttentionInput const input{problem, rule_of(options), std::move(tokens.q), std::move(tokens.k),
                             std::move(tokens.v)};

  AttentionRun const result = run(input, options);
  Quality const quality = measure(clean, noisy, order, result, tokens.mean);
  write_pictures(options.out, noisy, order, input, result, quality);
  Table table("Denoising " + std::to_string(order.side) + " x " + std::to_string(order.side) +
              " pixels, sigma " + number_text(options.sigma, 0) + ", top_k " + number_text(options.top_k, 3) +
              ", top_p " + number_text(options.top_p, 3));
  add_attention_rows(table, input, result);
  add_quality_rows(table, result, quality);
  table.print(options.markdown);
  if (options.own_settings || order.tokens() < 16384) return 0;
  return meets_expectations(result, quality, notes_of(options)) ? 0 : 1;
}

// ---- Arrays --------------------------------------------------------------------------------------------------------

/// Shape as [batch, heads, tokens, head_dim]; leading axes that are missing are 1.
std::vector<std::int64_t> four_axes(NpyArray const& array, std::string const& path) {
  std::vector<std::int64_t> shape = array.shape;
  if (shape.size() < 2 || shape.size() > 4) throw std::runtime_error(path + " needs 2, 3 or 4 axes");
  if (array.values.empty()) throw std::runtime_error(path + " is empty");
  shape.insert(shape.begin(), 4 - shape.size(), 1);
  return shape;
}

int attend_arrays(Options const& options) {
  NpyArray q = read_npy(options.q), k = read_npy(options.k), v = read_npy(options.v);
  std::vector<std::int64_t> const q_shape = four_axes(q, options.q), k_shape = four_axes(k, options.k);
  if (four_axes(v, options.v) != k_shape) throw std::runtime_error("--v needs the shape of --k");
  if (q_shape[0] != k_shape[0]) throw std::runtime_error("--q and --k need the same batch");
  if (q_shape[3] != k_shape[3]) throw std::runtime_error("--q and --k need the same head_dim");
  sparge::AttentionProblem problem{q_shape[0], q_shape[1], k_shape[1],
                                   q_shape[2], k_shape[2], int(q_shape[3])};
  problem.scale = float(options.scale);
  AttentionInput const input{problem, rule_of(options), std::move(q.values), std::move(k.values),
                             std::move(v.values)};

  AttentionRun const result = run(input, options);
  write_npy(options.out + "/out.npy", q_shape, result.sparse.out);
  write_png(options.out + "/mask.png", look_at(mask_picture(input.problem, result.mask)));
  Table table("Attention over " + options.q);
  add_attention_rows(table, input, result);
  table.print(options.markdown);
  return 0;
}

int main_of(int argc, char** argv) {
  Options const options = parse_options(argc, argv);
  if (options.help) {
    std::fputs(usage, stdout);
    return 0;
  }
  std::filesystem::create_directories(options.out);
  int const result = options.has_arrays() ? attend_arrays(options) : denoise(options);
  std::fprintf(notes_of(options), "%s in %s\n", options.has_arrays() ? "out.npy and mask.png" : "Pictures",
               options.out.c_str());
  return result;
}

}  // namespace
}  // namespace demo

int main(int argc, char** argv) {
  try {
    return demo::main_of(argc, argv);
  } catch (std::exception const& error) {
    std::fprintf(stderr, "denoise: %s\n", error.what());
    return 2;
  }
}
