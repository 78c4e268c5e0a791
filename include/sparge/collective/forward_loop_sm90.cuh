#pragma once
/// The consumer side of the sm90a forward kernel: S = Q K^T, softmax, O += P V with wgmma. A warpgroup owns 64 query rows.

#include <cstdint>

#include "sparge/collective/forward_pipe_sm90.cuh"
#include "sparge/collective/forward_store_sm90.cuh"
#include "sparge/device/element_mask.cuh"
#include "sparge/device/fragment.cuh"
#include "sparge/device/guarded_softmax.cuh"
#include "sparge/device/online_softmax.cuh"
#include "sparge/device/wgmma_sm90.cuh"

namespace sparge {

/// What runs beside the exponentials of a tile.
enum class Overlap {
  other_warpgroups,  ///< products of other warpgroups; O += P V and the next S = Q K^T are issued together
  own_product,       ///< also this warpgroup's O += P V of the tile before
};

/// Measured (docs/decisions): two teams fill the tensor cores between them.
constexpr Overlap overlap_of(ForwardConfig const& config) {
  return config.teams() == 1 ? Overlap::own_product : Overlap::other_warpgroups;
}

template <ForwardConfig config, class T>
class ForwardLoopSm90 {
public:
  using Params = ForwardParams<T>;
  using Pipe = ForwardPipe<config>;

  __device__ __forceinline__ ForwardLoopSm90(Params const& params, CUtensorMap const& out, Pipe pipe,
                                             int team, int warpgroup)
      : params_(params),
        pipe_(pipe),
        warpgroup_(warpgroup),
        barrier_(1 + 2 * team + warpgroup),
        store_(params, out, pipe, warpgroup) {}

  __device__ __forceinline__ void run() {
    prepare_descriptors();
    ForwardWork work = next_work();
    while (!work.is_end()) {
      if (work.is_first_pass()) {
        work = run_guarded(work);
      } else {
        if (work.is_tile()) run_exact(work);
        work = next_work();
      }
    }
    return_q();  // shared memory must outlive the copies that read it
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
      softmax_.first(logits_[0], params_.scale_log2, PackIfEarly{*this});
      bool accumulates = false;
      while (!row_ended_) {
        if constexpr (overlap == Overlap::own_product)
          step_beside_product(accumulates);
        else
          step_after_product(accumulates);
        accumulates = true;
      }
      pack_unless_early();
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

  /// From the weights of one tile to those of the next, whose exponentials run beside O += P V.
  __device__ __forceinline__ void step_beside_product(bool accumulates) {
    pack_unless_early();
    issue_logits();
    issue_out(accumulates);
    wgmma_wait<1>();
    pin(logits_[0]);
    take_logits();
    float const largest = weigh();
    GuardedSoftmax::finish_before_wait(largest);
    bool const has_grown = GuardedSoftmax::has_grown<T>(largest);
    wgmma_wait<0>();
    pin(out_);
    release_v();
    prepare_descriptors();
    return_q();
    if (has_grown) renormalise();
  }

  /// The same, both products first.
  __device__ __forceinline__ void step_after_product(bool accumulates) {
    issue_out(accumulates);
    issue_logits();
    wgmma_wait<0>();
    pin(out_);
    pin(logits_[0]);
    release_v();
    take_logits();
    return_q();
    if (GuardedSoftmax::has_grown<T>(weigh())) renormalise();
  }

  /// Once more with maximum tracking, nothing overlapped: for rows that the guarded softmax cannot hold.
  __device__ __forceinline__ void run_exact(ForwardWork work) {
    return_q();
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
    take_q(work);
    store_.store_exact(work, out_, softmax);
  }

  __device__ __forceinline__ void finish_row(ForwardWork work) {
    pin(out_);
    release_v();
    take_q(work);
    store_.store_guarded(work, out_, softmax_);
  }

  // ---- Products --------------------------------------------------------------------------------------------------------

  /// S = Q K^T of the next tile of keys.
  __device__ __forceinline__ void issue_logits() {
    int const slot = k_at_.slot();
    pipe_.kv_full(slot).wait(k_at_.parity());
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < config.head_dim / 16; ++i) {
      int const panel = i / 4, in_row = i % 4 * 32;
      wgmma_shared<T>(logits_[0], q_.advance(panel * Pipe::q_panel_bytes + in_row),
                      k_.advance(panel * Pipe::kv_panel_bytes + in_row), i > 0);
    }
    wgmma_commit();
    step_ = pipe_.read_step(slot);  // a load and a shuffle, which the products need not wait for
  }

  /// O += P V, or O = P V for the first tile of a row.
  __device__ __forceinline__ void issue_out(bool accumulates) {
    pipe_.kv_full(v_at_.slot()).wait(v_at_.parity());
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < config.kv_tile / 16; ++i)
      wgmma_registers<T>(out_, weights_[i], v_.advance(i * 16 * panel_row_bytes), accumulates || i > 0);
    wgmma_commit();
  }

  /// Of the next products: a broadcast takes long, and would stand before them.
  __device__ __forceinline__ void prepare_descriptors() {
    q_ = PanelDescriptor(pipe_.q(q_at_.slot()) + warpgroup_ * (64 * panel_row_bytes), 0);
    k_ = PanelDescriptor(pipe_.kv(k_at_.slot()), 0);
    v_ = PanelDescriptor(pipe_.kv(v_at_.slot()), Pipe::kv_panel_bytes);
  }

  /// The logits have arrived: K is no longer needed, nor Q after the row's last tile.
  __device__ __forceinline__ void take_logits() {
    return_kv(k_at_.slot());
    k_at_.advance();
    row_ended_ = step_.is_last;
    if (row_ended_) q_at_.advance();
    prepare_descriptors();
    if (step_.valid_keys < config.kv_tile) mask_tail(logits_[0], step_.valid_keys);
  }

  // ---- Weights ---------------------------------------------------------------------------------------------------------

  __device__ __forceinline__ float weigh() {
    return softmax_.next(logits_[0], params_.scale_log2, PackIfEarly{*this});
  }

  __device__ __forceinline__ void renormalise() {
    softmax_.renormalise(logits_[0], out_);
    if constexpr (packs_early) pack_weights();
  }

  /// Packs weights as they come, unless a product still reads the ones before.
  struct PackIfEarly {
    ForwardLoopSm90& loop;
    __device__ __forceinline__ void operator()(int i) const {
      if constexpr (packs_early) loop.logits_[0].template to_operand<T>(loop.weights_[i], i);
    }
  };

  __device__ __forceinline__ void pack_unless_early() {
    if constexpr (!packs_early) pack_weights();
  }

  __device__ __forceinline__ void pack_weights() {
#pragma unroll
    for (int i = 0; i < config.kv_tile / 16; ++i) logits_[0].template to_operand<T>(weights_[i], i);
  }

  // ---- Hand-over -------------------------------------------------------------------------------------------------------

  __device__ __forceinline__ void release_v() {
    return_kv(v_at_.slot());
    v_at_.advance();
  }

  /// One lane for its warp: at head_dim 64 there are 16 warps and a step every 900 cycles, too short for all lanes.
  __device__ __forceinline__ void return_kv(int slot) const {
    if (lane_index() == 0) pipe_.kv_empty(slot).arrive();
  }

  /// O may now be staged where the work's Q is: no warp of this warpgroup reads it any more.
  __device__ __forceinline__ void take_q(ForwardWork work) {
    sync_warpgroup(barrier_);
    taken_q_ = work.q_slot();
  }

  /// Returns the slot that was taken once O has been copied from it. Before another is taken, and before anything is waited for
  /// that the producer sends only after it has this slot.
  __device__ __forceinline__ void return_q() {
    if (taken_q_ < 0) return;
    if (elect_lane()) wait_for_store_reads();
    pipe_.q_empty(taken_q_).arrive();
    taken_q_ = -1;
  }

  __device__ __forceinline__ ForwardWork next_work() {
    return_q();
    int const slot = q_at_.slot();
    pipe_.q_full(slot).wait(q_at_.parity());
    ForwardWork const work = pipe_.read_work(slot);
    if (!work.is_tile()) {
      pipe_.q_empty(slot).arrive();
      q_at_.advance();
      prepare_descriptors();
    }
    return work;
  }

  static constexpr Overlap overlap = overlap_of(config);
  static constexpr bool packs_early = overlap == Overlap::other_warpgroups;

  Params const& params_;
  Pipe pipe_;
  int warpgroup_, barrier_;
  ForwardStoreSm90<config, T> store_;
  typename Pipe::QPosition q_at_;
  typename Pipe::KPosition k_at_;
  typename Pipe::VPosition v_at_;
  PanelDescriptor q_, k_, v_;           ///< at these positions
  int taken_q_ = -1;                    ///< slot of Q that holds O; -1: none
  KeyStep step_;                        ///< of the logits that were issued last
  bool row_ended_;                      ///< the logits that were taken last are the row's last
  Fragment<config.kv_tile> logits_[1];  ///< then, in place, weights
  std::uint32_t weights_[config.kv_tile / 16][4];
  Fragment<config.head_dim> out_;
  GuardedSoftmax softmax_;
};

}  // namespace sparge
