# The CUDA Toolkit, whose nvcc finds its CCCL by itself; Catch2 and Google Benchmark for development only.

include("${CMAKE_CURRENT_LIST_DIR}/spargeCUDAToolkit.cmake")
sparge_find_cuda_toolkit()
if(NOT CUDAToolkit_FOUND)
  message(FATAL_ERROR "sparge needs the CUDA Toolkit 13.0 or later; nvcc here is version ${CMAKE_CUDA_COMPILER_VERSION} "
                      "(${CMAKE_CUDA_COMPILER}). Set CUDACXX or CUDAToolkit_ROOT to a newer one.")
endif()

include(FetchContent)

# A macro, since imported targets belong to the directory that finds them. Sets sparge_catch_module.
macro(sparge_find_catch2)
  find_package(Catch2 QUIET)
  if(Catch2_FOUND)
    set(sparge_catch_module "${Catch2_DIR}/Catch.cmake")
  else()
    FetchContent_Declare(Catch2 GIT_REPOSITORY https://github.com/catchorg/Catch2.git
                         GIT_TAG 6e79e682b726f524310d55dec8ddac4e9c52fb5f) # v3.4.0
    FetchContent_MakeAvailable(Catch2)
    set(sparge_catch_module "${catch2_SOURCE_DIR}/extras/Catch.cmake")
  endif()
endmacro()

macro(sparge_find_benchmark)
  find_package(benchmark 1.7 CONFIG QUIET)
  if(NOT benchmark_FOUND)
    set(BENCHMARK_ENABLE_TESTING OFF)
    set(BENCHMARK_ENABLE_INSTALL OFF)
    FetchContent_Declare(benchmark GIT_REPOSITORY https://github.com/google/benchmark.git
                         GIT_TAG 344117638c8ff7e239044fd0fa7085839fc03021) # v1.8.3
    FetchContent_MakeAvailable(benchmark)
  endif()
endmacro()
