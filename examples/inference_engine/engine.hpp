#pragma once
/// A stack of diffusion-transformer layers in bf16 on one stream and one arena: what is enqueued may be captured and replayed.

#include <vector>

#include "inference_engine/load.hpp"
#include "inference_engine/part_timer.hpp"
#include "support/device_array.hpp"
#include "training/matrix_product.hpp"
#include "training/step_graph.hpp"

namespace engine {

enum class Attention {
  dense,    ///< the same kernel with a mask of ones
  sparse,   ///< with the mask that the layer's own queries and keys choose
  counted,  ///< likewise, and statistics of the masks are left behind
};

class Engine {
public:
  /// Plans, then allocates once, then loads. Weights and inputs are random, the same for the same seed.
  Engine(Shape const& shape, sparge::MaskRule const& rule, sparge::Device const& device, std::uint64_t seed)
      : s_(shape),
        rule_(rule),
        plans_(s_, device),
        memory_(measure(s_, plans_, training::MatrixProduct::scratch_bytes)),
        product_(stream_, lay_out_memory()) {
    load_constants();
    load_weights(seed);
    load_inputs(seed + 1);
    stream_.wait();
  }

  /// New inputs into the buffers that a captured step reads.
  void load_inputs(std::uint64_t seed) {
    seed *= 1000003;
    check(fill_random(b_.input, s_.tokens * s_.dim, {}, seed, stream_));
    check(fill_random(b_.text, s_.text_tokens * s_.dim, {}, seed + 1, stream_));
    check(fill_random(b_.time, modulations * s_.dim, of_modulation, seed + 2, stream_));
  }

  /// One step of the whole stack, from `input` to `x`. With a timer, which a capture must not have, its parts are timed.
  void enqueue_step(Attention attention, PartTimer* timer = nullptr) {
    timer_ = timer;
    for (std::size_t layer = 0; layer < plans_.layers.size(); ++layer) {
      DeviceWeights const& w = b_.layers[layer];
      enqueue_self_attention(w, layer, attention);
      enqueue_cross_attention(w, plans_.layers[layer]);
      enqueue_feed_forward(w);
    }
    timer_ = nullptr;
  }

  /// The step as a graph. One step runs before: what loads kernels on first use must not do so while a graph is captured.
  training::StepGraph capture(Attention attention) {
    enqueue_step(attention);
    stream_.wait();
    return training::StepGraph(stream_, [&] { enqueue_step(attention); });
  }

  training::Stream const& stream() const { return stream_; }
  Buffers const& buffers() const { return b_; }
  Shape const& shape() const { return s_; }
  Plans const& plans() const { return plans_; }
  std::size_t arena_bytes() const { return memory_.size(); }

private:
  static void check(cudaError_t error) { demo::check_cuda(error); }

  void begin(Part part) {
    if (timer_ != nullptr) timer_->begin(part, stream_);
  }

  // ---- Loading -------------------------------------------------------------------------------------------------------

  /// Returns the scratch of products.
  std::byte* lay_out_memory() {
    Arena arena(memory_.data(), memory_.size());
    b_ = lay_out(arena, s_, plans_, training::MatrixProduct::scratch_bytes);
    return b_.product_scratch;
  }

  void load_constants() {
    std::vector<Turn> const turns = make_turns(s_);
    check(cudaMemcpyAsync(b_.turns, turns.data(), turns.size() * sizeof(Turn), cudaMemcpyHostToDevice,
                          stream_));
    for (sparge::MaskOut const& mask : {b_.ones, b_.cross_ones})
      check(cudaMemsetAsync(mask.data, 0xff, mask.words * sizeof(std::uint32_t), stream_));
    stream_.wait();  // `turns` goes away
  }

  void load_weights(std::uint64_t seed) {
    seed *= 1000003;
    for (DeviceWeights& layer : b_.layers)
      visit_weights(s_, layer, [&](auto* member, std::int64_t count, Distribution d) {
        check(fill_random(member, count, d, ++seed, stream_));
      });
  }

  // ---- A layer -------------------------------------------------------------------------------------------------------

  Modulation modulation(DeviceWeights const& w, int which) const {
    return {w.modulation + which * s_.dim, b_.time + which * s_.dim};
  }

  void project(bfloat16 const* in, bfloat16 const* weights, bfloat16* out, std::int64_t rows,
               std::int64_t columns, std::int64_t inner) {
    begin(Part::linear);
    product_({in}, {weights}, out, rows, columns, inner);
  }

  /// x or `input` to x, and its norm to `hidden`.
  void enqueue_norm(ResidualNorm args) {
    begin(Part::elementwise);
    args.sum = b_.x;
    args.rows = s_.tokens, args.dim = s_.dim;
    check(residual_norm(args, stream_));
  }

  void enqueue_rms_norm(bfloat16* x, std::int64_t rows, std::int64_t stride, float const* bias,
                        float const* weight, Turn const* turns) {
    begin(Part::elementwise);
    check(rms_norm({x, bias, weight, turns, rows, stride, s_.dim, s_.head_dim}, stream_));
  }

  /// hidden = attention(norm(x)), in three steps: queries, keys and values in `wide`; a mask; attention.
  void enqueue_self_attention(DeviceWeights const& w, std::size_t layer, Attention attention) {
    bfloat16 const* const x = layer == 0 ? b_.input : b_.x;
    enqueue_norm({x, nullptr, nullptr, {}, nullptr, b_.hidden, modulation(w, 1), modulation(w, 0)});
    project(b_.hidden, w.qkv, b_.wide, s_.tokens, 3 * s_.dim, s_.dim);
    enqueue_rms_norm(b_.wide, s_.tokens, 3 * s_.dim, w.q_bias, w.q_norm, b_.turns);
    enqueue_rms_norm(b_.wide + s_.dim, s_.tokens, 3 * s_.dim, w.k_bias, w.k_norm, b_.turns);
    sparge::ForwardArgs<bfloat16> args;
    args.q = part_of(b_.wide, s_.tokens, 3, 0, s_), args.k = part_of(b_.wide, s_.tokens, 3, 1, s_);
    args.v = part_of(b_.wide, s_.tokens, 3, 2, s_);
    args.out = part_of(b_.hidden, s_.tokens, 1, 0, s_);
    args.mask = attention == Attention::dense ? b_.ones : b_.mask;
    if (attention != Attention::dense) enqueue_mask(layer, args.q, args.k);
    if (attention == Attention::counted) enqueue_statistics(layer, args.q, args.k);
    begin(Part::self_attention);
    sparge::check(sparge::forward(plans_.layers[layer].self, args, b_.workspace, stream_));
    project(b_.hidden, w.out, b_.wide, s_.tokens, s_.dim, s_.dim);
    // x += gate * (attention's output), and on to cross-attention
    enqueue_norm({x,
                  b_.wide,
                  w.out_bias,
                  modulation(w, 2),
                  nullptr,
                  b_.hidden,
                  {w.cross_norm_scale},
                  {w.cross_norm_shift}});
  }

  void enqueue_mask(std::size_t layer, sparge::TensorView<bfloat16 const> q,
                    sparge::TensorView<bfloat16 const> k) {
    begin(Part::mask);
    sparge::check(sparge::build_mask<bfloat16>(plans_.layers[layer].mask, {q, k, rule_, b_.mask},
                                               b_.workspace, stream_));
  }

  void enqueue_statistics(std::size_t layer, sparge::TensorView<bfloat16 const> q,
                          sparge::TensorView<bfloat16 const> k) {
    sparge::check(
        sparge::pool<bfloat16>(plans_.pool, {q, k, b_.pooled_q, b_.pooled_k}, b_.workspace, stream_));
    sparge::check(sparge::mask_stats(
        plans_.stats, {b_.pooled_q, b_.pooled_k, rule_, b_.mask, b_.stats[layer]}, b_.workspace, stream_));
  }

  /// `hidden` holds norm(x). Keys and values of the text are made in every step, as the published code does.
  void enqueue_cross_attention(DeviceWeights const& w, LayerPlan const& plan) {
    project(b_.hidden, w.cross_q, b_.wide, s_.tokens, s_.dim, s_.dim);
    project(b_.text, w.cross_kv, b_.text_kv, s_.text_tokens, 2 * s_.dim, s_.dim);
    enqueue_rms_norm(b_.wide, s_.tokens, s_.dim, w.cross_q_bias, w.cross_q_norm, nullptr);
    enqueue_rms_norm(b_.text_kv, s_.text_tokens, 2 * s_.dim, w.cross_k_bias, w.cross_k_norm, nullptr);
    sparge::ForwardArgs<bfloat16> args;
    args.q = part_of(b_.wide, s_.tokens, 1, 0, s_);
    args.k = part_of(b_.text_kv, s_.text_tokens, 2, 0, s_);
    args.v = part_of(b_.text_kv, s_.text_tokens, 2, 1, s_);
    args.out = part_of(b_.hidden, s_.tokens, 1, 0, s_);
    args.mask = b_.cross_ones;
    begin(Part::cross_attention);
    sparge::check(sparge::forward(plan.cross, args, b_.workspace, stream_));
    project(b_.hidden, w.cross_out, b_.wide, s_.tokens, s_.dim, s_.dim);
    // x += its output, without a gate, and on to the feed-forward part
    enqueue_norm(
        {b_.x, b_.wide, w.cross_out_bias, {}, nullptr, b_.hidden, modulation(w, 4), modulation(w, 3)});
  }

  /// `hidden` holds norm(x). Ends the layer: x += gate * (its output).
  void enqueue_feed_forward(DeviceWeights const& w) {
    project(b_.hidden, w.up, b_.wide, s_.tokens, s_.ffn, s_.dim);
    begin(Part::elementwise);
    check(gelu({b_.wide, w.up_bias, s_.tokens, s_.ffn}, stream_));
    project(b_.wide, w.down, b_.hidden, s_.tokens, s_.dim, s_.ffn);
    enqueue_norm({b_.x, b_.hidden, w.down_bias, modulation(w, 5), nullptr, nullptr, {}, {}});
  }

  Shape s_;
  sparge::MaskRule rule_;
  Plans plans_;
  training::Stream stream_;
  demo::DeviceArray<std::byte> memory_;  ///< the only device memory there is
  Buffers b_;
  training::MatrixProduct product_;
  PartTimer* timer_ = nullptr;
};

}  // namespace engine
