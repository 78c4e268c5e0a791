#pragma once
/// Non-template functions are `inline` for header-only users; src/ compiles each once with this defined empty.

#ifndef SPARGE_INLINE
#define SPARGE_INLINE inline
#endif
