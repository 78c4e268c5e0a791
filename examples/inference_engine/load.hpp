#pragma once
/// What an engine decides when it loads a model: a plan for every call of every layer, and where everything will lie. No CUDA call.

#include <algorithm>
#include <cstddef>
#include <vector>

#include "inference_engine/arena.hpp"
#include "inference_engine/weights.hpp"
#include "sparge/throwing.hpp"

namespace engine {

struct LayerPlan {
  sparge::BuildMaskPlan<bfloat16> mask;
  sparge::ForwardPlan<bfloat16> self, cross;
};

struct Plans {
  Plans(Shape const& s, sparge::Device const& device) : layers(std::size_t(s.layers)) {
    if (s.dim % s.head_dim != 0 || !fits_rows(s.dim) || s.ffn % 8 != 0)
      throw std::invalid_argument(
          "dim must be a multiple of head_dim and of 256, at most 5120, ffn one of 8");
    for (LayerPlan& layer : layers) {
      sparge::check(sparge::plan_build_mask(s.self_attention(), device, {}, &layer.mask));
      sparge::check(sparge::plan_forward(s.self_attention(), device, {}, &layer.self));
      sparge::check(sparge::plan_forward(s.cross_attention(), device, {}, &layer.cross));
      grow(layer.mask.workspace_bytes), grow(layer.self.workspace_bytes), grow(layer.cross.workspace_bytes);
    }
    sparge::check(sparge::plan_pool(s.self_attention(), device, {}, &pool));
    sparge::check(sparge::plan_mask_stats(s.self_attention(), device, {}, &stats));
    grow(pool.workspace_bytes), grow(stats.workspace_bytes);
    sparge::check(sparge::mask_words(s.self_attention(), &mask_words));
    sparge::check(sparge::mask_words(s.cross_attention(), &cross_mask_words));
  }

  std::vector<LayerPlan> layers;
  sparge::PoolPlan<bfloat16> pool;
  sparge::MaskStatsPlan stats;
  std::size_t mask_words = 0, cross_mask_words = 0;
  std::size_t workspace_bytes = 0;  ///< of the largest call: they run one after another, on one stream

private:
  void grow(std::size_t bytes) { workspace_bytes = std::max(workspace_bytes, bytes); }
};

/// All device memory of the engine.
struct Buffers {
  std::vector<DeviceWeights> layers;
  float* time = nullptr;  ///< [6, dim], of the step; the caller writes it between two steps
  bfloat16 *input = nullptr, *text = nullptr;  ///< [tokens, dim], [text_tokens, dim]; likewise
  Turn* turns = nullptr;                       ///< [tokens, head_dim / 2]
  bfloat16* x = nullptr;                       ///< [tokens, dim]: between layers, and in the end the result
  bfloat16* hidden = nullptr;                  ///< [tokens, dim]: what a product or attention reads or wrote
  bfloat16* wide = nullptr;  ///< [tokens, 3 dim or ffn]: queries, keys, values; products; feed-forward part
  bfloat16* text_kv = nullptr;  ///< [text_tokens, 2, heads, head_dim]
  sparge::MaskOut mask, ones, cross_ones;
  sparge::Workspace workspace;
  std::byte* product_scratch = nullptr;
  float *pooled_q = nullptr, *pooled_k = nullptr;  ///< for statistics only, as are these:
  std::vector<sparge::MaskStats*> stats;           ///< of each layer [heads]
};

inline Buffers lay_out(Arena& arena, Shape const& s, Plans const& plans, std::size_t product_scratch_bytes) {
  Buffers b;
  b.layers.resize(std::size_t(s.layers));
  for (DeviceWeights& layer : b.layers)
    visit_weights(s, layer, [&](auto*& member, std::int64_t count, Distribution) {
      member = arena.take<std::remove_reference_t<decltype(*member)>>(count);
    });
  b.time = arena.take<float>(modulations * s.dim);
  b.input = arena.take<bfloat16>(s.tokens * s.dim);
  b.text = arena.take<bfloat16>(s.text_tokens * s.dim);
  b.turns = arena.take<Turn>(s.tokens * s.head_dim / 2);
  b.x = arena.take<bfloat16>(s.tokens * s.dim);
  b.hidden = arena.take<bfloat16>(s.tokens * s.dim);
  b.wide = arena.take<bfloat16>(s.tokens * std::max(3 * s.dim, s.ffn));
  b.text_kv = arena.take<bfloat16>(s.text_tokens * 2 * s.dim);
  auto const take_mask = [&](std::size_t words) {
    return sparge::MaskOut{arena.take<std::uint32_t>(std::int64_t(words)), words};
  };
  b.mask = take_mask(plans.mask_words), b.ones = take_mask(plans.mask_words);
  b.cross_ones = take_mask(plans.cross_mask_words);
  b.workspace = {arena.take<std::byte>(std::int64_t(plans.workspace_bytes)), plans.workspace_bytes};
  b.product_scratch = arena.take<std::byte>(std::int64_t(product_scratch_bytes));
  sparge::AttentionProblem const p = s.self_attention();
  b.pooled_q = arena.take<float>(p.heads * p.q_blocks() * p.head_dim);
  b.pooled_k = arena.take<float>(p.heads * p.kv_blocks() * p.head_dim);
  for (std::int64_t i = 0; i < s.layers; ++i) b.stats.push_back(arena.take<sparge::MaskStats>(p.heads));
  return b;
}

/// What lay_out() will take.
inline std::size_t measure(Shape const& s, Plans const& plans, std::size_t product_scratch_bytes) {
  Arena arena;
  lay_out(arena, s, plans, product_scratch_bytes);
  return arena.used();
}

}  // namespace engine
