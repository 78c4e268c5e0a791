# Read before project(): finds nvcc and turns SPARGE_ARCHS into CMake's architectures and the library's list of targets.

set(SPARGE_ARCHS "80;90a" CACHE STRING "GPU architectures: 80 = SASS and PTX, 80-real = SASS, 80-virtual = PTX, 90a = SASS")

if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
  find_program(SPARGE_NVCC nvcc HINTS "$ENV{CUDA_HOME}/bin" "$ENV{CUDA_PATH}/bin" PATHS /usr/local/cuda/bin
               DOC "CUDA compiler")
  if(NOT SPARGE_NVCC)
    message(FATAL_ERROR "sparge needs the CUDA Toolkit 13.0 or later: nvcc was found neither on PATH nor in "
                        "CUDA_HOME, CUDA_PATH or /usr/local/cuda. Install it, or set CUDACXX to nvcc.")
  endif()
  set(CMAKE_CUDA_COMPILER "${SPARGE_NVCC}" CACHE FILEPATH "CUDA compiler")
endif()

# Sets CMAKE_CUDA_ARCHITECTURES, and sparge_targets: the C++ initialisers of sparge::built::Target.
set(CMAKE_CUDA_ARCHITECTURES "")
set(sparge_targets "")
foreach(arch IN LISTS SPARGE_ARCHS)
  if(NOT arch MATCHES "^([0-9]+)(a?)(-real|-virtual)?$")
    message(FATAL_ERROR "SPARGE_ARCHS: '${arch}' is not an architecture such as 80, 80-real, 80-virtual or 90a")
  endif()
  set(number ${CMAKE_MATCH_1})
  set(suffix "${CMAKE_MATCH_3}")
  set(ptx true)
  set(exact false)
  # Code for 90a runs on 9.0 alone, so its PTX would serve nobody.
  if(CMAKE_MATCH_2 OR suffix STREQUAL "-real")
    set(ptx false)
  endif()
  if(CMAKE_MATCH_2)
    set(exact true)
    if(NOT suffix)
      set(arch "${arch}-real")
    endif()
  endif()
  list(APPEND CMAKE_CUDA_ARCHITECTURES "${arch}")
  list(APPEND sparge_targets "{${number}, ${ptx}, ${exact}}")
endforeach()
if(NOT CMAKE_CUDA_ARCHITECTURES)
  message(FATAL_ERROR "SPARGE_ARCHS is empty; name at least one architecture, such as 80")
endif()
list(JOIN sparge_targets ", " sparge_targets)
