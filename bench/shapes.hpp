#pragma once
/// Self-attention shapes of real models. Tokens are those of the video after patchifying, with the text tokens added where
/// the model attends to both jointly.

#include <cstdint>
#include <string_view>

#include "sparge/core/problem.hpp"

namespace sparge::bench {

/// Which benchmarks run a shape when none is asked for by name.
enum class Run { by_default, on_demand };

struct Shape {
  char const* name;
  std::int64_t batch, heads, kv_heads, q_tokens, kv_tokens;
  std::int32_t head_dim;
  Run run = Run::on_demand;

  AttentionProblem problem() const { return {batch, heads, kv_heads, q_tokens, kv_tokens, head_dim}; }
};

constexpr Shape self_attention(char const* name, std::int64_t batch, std::int64_t heads, std::int64_t tokens,
                               std::int32_t head_dim, Run run = Run::on_demand) {
  return {name, batch, heads, heads, tokens, tokens, head_dim, run};
}

inline constexpr Shape shapes[] = {
    self_attention("h40_n32768_d128", 1, 40, 32768, 128, Run::by_default),
    self_attention("h40_n32768_d64", 1, 40, 32768, 64, Run::by_default),
    self_attention("h4_n32768_d128", 1, 4, 32768, 128),
    self_attention("wan_1.3b_480p", 1, 12, 32760, 128, Run::by_default),
    self_attention("wan_14b_480p", 1, 40, 32760, 128),
    self_attention("wan_14b_720p", 1, 40, 75600, 128, Run::by_default),
    self_attention("wan_14b_720p_on_8_gpus", 1, 5, 75600, 128),
    self_attention("hunyuan_video_720p", 1, 24, 119056, 128),
    self_attention("hunyuan_video_768p", 1, 24, 115456, 128),
    self_attention("hunyuan_video_544p", 1, 24, 67576, 128),
    self_attention("hunyuan_video_1.5_480p", 1, 16, 48360, 128),
    self_attention("hunyuan_video_1.5_720p", 1, 16, 111600, 128),
    self_attention("cogvideox_2b", 1, 30, 17776, 64, Run::by_default),
    self_attention("cogvideox_5b", 1, 48, 17776, 64),
    self_attention("cogvideox_1.5_5b", 2, 48, 45106, 64),
    self_attention("ltx_video_512p", 1, 32, 7392, 64),
    self_attention("ltx_2_512p", 1, 32, 6144, 128),
    self_attention("ltx_2_1088p", 1, 32, 32640, 128),
    self_attention("mochi_1_480p", 1, 24, 44776, 128),
    self_attention("flux_1_1024", 1, 24, 4608, 128),
    self_attention("flux_1_2048", 1, 24, 16896, 128),
    self_attention("minimax_h3", 1, 56, 38222, 128),
    self_attention("fastwan_1.3b_448p", 1, 12, 23296, 128),
    self_attention("short_control", 1, 24, 6656, 128),
};

/// Null where there is no shape of that name.
constexpr Shape const* find_shape(std::string_view name) {
  for (Shape const& shape : shapes)
    if (shape.name == name) return &shape;
  return nullptr;
}

}  // namespace sparge::bench
