#pragma once
/// The consumer side of the sm90a kernel of dQ: S = Q K^T, dP = dO V^T, dQ += dS K with wgmma. A warpgroup owns 64 query rows.

#include <cstdint>

#include "sparge/collective/dq_pipe_sm90.cuh"
#include "sparge/collective/probability_grad.cuh"
#include "sparge/collective/slot_rows.cuh"
#include "sparge/collective/store_rows_sm90.cuh"
#include "sparge/device/element_mask.cuh"
#include "sparge/device/fragment.cuh"
#include "sparge/device/tma_sm90.cuh"
#include "sparge/device/warp.cuh"
#include "sparge/device/wgmma_sm90.cuh"
#include "sparge/plan/backward_params.hpp"

namespace sparge {

template <BackwardConfig config, class T>
class DqLoopSm90 {
public:
  using Params = BackwardParams<T>;
  using Pipe = DqPipe<config>;

  __device__ __forceinline__ DqLoopSm90(Params const& params, CUtensorMap const& out, Pipe pipe,
                                        int warpgroup)
      : params_(params),
        out_tensor_(out),
        pipe_(pipe),
        queries_(pipe.q() + warpgroup * (64 * panel_row_bytes), 0),
        keys_(pipe.k(0), 0) {}

  /// While the rows of a tile are stored, the first products of the next one run.
  __device__ __forceinline__ void run() {
    if (!has_rows(tile_)) return;
    Rows rows = read_rows();
    issue_logits();
    issue_grad_weights();
    differentiate(rows);
    while (true) {
      bool accumulates = false;
      while (!row_ended_) {
        step(rows, accumulates);
        accumulates = true;
      }
      pack();
      if (!has_rows(tile_ + 1)) {
        issue_grad(accumulates);
        wgmma_wait<0>();
        finish(rows);
        break;
      }
      Rows const next = read_rows();
      issue_grad(accumulates);
      issue_logits();
      wgmma_wait<1>();
      issue_grad_weights();
      finish(rows);
      rows = next;
      differentiate(rows);
    }
    wait_for_staged_rows();
  }

private:
  using Grad = Fragment<config.head_dim>;

  /// Of the two rows of this lane.
  struct Rows {
    float lse[2], delta[2];
    bool is_exact;       ///< lse is held as LseForm::exact, in all rows of the warp
    bool keeps_none[2];  ///< lse = +inf: dQ = 0 whatever was read
  };

  // ---- A tile of keys ------------------------------------------------------------------------------------------------

  /// From dS of one tile to that of the next.
  __device__ __forceinline__ void step(Rows const& rows, bool accumulates) {
    pack();
    issue_grad(accumulates);
    issue_logits();
    wgmma_wait<1>();
    pin(grad_);
    release_k();
    issue_grad_weights();
    differentiate(rows);
  }

  /// S = Q K^T.
  __device__ __forceinline__ void issue_logits() {
    int const slot = k_at_.slot();
    pipe_.k_full(slot).wait(k_at_.parity());
    step_ = pipe_.read_step(slot);
    issue_rows(logits_, queries_, keys_.advance(slot * Pipe::kv_bytes));
    k_at_.advance();
  }

  /// dP = dO V^T.
  __device__ __forceinline__ void issue_grad_weights() {
    int const slot = v_at_.slot();
    pipe_.grad_out_full().wait(grad_out_at_.parity());
    pipe_.v_full(slot).wait(v_at_.parity());
    issue_rows(grad_weights_, queries_.advance(Pipe::q_bytes),
               keys_.advance((Pipe::stages + slot) * Pipe::kv_bytes));
  }

  static __device__ __forceinline__ void issue_rows(Fragment<config.kv_tile>& product,
                                                    PanelDescriptor queries, PanelDescriptor keys) {
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < config.head_dim / 16; ++i) {
      int const panel = i / 4, in_row = i % 4 * 32;
      wgmma_shared<T>(product, queries.advance(panel * Pipe::q_panel_bytes + in_row),
                      keys.advance(panel * Pipe::kv_panel_bytes + in_row), i > 0);
    }
    wgmma_commit();
  }

  /// dQ += dS K, or dQ = dS K for the first tile of a row.
  __device__ __forceinline__ void issue_grad(bool accumulates) {
    PanelDescriptor const k =
        keys_.with_panels(Pipe::kv_panel_bytes).advance(used_k_at_.slot() * Pipe::kv_bytes);
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < config.kv_tile / 16; ++i)
      wgmma_registers<T>(grad_, packed_[i], k.advance(i * 16 * panel_row_bytes), accumulates || i > 0);
    wgmma_commit();
  }

  /// S and dP, which were issued, become dS; the exponentials run beside this warpgroup's own dP. Q is no longer needed after the row's last S, nor dO after its last dP.
  __device__ __forceinline__ void differentiate(Rows const& rows) {
    wgmma_wait<1>();
    pin(logits_);
    row_ended_ = step_.is_last;
    if (row_ended_) pipe_.q_empty().arrive();
    if (rows.is_exact)
      exponentiate<LseForm::exact>(rows);
    else
      exponentiate<LseForm::steady>(rows);
    wgmma_wait<0>();
    pin(grad_weights_);
    pipe_.v_empty(v_at_.slot()).arrive();
    v_at_.advance();
    if (row_ended_) {
      pipe_.grad_out_empty().arrive();
      grad_out_at_.advance();
    }
#pragma unroll
    for (int group = 0; group < Fragment<config.kv_tile>::groups; ++group)
#pragma unroll
      for (int r = 0; r < 2; ++r)
#pragma unroll
        for (int c = 0; c < 2; ++c)
          grad_weights_.at(r, group, c) =
              logits_.at(r, group, c) * (grad_weights_.at(r, group, c) - rows.delta[r]);
    if (step_.valid_keys < config.kv_tile) clear_tail(grad_weights_, step_.valid_keys);
  }

  template <LseForm form>
  __device__ __forceinline__ void exponentiate(Rows const& rows) {
#pragma unroll
    for (int group = 0; group < Fragment<config.kv_tile>::groups; ++group)
#pragma unroll
      for (int r = 0; r < 2; ++r)
#pragma unroll
        for (int c = 0; c < 2; ++c)
          logits_.at(r, group, c) = probability<form>(logits_.at(r, group, c), params_.scale, rows.lse[r]);
  }

  __device__ __forceinline__ void pack() {
#pragma unroll
    for (int i = 0; i < config.kv_tile / 16; ++i) grad_weights_.template to_operand<T>(packed_[i], i);
  }

  // ---- A tile of rows --------------------------------------------------------------------------------------------------

  /// Only where Q of the tile before has been released.
  __device__ __forceinline__ bool has_rows(int tile) const {
    pipe_.q_full().wait(tile % 2);
    return !pipe_.tile_note(tile % Pipe::tiles).is_end();
  }

  /// Before Q is released.
  __device__ __forceinline__ Rows read_rows() const {
    RowValues<1> lse;
    Rows rows;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      int const row = 16 * warp() + Grad::row(r);
      lse.of[0][r] = __int_as_float(load_shared(pipe_.lse() + 4 * row));
      rows.delta[r] = __int_as_float(load_shared(pipe_.delta() + 4 * row));
      rows.keeps_none[r] = lse.of[0][r] == infinity();
    }
    rows.is_exact = !__all_sync(all_lanes, lse.allows_steady());
    if (!rows.is_exact) lse.hold_steady();
    rows.lse[0] = lse.of[0][0], rows.lse[1] = lse.of[0][1];
    return rows;
  }

  /// Stores dQ. Each warp stores its own 16 rows, from its own part of the staging tile, or those of a piece from registers.
  __device__ __forceinline__ void finish(Rows const& rows) {
    pin(grad_);
    release_k();
    wait_for_staged_rows();
#pragma unroll
    for (int r = 0; r < 2; ++r)
      if (rows.keeps_none[r]) grad_.clear_row(r);
    int const slot = pipe_.tile_note(tile_ % Pipe::tiles).read_partial();
    if (slot >= 0)
      store_piece(slot);
    else
      store_rows();
    ++tile_;
  }

  __device__ __forceinline__ void store_rows() const {
    stage_rows<T>(grad_, params_.scale, staged(), Pipe::q_panel_bytes);
    fence_shared_for_copies();
    __syncwarp();
    TilePosition const at = pipe_.tile_note(tile_ % Pipe::tiles).read();
    store_staged_rows<config.head_dim>(out_tensor_,
                                       {0, at.tile * config.q_tile + 16 * warp(), at.head, at.batch},
                                       staged(), Pipe::q_panel_bytes);
  }

  /// Before scaling, which those who add the pieces do.
  __device__ __forceinline__ void store_piece(int slot) const {
    store_slot_rows(grad_, params_.schedule.partials,
                    (slot * BackwardConfig::slot_rows + 16 * warp()) * config.head_dim);
  }

  /// Of the tile's consumers; those of the loading warpgroup come before.
  static __device__ __forceinline__ int warp() {
    int thread;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
    return thread / 32 - 4;
  }

  __device__ __forceinline__ std::uint32_t staged() const {
    return pipe_.staged() + warp() * (16 * panel_row_bytes);
  }

  // ---- Hand-over -------------------------------------------------------------------------------------------------------

  __device__ __forceinline__ void release_k() {
    pipe_.k_empty(used_k_at_.slot()).arrive();
    used_k_at_.advance();
  }

  Params const& params_;
  CUtensorMap const& out_tensor_;
  Pipe pipe_;
  PanelDescriptor queries_, keys_;                  ///< this warpgroup's Q, the ring of K
  int tile_ = 0;                                    ///< how many tiles of rows came before the one in work
  KeyStep step_;                                    ///< of the logits that were issued last
  bool row_ended_;                                  ///< dS is that of the row's last tile of keys
  typename Pipe::KvPlace k_at_, used_k_at_, v_at_;  ///< K for the next S, for the next dQ
  typename Pipe::RowPlace grad_out_at_;
  Fragment<config.kv_tile> logits_, grad_weights_;  ///< then, in place, P and dS
  std::uint32_t packed_[config.kv_tile / 16][4];
  Grad grad_;
};

}  // namespace sparge
