#pragma once
/// Masks as NumPy files, which examples/mask_picture.py makes pictures of.

#include <cstdint>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "sparge/core/problem.hpp"
#include "support/npy.hpp"

namespace demo {

/// One byte per block pair, 1 = kept: [batch, heads, q_blocks, kv_blocks], as mask_to_bytes() writes it.
inline void write_mask(std::string const& path, sparge::AttentionProblem const& p,
                       std::vector<std::uint32_t> const& words) {
  std::ofstream file(path, std::ios::binary);
  file << npy_start("|u1", {p.batch, p.heads, p.q_blocks(), p.kv_blocks()});
  std::string row(std::size_t(p.kv_blocks()), '\0');
  for (std::size_t first = 0; first < words.size(); first += std::size_t(p.row_words())) {
    for (std::size_t j = 0; j < row.size(); ++j) row[j] = char(words[first + j / 32] >> (j % 32) & 1);
    file << row;
  }
  if (!file) throw std::runtime_error("cannot write " + path);
}

}  // namespace demo
