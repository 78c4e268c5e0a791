#pragma once
/// Catch2, version 2 or 3, under one face: the macros common to both, and SKIP.

#if __has_include(<catch2/catch_all.hpp>)

#include <catch2/catch_all.hpp>

using Catch::Approx;

#else

#include <catch2/catch.hpp>

namespace sparge::test {
/// Test cases that said SKIP; main() turns them into an exit code.
inline int skipped_cases = 0;
}  // namespace sparge::test

/// Ends the test case, visibly. Version 2 has none of its own.
#define SKIP(message)                \
  do {                               \
    WARN("skipped: " << message);    \
    ++::sparge::test::skipped_cases; \
    return;                          \
  } while (false)

#endif
