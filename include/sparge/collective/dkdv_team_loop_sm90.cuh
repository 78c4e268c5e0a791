#pragma once
/// The consumer side of the sm90a kernel of dK and dV at head_dim 64: one warpgroup computes both gradients of 64 keys, and
/// P^T and dS^T never leave its registers. Two warpgroups of a thread block work on different keys.

#include <cstdint>

#include "sparge/collective/dkdv_team_pipe_sm90.cuh"
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
class DkdvTeamLoopSm90 {
public:
  using Params = BackwardParams<T>;
  using Pipe = DkdvTeamPipe<config>;

  __device__ __forceinline__ DkdvTeamLoopSm90(Params const& params, CUtensorMap const& grad_k,
                                              CUtensorMap const& grad_v, Pipe pipe, int team)
      : params_(params),
        grad_k_tensor_(grad_k),
        grad_v_tensor_(grad_v),
        pipe_(pipe),
        team_(team),
        warp_(warp_index() % Pipe::warps) {}

  /// While the gradients of a key tile are stored, the first products of the next one run.
  __device__ __forceinline__ void run() {
    if (!has_keys(item_)) return;
    issue_logits(item_);
    issue_grad_weights(item_);
    weigh();
    while (true) {
      bool accumulates = false;
      while (!ended_) {
        step(accumulates);
        accumulates = true;
      }
      if (!has_keys(item_ + 1)) {
        issue_grads(accumulates);
        wgmma_wait<0>();
        finish();
        break;
      }
      issue_grads(accumulates);
      issue_logits(item_ + 1);
      wgmma_wait<1>();
      issue_grad_weights(item_ + 1);
      finish();
      weigh();
      release_keys();
    }
    wait_for_staged_rows();
  }

private:
  using Queries = typename Pipe::Queries;
  using Weights = Fragment<config.q_tile>;
  using Grad = Fragment<config.head_dim>;
  static constexpr int head_dim = config.head_dim, q_tile = config.q_tile, groups = Weights::groups;
  static constexpr int block = 8;  ///< groups of eight queries whose lse or delta is read at once

  // ---- A tile of queries ---------------------------------------------------------------------------------------------

  /// From P and dS of one tile to those of the next.
  __device__ __forceinline__ void step(bool accumulates) {
    issue_grads(accumulates);
    issue_logits(item_);
    wgmma_wait<1>();
    pin(grad_k_);
    pin(grad_v_);
    release_queries();
    issue_grad_weights(item_);
    weigh();
  }

  /// S^T = K Q^T.
  __device__ __forceinline__ void issue_logits(int item) {
    Queries const ring = pipe_.queries();
    ring.full(q_at_.slot()).wait(q_at_.parity());
    issue_rows(p_, pipe_.k(item % 2), ring.tile(q_at_.slot()));
  }

  /// dP^T = V dO^T.
  __device__ __forceinline__ void issue_grad_weights(int item) {
    Queries const ring = pipe_.grad_outs();
    ring.full(q_at_.slot()).wait(q_at_.parity());
    issue_rows(ds_, pipe_.v(item % 2), ring.tile(q_at_.slot()));
  }

  static __device__ __forceinline__ void issue_rows(Weights& product, std::uint32_t keys,
                                                    std::uint32_t queries) {
    PanelDescriptor const a(keys, 0), b(queries, 0);
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < head_dim / 16; ++i)
      wgmma_shared<T>(product, a.advance(i / 4 * Pipe::kv_panel_bytes + i % 4 * 32),
                      b.advance(i / 4 * Queries::panel_bytes + i % 4 * 32), i > 0);
    wgmma_commit();
  }

  /// dV += P^T dO and dK += dS^T Q; = for the first tile of a column.
  __device__ __forceinline__ void issue_grads(bool accumulates) {
    int const slot = used_at_.slot();
    PanelDescriptor const grad_out(pipe_.grad_outs().tile(slot), Queries::panel_bytes);
    PanelDescriptor const q(pipe_.queries().tile(slot), Queries::panel_bytes);
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < q_tile / 16; ++i)
      wgmma_registers<T>(grad_v_, packed_p_[i], grad_out.advance(i * 16 * panel_row_bytes),
                         accumulates || i > 0);
#pragma unroll
    for (int i = 0; i < q_tile / 16; ++i)
      wgmma_registers<T>(grad_k_, packed_ds_[i], q.advance(i * 16 * panel_row_bytes), accumulates || i > 0);
    wgmma_commit();
  }

  /// S and dP, which were issued, become P and dS as the next products take them.
  __device__ __forceinline__ void weigh() {
    int const slot = q_at_.slot();
    DkdvStep const now = pipe_.queries().read_step(slot);
    wgmma_wait<1>();
    pin(p_);
    ended_ = now.is_last;
    if (now.is_exact)
      exponentiate<LseForm::exact>(slot);
    else
      exponentiate<LseForm::steady>(slot);
    wgmma_wait<0>();
    pin(ds_);
    differentiate(slot, now.is_exact);
    q_at_.advance();
  }

  template <LseForm form>
  __device__ __forceinline__ void exponentiate(int slot) {
    float2 lse[block];
#pragma unroll
    for (int group = 0; group < groups; ++group) {
      if (group % block == 0) load_values(lse, pipe_.queries().values(slot), group);
      float2 const held = lse[group % block];
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        p_.at(r, group, 0) = probability<form>(p_.at(r, group, 0), params_.scale, held.x);
        p_.at(r, group, 1) = probability<form>(p_.at(r, group, 1), params_.scale, held.y);
      }
      if constexpr (form == LseForm::exact) {
        if (held.x == infinity()) clear_column(p_, group, 0);
        if (held.y == infinity()) clear_column(p_, group, 1);
      }
    }
  }

  /// Where P is 0 in an exact tile so is dS, though dP may be anything in a row that keeps no key.
  __device__ __forceinline__ void differentiate(int slot, bool is_exact) {
    if (is_exact) clear_grad_weights();
    float2 delta[block];
#pragma unroll
    for (int group = 0; group < groups; ++group) {
      if (group % block == 0) load_values(delta, pipe_.grad_outs().values(slot), group);
      float2 const held = delta[group % block];
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        ds_.at(r, group, 0) = p_.at(r, group, 0) * (ds_.at(r, group, 0) - held.x);
        ds_.at(r, group, 1) = p_.at(r, group, 1) * (ds_.at(r, group, 1) - held.y);
      }
      if (group % 2 == 1) {
        p_.template to_operand<T>(packed_p_[group / 2], group / 2);
        ds_.template to_operand<T>(packed_ds_[group / 2], group / 2);
      }
    }
  }

  __device__ __forceinline__ void clear_grad_weights() {
#pragma unroll
    for (int group = 0; group < groups; ++group)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        if (p_.value[group][i] == 0) ds_.value[group][i] = 0;
  }

  /// lse or delta of this lane's queries, of a block of groups.
  static __device__ __forceinline__ void load_values(float2 (&values)[block], std::uint32_t shared,
                                                     int first) {
#pragma unroll
    for (int i = 0; i < block; ++i)
      values[i] = load_shared_pair(shared + 8 * (lane_index() % 4) + (first + i) * 32);
  }

  // ---- A tile of keys --------------------------------------------------------------------------------------------------

  __device__ __forceinline__ bool has_keys(int item) const {
    pipe_.kv_full(item % 2).wait(item / 2 % 2);
    return !pipe_.key_note(item % Pipe::key_tiles).is_end();
  }

  /// Stores the gradients: staged where K and V were, whose last products are done in all warps then; those of a piece from
  /// registers.
  __device__ __forceinline__ void finish() {
    pin(grad_k_);
    pin(grad_v_);
    release_queries();
    int const partial = pipe_.key_note(item_ % Pipe::key_tiles).read_partial();
    if (partial >= 0)
      store_piece(partial);
    else
      store_rows();
    ++item_;
  }

  __device__ __forceinline__ void store_rows() const {
    asm volatile("bar.sync %0, 128;" ::"r"(1 + team_) : "memory");
    int const slot = item_ % 2;
    std::uint32_t const staged_k = staged(pipe_.k(slot)), staged_v = staged(pipe_.v(slot));
    stage_rows<T>(grad_k_, params_.scale, staged_k, Pipe::kv_panel_bytes);
    stage_rows<T>(grad_v_, 1.f, staged_v, Pipe::kv_panel_bytes);
    fence_shared_for_copies();
    __syncwarp();
    TilePosition const at = pipe_.key_note(item_ % Pipe::key_tiles).read();
    BoxOrigin const origin{0, at.tile * config.kv_tile + 16 * warp_, at.head, at.batch};
    store_staged_rows<head_dim>(grad_k_tensor_, origin, staged_k, Pipe::kv_panel_bytes);
    store_staged_rows<head_dim>(grad_v_tensor_, origin, staged_v, Pipe::kv_panel_bytes);
  }

  /// dK, then dV, before scaling, which those who add the pieces do.
  __device__ __forceinline__ void store_piece(int slot) const {
    int const row = slot * BackwardConfig::slot_rows + 16 * warp_;
    store_slot_rows(grad_k_, params_.schedule.partials, row * head_dim);
    store_slot_rows(grad_v_, params_.schedule.partials, (row + config.kv_tile) * head_dim);
  }

  __device__ __forceinline__ std::uint32_t staged(std::uint32_t tile) const {
    return tile + warp_ * (16 * panel_row_bytes);
  }

  /// The staged gradients of the tile before have been read.
  __device__ __forceinline__ void release_keys() {
    wait_for_staged_rows();
    pipe_.kv_empty((item_ - 1) % 2).arrive();
  }

  /// Q and dO of the latest gradients.
  __device__ __forceinline__ void release_queries() {
    pipe_.queries().empty(used_at_.slot()).arrive();
    pipe_.grad_outs().empty(used_at_.slot()).arrive();
    used_at_.advance();
  }

  Params const& params_;
  CUtensorMap const& grad_k_tensor_;
  CUtensorMap const& grad_v_tensor_;
  Pipe pipe_;
  int team_, warp_;
  int item_ = 0;                            ///< how many key tiles came before the one in work
  bool ended_;                              ///< P and dS are those of the column's last tile
  typename Queries::Place q_at_, used_at_;  ///< for the next P and dS, for the next gradients
  std::uint32_t packed_p_[q_tile / 16][4], packed_ds_[q_tile / 16][4];
  Weights p_, ds_;
  Grad grad_k_, grad_v_;
};

}  // namespace sparge
