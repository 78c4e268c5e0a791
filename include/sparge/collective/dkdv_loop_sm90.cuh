#pragma once
/// The consumer side of the sm90a kernel of dK and dV. Two warpgroups share a tile of 64 keys, and all products have their A in
/// registers. That of dV holds K: S^T = K Q^T, P^T, dV += P^T dO. That of dK holds V: dP^T = V dO^T, dS^T, dK += dS^T Q. P^T goes
/// from one to the other through shared memory, warp by warp and as the registers hold it. A warpgroup's exponentials, or dS, of
/// one tile run beside its product with those of the tile before.

#include <cstdint>

#include "sparge/collective/dkdv_pipe_sm90.cuh"
#include "sparge/collective/probability_grad.cuh"
#include "sparge/collective/slot_rows.cuh"
#include "sparge/collective/store_rows_sm90.cuh"
#include "sparge/device/element_mask.cuh"
#include "sparge/device/fragment.cuh"
#include "sparge/device/ldmatrix.cuh"
#include "sparge/device/tma_sm90.cuh"
#include "sparge/device/warp.cuh"
#include "sparge/device/wgmma_sm90.cuh"
#include "sparge/device/widen.cuh"
#include "sparge/plan/backward_params.hpp"

namespace sparge {

/// The gradient that a warpgroup computes.
enum class KeyGradient { v, k };

template <BackwardConfig config, class T, KeyGradient gradient>
class DkdvLoopSm90 {
public:
  using Params = BackwardParams<T>;
  using Pipe = DkdvPipe<config>;

  __device__ __forceinline__ DkdvLoopSm90(Params const& params, CUtensorMap const& out, Pipe pipe)
      : params_(params), out_tensor_(out), pipe_(pipe), warp_(warp_index() % Pipe::warps) {}

  /// While the gradient of a key tile is stored, the first product of the next one runs.
  __device__ __forceinline__ void run() {
    if (!has_keys(item_)) return;
    load_keys();
    issue_first();
    wgmma_wait<0>();
    pin(weights_);
    weigh();
    while (true) {
      bool accumulates = false;
      while (!ended_) {
        step(accumulates);
        accumulates = true;
      }
      pack();
      if (!has_keys(item_ + 1)) {
        issue_second(accumulates);
        wgmma_wait<0>();
        finish();
        break;
      }
      load_keys();
      issue_second(accumulates);
      issue_first();
      wgmma_wait<1>();
      finish();
      wgmma_wait<0>();
      pin(weights_);
      reclaim_staging();
      weigh();
    }
    wait_for_staged_rows();
  }

private:
  static constexpr bool is_v = gradient == KeyGradient::v;
  using FirstRing = std::conditional_t<is_v, typename Pipe::Queries, typename Pipe::GradOuts>;
  using SecondRing = std::conditional_t<is_v, typename Pipe::GradOuts, typename Pipe::Queries>;
  static constexpr int head_dim = config.head_dim, q_tile = config.q_tile, groups = q_tile / 8;
  static constexpr int block = 4;  ///< groups of eight queries whose lse or delta is read at once
  static_assert(groups % block == 0 && block % 2 == 0);
  static constexpr int exponent = config.weight_exponent();
  static constexpr float weight_unit = 1.f / (1 << exponent);

  __device__ __forceinline__ FirstRing first_ring() const {
    if constexpr (is_v)
      return pipe_.queries();
    else
      return pipe_.grad_outs();
  }
  __device__ __forceinline__ SecondRing second_ring() const {
    if constexpr (is_v)
      return pipe_.grad_outs();
    else
      return pipe_.queries();
  }

  // ---- A tile of queries ---------------------------------------------------------------------------------------------

  /// From the weights (P or dS) of one tile to those of the next, which are made beside the product with the former.
  __device__ __forceinline__ void step(bool accumulates) {
    pack();
    issue_first();
    issue_second(accumulates);
    wgmma_wait<1>();
    pin(weights_);
    weigh();
    wgmma_wait<0>();
    pin(grad_);
    release_second();
  }

  /// S^T = K Q^T or dP^T = V dO^T.
  __device__ __forceinline__ void issue_first() {
    FirstRing const ring = first_ring();
    int const slot = first_at_.slot();
    ring.full(slot).wait(first_at_.parity());
    PanelDescriptor const queries(ring.tile(slot), 0);
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < head_dim / 16; ++i)
      wgmma_registers_k_major<T>(weights_, keys_[i],
                                 queries.advance(i / 4 * FirstRing::panel_bytes + i % 4 * 32), i > 0);
    wgmma_commit();
    load_values(0);
  }

  /// dV += P^T dO or dK += dS^T Q; = for the first tile of a column.
  __device__ __forceinline__ void issue_second(bool accumulates) {
    SecondRing const ring = second_ring();
    int const slot = second_at_.slot();
    ring.full(slot).wait(second_at_.parity());
    PanelDescriptor const queries(ring.tile(slot), SecondRing::panel_bytes);
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < q_tile / 16; ++i)
      wgmma_registers<T>(grad_, packed_[i], queries.advance(i * 16 * panel_row_bytes), accumulates || i > 0);
    wgmma_commit();
  }

  /// From logits to P or from dP to dS, in place.
  __device__ __forceinline__ void weigh() {
    DkdvStep const now = first_ring().read_step(first_at_.slot());
    ended_ = now.is_last;
    if constexpr (is_v) {
      if (now.is_exact)
        exponentiate<LseForm::exact>();
      else
        exponentiate<LseForm::steady>();
    } else {
      pipe_.mail_full(mail_at_.slot(), warp_).wait(mail_at_.parity());
      if (now.is_exact)
        differentiate<LseForm::exact>();
      else
        differentiate<LseForm::steady>();
      if (!ended_) release_mail();
    }
    release_first();
  }

  /// Rows that keep no key, and those past the last, have P = 0 whatever was read for them.
  template <LseForm form>
  __device__ __forceinline__ void exponentiate() {
#pragma unroll
    for (int first = 0; first < groups; first += block) {
      if (first > 0) load_values(first);
#pragma unroll
      for (int i = 0; i < block; ++i) {
        float2 const lse = values_[i];
        int const group = first + i;
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          weights_.at(r, group, 0) = weight<form>(weights_.at(r, group, 0), lse.x);
          weights_.at(r, group, 1) = weight<form>(weights_.at(r, group, 1), lse.y);
        }
        if constexpr (form == LseForm::exact) {
          if (lse.x == infinity()) clear_column(weights_, group, 0);
          if (lse.y == infinity()) clear_column(weights_, group, 1);
        }
      }
    }
  }

  /// P times 2^exponent. Where lse is so large that its own rounding makes P exceed 1 by far, f16 would overflow: it ends at the
  /// largest number. NaN stays.
  template <LseForm form>
  __device__ __forceinline__ float weight(float logit, float lse) const {
    float const p = probability<form, exponent>(logit, params_.scale, lse);
    constexpr float largest_f16 = 65504;
    return form == LseForm::exact && exponent > 0 && p > largest_f16 ? largest_f16 : p;
  }

  /// dS, with P as it was rounded for dV; delta comes times 2^-exponent. Where P is 0 so is dS, though dP may be anything in a
  /// row that keeps no key.
  template <LseForm form>
  __device__ __forceinline__ void differentiate() {
    std::uint32_t const mail = pipe_.mail(mail_at_.slot(), warp_) + 16 * lane_index();
#pragma unroll
    for (int first = 0; first < groups; first += block) {
      std::uint32_t p[block / 2][4];
#pragma unroll
      for (int j = 0; j < block / 2; ++j) load_shared(p[j], mail + (first / 2 + j) * 512);
      if (first > 0) load_values(first);
#pragma unroll
      for (int i = 0; i < block; ++i)
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          float2 const p_pair = widen<T>(p[i / 2][i % 2 * 2 + r]);
          float& ds0 = weights_.at(r, first + i, 0);
          float& ds1 = weights_.at(r, first + i, 1);
          ds0 = p_pair.x * fmaf(ds0, weight_unit, -values_[i].x);
          ds1 = p_pair.y * fmaf(ds1, weight_unit, -values_[i].y);
          if constexpr (form == LseForm::exact) {
            if (p_pair.x == 0) ds0 = 0;
            if (p_pair.y == 0) ds1 = 0;
          }
        }
    }
  }

  /// lse or delta of this lane's queries, of a block of groups.
  __device__ __forceinline__ void load_values(int first) {
    std::uint32_t const values = first_ring().values(first_at_.slot()) + 8 * (lane_index() % 4);
#pragma unroll
    for (int i = 0; i < block; ++i) values_[i] = load_shared_pair(values + (first + i) * 32);
  }

  /// Rounds the weights for the second product; P goes to the other warpgroup too.
  __device__ __forceinline__ void pack() {
#pragma unroll
    for (int i = 0; i < q_tile / 16; ++i) weights_.template to_operand<T>(packed_[i], i);
    if constexpr (is_v) {
      int const slot = mail_at_.slot();
      pipe_.mail_empty(slot, warp_).wait(mail_at_.parity() ^ 1);
      std::uint32_t const mail = pipe_.mail(slot, warp_) + 16 * lane_index();
#pragma unroll
      for (int i = 0; i < q_tile / 16; ++i) store_shared(mail + i * 512, packed_[i]);
      pipe_.mail_full(slot, warp_).arrive();
      mail_at_.advance();
    }
  }

  // ---- A tile of keys --------------------------------------------------------------------------------------------------

  __device__ __forceinline__ bool has_keys(int item) const {
    pipe_.kv_full(0).wait(item % 2);
    return !pipe_.key_note(item % Pipe::key_tiles).is_end();
  }

  /// K or V to registers, as the A of the first product.
  __device__ __forceinline__ void load_keys() {
    std::uint32_t const rows = (is_v ? pipe_.k(0) : pipe_.v(0)) + warp_ * (16 * panel_row_bytes);
    int const row = lane_index() % 16, half = lane_index() / 16;
#pragma unroll
    for (int i = 0; i < head_dim / 16; ++i)
      ldmatrix(keys_[i], chunk_of_step(rows, row, half, i, Pipe::kv_panel_bytes));
    __syncwarp();
    pipe_.kv_empty(0).arrive();
  }

  /// Stores the gradient: staged in a mail slot of this warp that is free, or whose P has been read; that of a piece from registers.
  __device__ __forceinline__ void finish() {
    pin(grad_);
    release_second();
    int const partial = pipe_.key_note(item_ % Pipe::key_tiles).read_partial();
    if (partial >= 0)
      store_piece(partial);
    else
      store_rows();
    ++item_;
  }

  __device__ __forceinline__ void store_rows() const {
    int const slot = mail_at_.slot();
    if constexpr (is_v) pipe_.mail_empty(slot, warp_).wait(mail_at_.parity() ^ 1);
    std::uint32_t const staged = pipe_.mail(slot, warp_);
    __syncwarp();
    stage_rows<T>(grad_, is_v ? weight_unit : params_.scale, staged, staged_panel_bytes);
    fence_shared_for_copies();
    __syncwarp();
    TilePosition const at = pipe_.key_note(item_ % Pipe::key_tiles).read();
    store_staged_rows<head_dim>(out_tensor_, {0, at.tile * config.kv_tile + 16 * warp_, at.head, at.batch},
                                staged, staged_panel_bytes);
  }

  /// dK comes before dV in a slot. Before scaling, which those who add the pieces do.
  __device__ __forceinline__ void store_piece(int slot) const {
    int const row = slot * BackwardConfig::slot_rows + (is_v ? config.kv_tile : 0) + 16 * warp_;
    store_slot_rows(grad_, params_.schedule.partials, row * head_dim);
  }

  /// The staged gradient has been read: its mail slot may serve again.
  __device__ __forceinline__ void reclaim_staging() {
    wait_for_staged_rows();
    if constexpr (!is_v) release_mail();
  }

  // ---- Hand-over -------------------------------------------------------------------------------------------------------

  __device__ __forceinline__ void release_first() {
    first_ring().empty(first_at_.slot()).arrive();
    first_at_.advance();
  }

  __device__ __forceinline__ void release_second() {
    second_ring().empty(second_at_.slot()).arrive();
    second_at_.advance();
  }

  __device__ __forceinline__ void release_mail() {
    pipe_.mail_empty(mail_at_.slot(), warp_).arrive();
    mail_at_.advance();
  }

  static constexpr int staged_panel_bytes = 16 * panel_row_bytes;

  Params const& params_;
  CUtensorMap const& out_tensor_;
  Pipe pipe_;
  int warp_;      ///< of the warpgroup
  int item_ = 0;  ///< how many key tiles came before the one in work
  bool ended_;    ///< the weights are those of the column's last tile
  typename FirstRing::Place first_at_;
  typename SecondRing::Place second_at_;
  typename Pipe::MailPlace mail_at_;  ///< dV: the slot to write next; dK: the slot to read next or in use
  float2 values_[block];
  std::uint32_t keys_[head_dim / 16][4];
  std::uint32_t packed_[q_tile / 16][4];
  Fragment<q_tile> weights_;
  Fragment<head_dim> grad_;
};

}  // namespace sparge
