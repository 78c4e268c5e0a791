#pragma once
/// The consumer side of the sm90a forward kernel: S = Q K^T, softmax, O += P V with wgmma. A warpgroup owns 64 query rows.

#include <cstdint>

#include "sparge/collective/forward_pipe_sm90.cuh"
#include "sparge/collective/forward_store_sm90.cuh"
#include "sparge/device/element_mask.cuh"
#include "sparge/device/fragment.cuh"
#include "sparge/device/guarded_softmax.cuh"
#include "sparge/device/online_softmax.cuh"
#include "sparge/device/turn.cuh"
#include "sparge/device/wgmma_sm90.cuh"

namespace sparge {

/// What runs beside the exponentials of a tile.
enum class Overlap {
  other_warpgroups,  ///< products of other warpgroups only
  back_to_back,      ///< the same; O += P V and the next S = Q K^T are issued together
  own_product,       ///< also this warpgroup's O += P V of the tile before
};

struct ForwardTuning {
  Overlap overlap = Overlap::own_product;
  bool takes_turns = false;  ///< only one of two warpgroups computes exponentials at a time
};

template <ForwardConfig config, class T, ForwardTuning tuning>
class ForwardLoopSm90 {
public:
  using Params = ForwardParams<T>;
  using Pipe = ForwardPipe<config>;

  __device__ __forceinline__ ForwardLoopSm90(Params const& params, CUtensorMap const& out, Pipe pipe,
                                             int team, int warpgroup)
      : params_(params),
        pipe_(pipe),
        warpgroup_(warpgroup),
        turn_(1 + 2 * team, warpgroup),
        store_(params, out, pipe, warpgroup) {}

  __device__ __forceinline__ void run() {
    if constexpr (tuning.takes_turns) turn_.init();
    ForwardWork work = next_work();
    while (!work.is_end()) {
      if (work.is_first_pass()) {
        work = run_guarded(work);
      } else {
        if (work.is_tile()) run_exact(work);
        work = next_work();
      }
    }
    store_.finish();
  }

private:
  // ---- Passes over a row ---------------------------------------------------------------------------------------------

  /// Computes `work` and what follows while that is first passes too: the first product of the next tile runs while this
  /// one's rows are stored. Returns the first work that is something else.
  __device__ __forceinline__ ForwardWork run_guarded(ForwardWork work) {
    out_.clear();
    issue_logits();
    wgmma_wait<0>();
    pin(logits_[0]);
    while (true) {
      take_logits();
      take_turn();
      softmax_.first(logits_[0], params_.scale_log2);
      pass_turn();
      bool accumulates = false;
      while (!row_ended_) {
        step(accumulates);
        accumulates = true;
      }
      pack_weights();
      ForwardWork const next = next_work();
      if (!next.is_first_pass()) {
        issue_out(accumulates);
        wgmma_wait<0>();
        finish_row(work);
        return next;
      }
      issue_out(accumulates);
      issue_logits();
      wgmma_wait<1>();
      finish_row(work);
      wgmma_wait<0>();
      pin(logits_[0]);
      work = next;
    }
  }

  /// From the weights of one tile to those of the next.
  __device__ __forceinline__ void step(bool accumulates) {
    pack_weights();
    if constexpr (tuning.overlap == Overlap::own_product) {
      issue_logits();
      issue_out(accumulates);
      wgmma_wait<1>();
      pin(logits_[0]);
      take_logits();
      bool const has_grown = weigh();
      wgmma_wait<0>();
      pin(out_);
      release_v();
      if (has_grown) softmax_.renormalise(logits_[0], out_);
    } else {
      issue_out(accumulates);
      if constexpr (tuning.overlap == Overlap::other_warpgroups) {
        wgmma_wait<0>();
        pin(out_);
        release_v();
        issue_logits();
        wgmma_wait<0>();
        pin(logits_[0]);
      } else {
        issue_logits();
        wgmma_wait<0>();
        pin(out_);
        pin(logits_[0]);
        release_v();
      }
      take_logits();
      if (weigh()) softmax_.renormalise(logits_[0], out_);
    }
  }

  /// Once more with maximum tracking, nothing overlapped: for rows that the guarded softmax cannot hold.
  __device__ __forceinline__ void run_exact(ForwardWork work) {
    OnlineSoftmax<1> softmax;
    softmax.reset();
    out_.clear();
    do {
      issue_logits();
      wgmma_wait<0>();
      pin(logits_[0]);
      take_logits();
      float rescale[1][2];
      softmax.template update<SoftmaxReference::exact>(logits_, params_.scale_log2, rescale);
      out_.scale_row(0, rescale[0][0]);
      out_.scale_row(1, rescale[0][1]);
      pack_weights();
      issue_out(true);
      wgmma_wait<0>();
      pin(out_);
      release_v();
    } while (!row_ended_);
    store_.store_exact(work, out_, softmax);
  }

  __device__ __forceinline__ void finish_row(ForwardWork work) {
    pin(out_);
    release_v();
    store_.store_guarded(work, out_, softmax_);
  }

  // ---- Products --------------------------------------------------------------------------------------------------------

  /// S = Q K^T of the next tile of keys.
  __device__ __forceinline__ void issue_logits() {
    int const slot = k_at_.slot();
    pipe_.k_full(slot).wait(k_at_.parity());
    step_ = pipe_.read_step(slot);
    PanelDescriptor const q(pipe_.q(q_at_.slot()) + warpgroup_ * (64 * Pipe::panel_row_bytes), 0);
    PanelDescriptor const k(pipe_.k(slot), 0);
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < config.head_dim / 16; ++i) {
      int const panel = i / 4, in_row = i % 4 * 32;
      wgmma_shared<T>(logits_[0], q.advance(panel * Pipe::q_panel_bytes + in_row),
                      k.advance(panel * Pipe::kv_panel_bytes + in_row), i > 0);
    }
    wgmma_commit();
  }

  /// O += P V, or O = P V for the first tile of a row.
  __device__ __forceinline__ void issue_out(bool accumulates) {
    int const slot = v_at_.slot();
    pipe_.v_full(slot).wait(v_at_.parity());
    PanelDescriptor const v(pipe_.v(slot), Pipe::kv_panel_bytes);
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < config.kv_tile / 16; ++i)
      wgmma_registers<T>(out_, weights_[i], v.advance(i * 16 * Pipe::panel_row_bytes), accumulates || i > 0);
    wgmma_commit();
  }

  /// The logits have arrived: K is no longer needed, nor Q after the row's last tile.
  __device__ __forceinline__ void take_logits() {
    arrive(pipe_.k_empty(k_at_.slot()));
    k_at_.advance();
    row_ended_ = step_.is_last;
    if (row_ended_) release_q();
    if (step_.valid_keys < config.kv_tile) mask_tail(logits_[0], step_.valid_keys);
  }

  __device__ __forceinline__ bool weigh() {
    take_turn();
    bool const has_grown = softmax_.next(logits_[0], params_.scale_log2);
    pass_turn();
    return has_grown;
  }

  __device__ __forceinline__ void pack_weights() {
#pragma unroll
    for (int i = 0; i < config.kv_tile / 16; ++i) logits_[0].template to_operand<T>(weights_[i], i);
  }

  // ---- Hand-over -------------------------------------------------------------------------------------------------------

  /// Every warp arrives for itself: its products may be done before those of the other three.
  static __device__ __forceinline__ void arrive(Mbarrier barrier) {
    if (lane_index() == 0) barrier.arrive();
  }

  __device__ __forceinline__ void release_q() {
    arrive(pipe_.q_empty(q_at_.slot()));
    q_at_.advance();
  }

  __device__ __forceinline__ void release_v() {
    arrive(pipe_.v_empty(v_at_.slot()));
    v_at_.advance();
  }

  /// Only where the Q of the work before has been released.
  __device__ __forceinline__ ForwardWork next_work() {
    pipe_.q_full(q_at_.slot()).wait(q_at_.parity());
    ForwardWork const work = pipe_.read_work(q_at_.slot());
    if (!work.is_tile()) release_q();
    return work;
  }

  __device__ __forceinline__ void take_turn() {
    if constexpr (tuning.takes_turns) turn_.take();
  }
  __device__ __forceinline__ void pass_turn() {
    if constexpr (tuning.takes_turns) turn_.pass();
  }

  Params const& params_;
  Pipe pipe_;
  int warpgroup_;
  Turn turn_;
  ForwardStoreSm90<config, T> store_;
  typename Pipe::QPosition q_at_;
  typename Pipe::KvPosition k_at_, v_at_;
  ForwardStep step_;                    ///< of the logits that were issued last
  bool row_ended_;                      ///< the logits that were taken last are the row's last
  Fragment<config.kv_tile> logits_[1];  ///< then, in place, weights
  std::uint32_t weights_[config.kv_tile / 16][4];
  Fragment<config.head_dim> out_;
  GuardedSoftmax softmax_;
};

}  // namespace sparge
