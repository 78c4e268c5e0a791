// error: assignment of read-only location
#include "sparge/sparge.hpp"

#ifdef CORRECT
using Word = std::uint32_t;
#else
using Word = std::uint32_t const;
#endif

void clear(sparge::MaskBits<Word> mask) {
  for (std::size_t i = 0; i < mask.words; ++i) mask.data[i] = 0;
}
