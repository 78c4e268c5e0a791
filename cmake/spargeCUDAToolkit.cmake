# Finds the CUDA Toolkit for the build and for the package.
#
# FindCUDAToolkit of CMake 3.25 sets a property of CUDA::nvToolsExt, a library that CUDA 13 no longer has, where the project
# asks for CMake 3.25 or later, and stops. For the time of the search the project asks for less.
macro(sparge_find_cuda_toolkit)
  set(sparge_minimum_required "${CMAKE_MINIMUM_REQUIRED_VERSION}")
  set(CMAKE_MINIMUM_REQUIRED_VERSION 3.24)
  find_package(CUDAToolkit 13.0 QUIET)
  set(CMAKE_MINIMUM_REQUIRED_VERSION "${sparge_minimum_required}")
  unset(sparge_minimum_required)
endmacro()
