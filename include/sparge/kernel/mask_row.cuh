#pragma once
/// One row of a mask in the hands of one warp: which row it is, its blocks ranked by score, and prefixes of that ranking.

#include <cstdint>

#include "sparge/device/math.cuh"
#include "sparge/device/warp.cuh"
#include "sparge/kernel/mask_params.hpp"
#include "sparge/kernel/mask_rule.cuh"

namespace sparge {

/// A row in work. Head and query block are worked out where they are asked for: divisions are long.
class RowPosition {
public:
  bool exists;        ///< tiles may be partial
  std::int64_t slot;  ///< row of the scores in work
  std::int64_t row;   ///< row of the mask: (batch * heads + head) * q_blocks + q_block

  __device__ __forceinline__ RowPosition(MaskRowsParams const& params, std::int64_t slot_in_work)
      : slot(slot_in_work) {
    std::int64_t const tile = params.chunk.first_tile + slot / RowLayout::tile_rows,
                       group = divide(tile, params.group_tiles);
    std::int64_t const row_of_group =
        (tile - group * params.group_tiles) * RowLayout::tile_rows + slot % RowLayout::tile_rows;
    exists = row_of_group < params.group_rows;
    row = group * params.group_rows + row_of_group;
  }

  static __device__ __forceinline__ RowPosition of_warp(MaskRowsParams const& params) {
    return {params, grid_warp(RowLayout::row_warps)};
  }

  __device__ __forceinline__ std::int64_t head(MaskRowsParams const& params) const {
    std::int64_t const all = divide(row, params.q_blocks);
    return all - divide(all, params.heads) * params.heads;
  }
  __device__ __forceinline__ std::int64_t q_block(MaskRowsParams const& params) const {
    return row - divide(row, params.q_blocks) * params.q_blocks;
  }

private:
  /// Neither is negative. Nearly always both are short.
  static __device__ __forceinline__ std::int64_t divide(std::int64_t a, std::int64_t b) {
    if ((a | b) >> 32 == 0) return static_cast<std::uint32_t>(a) / static_cast<std::uint32_t>(b);
    return a / b;
  }
};

/// Ranking key and softmax mass of every block of a row. Padding up to a whole mask word has key 0 and no mass.
class RankedRow {
public:
  /// Ranks the scores of `at`. Keys and masses go to this warp's part of `smem`, or over the scores and to scratch.
  __device__ __forceinline__ RankedRow(MaskRowsParams const& params, RowPosition const& at,
                                       unsigned char* smem)
      : blocks_(params.kv_blocks), quads_(8 * params.row_words) {
    auto const* scores = reinterpret_cast<uint4 const*>(params.scores + at.slot * params.pitch);
    bool const in_scratch = params.mass != nullptr;
    std::uint32_t* const shared = reinterpret_cast<std::uint32_t*>(smem) + warp_index() * 2 * params.pitch;
    key_ = in_scratch ? params.scores + at.slot * params.pitch : shared;
    mass_ = in_scratch ? params.mass + at.slot * params.pitch : shared + params.pitch;
    rank(scores, largest_score(scores));
    __syncwarp();
  }

  __device__ __forceinline__ Tally all() const { return {blocks_, total_mass_}; }
  __device__ __forceinline__ int blocks() const { return blocks_; }
  /// `block` may lie past the row, inside the padding of its last mask word.
  __device__ __forceinline__ std::uint32_t key(int block) const { return key_[block]; }
  __device__ __forceinline__ std::uint32_t mass(int block) const { return mass_[block]; }

  /// `key` > 0, so that padding does not count.
  __device__ __forceinline__ Tally tally(std::uint32_t key) const {
    unsigned blocks = 0;
    std::uint64_t mass = 0;
    auto const add = [&](std::uint32_t k, std::uint32_t m) {
      blocks += k >= key;
      mass += k >= key ? m : 0;
    };
    for (int i = lane_index(); i < quads_; i += 32) {
      uint4 const k = keys()[i], m = masses()[i];
      add(k.x, m.x), add(k.y, m.y), add(k.z, m.z), add(k.w, m.w);
    }
    return {__reduce_add_sync(all_lanes, blocks), warp_sum(mass)};
  }

  __device__ __forceinline__ std::uint32_t largest_up_to(std::uint32_t key) const {
    std::uint32_t largest = 0;
    auto const take = [&](std::uint32_t k) { largest = k <= key && k > largest ? k : largest; };
    for (int i = lane_index(); i < quads_; i += 32) {
      uint4 const k = keys()[i];
      take(k.x), take(k.y), take(k.z), take(k.w);
    }
    return __reduce_max_sync(all_lanes, largest);
  }

private:
  __device__ __forceinline__ uint4* keys() const { return reinterpret_cast<uint4*>(key_); }
  __device__ __forceinline__ uint4* masses() const { return reinterpret_cast<uint4*>(mass_); }

  __device__ __forceinline__ float largest_score(uint4 const* scores) const {
    float largest = -infinity();
    for (int i = lane_index(); i < quads_; i += 32) {
      uint4 const s = scores[i];
      std::uint32_t const bits[4] = {s.x, s.y, s.z, s.w};
#pragma unroll
      for (int c = 0; c < 4; ++c)
        if (4 * i + c < blocks_) largest = fmaxf(largest, __uint_as_float(bits[c]));
    }
    return warp_max(largest);
  }

  /// A lane reads and writes its own blocks only, so keys may take the place of scores.
  __device__ __forceinline__ void rank(uint4 const* scores, float largest) {
    std::uint64_t mass = 0;
    for (int i = lane_index(); i < quads_; i += 32) {
      uint4 const s = scores[i];
      std::uint32_t const bits[4] = {s.x, s.y, s.z, s.w};
      std::uint32_t k[4], m[4];
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        bool const valid = 4 * i + c < blocks_;
        float const score = __uint_as_float(bits[c]);
        k[c] = valid ? ranking_key(score) : 0;
        m[c] = valid ? softmax_mass(score, largest) : 0;
        mass += m[c];
      }
      keys()[i] = make_uint4(k[0], k[1], k[2], k[3]);
      masses()[i] = make_uint4(m[0], m[1], m[2], m[3]);
    }
    total_mass_ = warp_sum(mass);
  }

  std::uint32_t *key_, *mass_;
  std::uint64_t total_mass_;
  int blocks_, quads_;
};

/// Membership in a prefix of the ranking, asked in index order: ties go to the lowest indices.
class PrefixWalk {
public:
  __device__ __forceinline__ explicit PrefixWalk(PrefixEnd end) : end_(end) {}

  /// Whether the prefix holds this lane's block; lanes hold consecutive blocks. All lanes call.
  __device__ __forceinline__ bool step(std::uint32_t key, bool exists) {
    bool const is_tie = exists && key == end_.key;
    unsigned const ties = __ballot_sync(all_lanes, is_tie);
    bool const holds =
        exists && (key > end_.key || (is_tie && ties_seen_ + count_lower_lanes(ties) < end_.ties));
    ties_seen_ += __popc(ties);
    return holds;
  }

private:
  PrefixEnd end_;
  std::int64_t ties_seen_ = 0;
};

/// The two goals of the rule for a row.
struct RowGoals {
  PrefixGoal top_k, top_p;

  __device__ __forceinline__ RowGoals(MaskRowsParams const& params, RowPosition const& at, Tally all) {
    MaskRule const& rule = params.rule;
    bool const by_head = rule.top_k_of_head != nullptr || rule.top_p_of_head != nullptr;
    std::int64_t const head = by_head ? at.head(params) : 0;
    top_k = top_k_goal(share_of_head(rule.top_k, rule.top_k_of_head, head), rule.min_blocks, all.blocks);
    top_p = top_p_goal(share_of_head(rule.top_p, rule.top_p_of_head, head), all.mass, all.blocks);
  }
};

/// Thread blocks of a kernel over the rows of a chunk.
inline std::int64_t row_grid_blocks(RowChunk const& chunk) {
  return chunk.tiles * (RowLayout::tile_rows / RowLayout::row_warps);
}

}  // namespace sparge
