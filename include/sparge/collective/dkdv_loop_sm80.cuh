#pragma once
/// The main loop of the gradients of K and V with cp.async and mma.sync: dV += P^T dO and dK += dS^T Q over the query tiles
/// that keep a key tile, in all heads of its group.

#include <cstdint>

#include "sparge/collective/column_walk.cuh"
#include "sparge/collective/load_tile.cuh"
#include "sparge/collective/multiply_sm80.cuh"
#include "sparge/collective/probability_grad.cuh"
#include "sparge/collective/store.cuh"
#include "sparge/collective/tile_ring.cuh"
#include "sparge/device/element_mask.cuh"
#include "sparge/device/fragment.cuh"
#include "sparge/plan/backward_config.hpp"

namespace sparge {

/// Query rows of the heads that share a kv head.
template <class T>
struct QueryGroup {
  HeadView<T> q, grad_out;                           ///< of the group's first head
  std::int64_t q_head_stride, grad_out_head_stride;  ///< in elements
  float const *lse, *delta;                          ///< of the first head, `padded_rows` a head
  std::int64_t padded_rows;
};

/// Warps split a tile twice: into halves of keys and of queries for S^T = K Q^T and dP^T = V dO^T, then into halves of keys
/// and of channels for the gradients. P^T and dS^T change hands in shared memory, in the element type.
template <BackwardConfig config, class T>
class DkdvLoopSm80 {
public:
  static constexpr int head_dim = config.head_dim, q_tile = config.q_tile, kv_tile = config.kv_tile;
  static constexpr int threads = config.threads();
  static_assert(config.warps == 4, "two halves of keys by two halves of queries or channels");
  static constexpr int warp_keys = kv_tile / 2, warp_queries = q_tile / 2, warp_channels = head_dim / 2;
  static constexpr int fragments = warp_keys / 16, groups = Fragment<warp_queries>::groups;
  using Tile = SwizzledTile<head_dim>;
  static constexpr int q_bytes = q_tile * Tile::row_bytes, kv_bytes = kv_tile * Tile::row_bytes;

  struct Result {
    Fragment<warp_channels> grad_k[fragments], grad_v[fragments];  ///< grad_k not yet scaled
  };

  __device__ __forceinline__ DkdvLoopSm80(unsigned char* smem, QueryGroup<T> const& queries, float scale)
      : smem_(smem), queries_(queries), scale_(scale) {}

  /// Requests the block's key tile, from token `first` on: before the mask is read, so that the two waits overlap.
  __device__ __forceinline__ void request_keys(HeadView<T> const& k, HeadView<T> const& v, int first) {
    load_tile<kv_tile, head_dim, threads>(k_tile(), k, first);
    load_tile<kv_tile, head_dim, threads>(v_tile(), v, first);
  }

  /// On return no copy is in flight and no warp reads shared memory.
  __device__ __forceinline__ void run(GroupWalk walk, Result& result) {
    auto const request = [this](int slot, TilePlace place) { load_queries(slot, place); };
    TileRing<TilePlace, config.stages> ring;
    ring.start(walk, request);
#pragma unroll
    for (int f = 0; f < fragments; ++f) result.grad_k[f].clear(), result.grad_v[f].clear();
    while (ring.advance(walk, request).exists()) add_tile(ring.slot(), result);
  }

  /// The first key of this warp, and its first channel as a chunk.
  static __device__ __forceinline__ int first_key() { return warp_index() / 2 * warp_keys; }
  static __device__ __forceinline__ int first_chunk() { return warp_index() % 2 * (warp_channels / 8); }

private:
  using QueryTile = SwizzledTile<q_tile>;  ///< P^T and dS^T: a row is a key
  static constexpr int p_offset = 2 * kv_bytes, p_bytes = kv_tile * QueryTile::row_bytes;
  static constexpr int ring_offset = p_offset + 2 * p_bytes;
  static constexpr int rows_offset = ring_offset + config.stages * 2 * q_bytes;
  static constexpr int rows_bytes = q_tile * 4;

  __device__ __forceinline__ std::uint32_t k_tile() const { return shared_address(smem_); }
  __device__ __forceinline__ std::uint32_t v_tile() const { return shared_address(smem_) + kv_bytes; }
  __device__ __forceinline__ std::uint32_t queries(int slot) const {
    return shared_address(smem_) + ring_offset + slot * 2 * q_bytes;
  }
  __device__ __forceinline__ std::uint32_t grad_out(int slot) const { return queries(slot) + q_bytes; }
  /// lse of a tile's rows, then delta.
  __device__ __forceinline__ unsigned char* rows(int slot) const {
    return smem_ + rows_offset + slot * 2 * rows_bytes;
  }
  static __device__ __forceinline__ int first_query() { return warp_index() % 2 * warp_queries; }

  __device__ __forceinline__ void load_queries(int slot, TilePlace place) {
    int const first = place.tile * q_tile;
    load_tile<q_tile, head_dim, threads>(queries(slot),
                                         of_head(queries_.q, queries_.q_head_stride, place.head), first);
    load_tile<q_tile, head_dim, threads>(
        grad_out(slot), of_head(queries_.grad_out, queries_.grad_out_head_stride, place.head), first);
    constexpr int chunks = rows_bytes / chunk_bytes;
    int const index = static_cast<int>(threadIdx.x);
    if (index >= 2 * chunks) return;
    float const* const source = (index < chunks ? queries_.lse : queries_.delta) +
                                place.head * queries_.padded_rows + first + index % chunks * 4;
    cp_async_16(shared_address(rows(slot)) + index * chunk_bytes, source, true);
  }

  static __device__ __forceinline__ HeadView<T> of_head(HeadView<T> const& first, std::int64_t stride,
                                                        int head) {
    return {first.data + head * stride, first.token_stride, first.tokens};
  }

  __device__ __forceinline__ void add_tile(int slot, Result& result) const {
    {
      Fragment<warp_queries> p[fragments], ds[fragments];
      multiply_rows<T, head_dim>(p, k_tile(), first_key(), queries(slot), first_query());
      multiply_rows<T, head_dim>(ds, v_tile(), first_key(), grad_out(slot), first_query());
      differentiate(slot, p, ds);
      stage(p, 0);
      stage(ds, 1);
    }
    __syncthreads();
    accumulate_product<T, q_tile, head_dim>(result.grad_v, staged_operand(0), grad_out(slot), first_chunk());
    accumulate_product<T, q_tile, head_dim>(result.grad_k, staged_operand(1), queries(slot), first_chunk());
  }

  /// From logits and dP to P and dS. Tiles with large logits or empty rows are rare, so a warp decides once a tile.
  __device__ __forceinline__ void differentiate(int slot, Fragment<warp_queries> (&p)[fragments],
                                                Fragment<warp_queries> (&ds)[fragments]) const {
    float2 lse[groups];
    float largest = 0;
#pragma unroll
    for (int group = 0; group < groups; ++group) {
      lse[group] = row_pair(slot, 0, group);
      largest = fmaxf(largest, fmaxf(fabsf(lse[group].x), fabsf(lse[group].y)));
    }
    if (__all_sync(all_lanes, largest <= steady_lse)) {
      differentiate_as<LseForm::steady>(slot, lse, p, ds);
    } else {
      differentiate_as<LseForm::exact>(slot, lse, p, ds);
      clear_empty(lse, p, ds);
    }
  }

  template <LseForm form>
  __device__ __forceinline__ void differentiate_as(int slot, float2 const (&lse)[groups],
                                                   Fragment<warp_queries> (&p)[fragments],
                                                   Fragment<warp_queries> (&ds)[fragments]) const {
#pragma unroll
    for (int group = 0; group < groups; ++group) {
      float2 const delta = row_pair(slot, 1, group);
      float2 const held = {hold<form>(lse[group].x), hold<form>(lse[group].y)};
#pragma unroll
      for (int f = 0; f < fragments; ++f)
        differentiate_columns<form>(p[f], ds[f], group, held, delta, scale_);
    }
  }

  /// Rows that keep no key, and those past the last, have P = dS = 0 whatever was read for them.
  __device__ __forceinline__ void clear_empty(float2 const (&lse)[groups],
                                              Fragment<warp_queries> (&p)[fragments],
                                              Fragment<warp_queries> (&ds)[fragments]) const {
#pragma unroll
    for (int group = 0; group < groups; ++group)
#pragma unroll
      for (int f = 0; f < fragments; ++f) {
        if (lse[group].x == infinity()) clear_column(p[f], group, 0), clear_column(ds[f], group, 0);
        if (lse[group].y == infinity()) clear_column(p[f], group, 1), clear_column(ds[f], group, 1);
      }
  }

  /// lse (0) or delta (1) of this lane's two queries of a group.
  __device__ __forceinline__ float2 row_pair(int slot, int which, int group) const {
    int const query = first_query() + Fragment<warp_queries>::column(group, 0);
    return *reinterpret_cast<float2 const*>(rows(slot) + which * rows_bytes + query * 4);
  }

  /// P^T (0) or dS^T (1) of this warp to shared memory.
  __device__ __forceinline__ void stage(Fragment<warp_queries> const (&values)[fragments], int which) const {
    unsigned char* const tile = smem_ + p_offset + which * p_bytes + first_key() * QueryTile::row_bytes;
#pragma unroll
    for (int f = 0; f < fragments; ++f)
      stage_part<T, q_tile>(tile + 16 * f * QueryTile::row_bytes, values[f], first_query() / 8);
  }

  __device__ __forceinline__ auto staged_operand(int which) const {
    std::uint32_t const tile = shared_address(smem_) + p_offset + which * p_bytes;
    int const lane = lane_index();
    std::uint32_t const lane_address = opaque(tile + QueryTile::offset(first_key() + lane % 16, lane / 16));
    return [lane_address](std::uint32_t(&a)[fragments][4], int step) {
#pragma unroll
      for (int f = 0; f < fragments; ++f)
        ldmatrix(a[f], QueryTile::step(lane_address, 2 * step) + 16 * f * QueryTile::row_bytes);
    };
  }

  unsigned char* smem_;
  QueryGroup<T> queries_;
  float scale_;
};

}  // namespace sparge
