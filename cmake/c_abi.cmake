# sparge::c: the C ABI of sparge.h as a shared library, libsparge.so. It exports the sparge_* functions and nothing else, holds
# its own CUDA runtime, and is never a static library; docs/decisions/c_abi.md says why.

file(GLOB c_abi_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/c_api/*.cpp")
add_library(sparge_c SHARED ${c_abi_sources})
add_library(sparge::c ALIAS sparge_c)
set_target_properties(
  sparge_c
  PROPERTIES OUTPUT_NAME sparge
             EXPORT_NAME c
             LINKER_LANGUAGE CXX
             VERSION ${PROJECT_VERSION}
             SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
target_include_directories(sparge_c PUBLIC "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>"
                                           "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
target_include_directories(sparge_c PRIVATE "${PROJECT_SOURCE_DIR}/src")
target_link_libraries(sparge_c PRIVATE sparge)
# The archives of the C++ library and of the CUDA runtime are not re-exported; a missing symbol fails here, not at the caller's.
target_link_options(sparge_c PRIVATE "LINKER:--exclude-libs,ALL" "LINKER:--no-undefined" "LINKER:--as-needed")
sparge_warnings(sparge_c)

# A parent project that does not link it, does not build it.
if(NOT PROJECT_IS_TOP_LEVEL AND NOT SPARGE_INSTALL)
  set_target_properties(sparge_c PROPERTIES EXCLUDE_FROM_ALL ON)
endif()
