# One translation unit per built row of plan/forward_table.inc and plan/backward_table.inc, one object library per kernel
# architecture, and the header that tells the host code which rows and GPU targets this build contains.

set(table_folder "${PROJECT_SOURCE_DIR}/include/sparge/plan")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${table_folder}/forward_table.inc"
                                                               "${table_folder}/backward_table.inc")

# Reads a table whose rows are ROW(<leading columns>arch, dtype, head_dim, q_tile, kv_tile, stages, warps, ctas_per_sm), where
# `leading` is a pattern of the leading columns. Sets sparge_<table>_rows (indices of the rows to build), and per row
# sparge_<table>_<i>_{arch,name}; adds what the rows have to dtypes_seen and head_dims_seen.
function(sparge_read_table table leading)
  file(STRINGS "${table_folder}/${table}_table.inc" lines)
  set(row 0)
  set(rows "")
  foreach(line IN LISTS lines)
    if(line MATCHES "^[ \t]*(//.*)?$")
      continue()
    endif()
    set(number "[0-9]+")
    if(NOT line MATCHES "^ROW\\((${leading})([a-z0-9]+), ([a-z0-9]+), (${number}), (${number}), (${number}), (${number}), (${number}), ${number}\\)$")
      message(FATAL_ERROR "${table}_table.inc: not a ROW(${leading}arch, dtype, head_dim, q_tile, kv_tile, stages, warps, "
                          "ctas_per_sm): ${line}")
    endif()
    if(NOT CMAKE_MATCH_2 IN_LIST sparge_known_archs)
      message(FATAL_ERROR "${table}_table.inc: row ${row} is for ${CMAKE_MATCH_2}, which has no sparge_add_kernels() line in "
                          "cmake/instances.cmake")
    endif()
    list(APPEND dtypes_seen ${CMAKE_MATCH_3})
    list(APPEND head_dims_seen ${CMAKE_MATCH_4})
    if(CMAKE_MATCH_2 IN_LIST sparge_kernel_archs
       AND CMAKE_MATCH_3 IN_LIST SPARGE_DTYPES
       AND CMAKE_MATCH_4 IN_LIST SPARGE_HEAD_DIMS)
      list(APPEND rows ${row})
      set(sparge_${table}_${row}_arch ${CMAKE_MATCH_2} PARENT_SCOPE)
      string(REPLACE ", " "_" pass "${CMAKE_MATCH_1}")
      set(sparge_${table}_${row}_name
          "${table}_${pass}${CMAKE_MATCH_2}_${CMAKE_MATCH_3}_d${CMAKE_MATCH_4}_${CMAKE_MATCH_5}x${CMAKE_MATCH_6}_s${CMAKE_MATCH_7}_w${CMAKE_MATCH_8}"
          PARENT_SCOPE)
    endif()
    math(EXPR row "${row} + 1")
  endforeach()
  if(row GREATER 63)
    message(FATAL_ERROR "${table}_table.inc: ${row} rows; sparge::built::${table}_rows holds at most 63")
  endif()
  set(sparge_${table}_rows "${rows}" PARENT_SCOPE)
  set(dtypes_seen "${dtypes_seen}" PARENT_SCOPE)
  set(head_dims_seen "${head_dims_seen}" PARENT_SCOPE)
endfunction()

# A misspelt filter must not build a library without kernels.
function(sparge_require_known option known)
  list(REMOVE_DUPLICATES known)
  if(NOT ${option})
    message(FATAL_ERROR "${option} is empty; the table has: ${known}")
  endif()
  foreach(value IN LISTS ${option})
    if(NOT value IN_LIST known)
      message(FATAL_ERROR "${option}: no row of the tables has '${value}'; the table has: ${known}")
    endif()
  endforeach()
endfunction()

# The kernels of one architecture family, with `sources` beside its rows. Nothing where there are neither.
function(sparge_add_kernels arch cuda_architectures)
  set(sources ${ARGN})
  foreach(table IN LISTS sparge_tables)
    foreach(row IN LISTS sparge_${table}_rows)
      if(sparge_${table}_${row}_arch STREQUAL arch)
        set(ROW ${row})
        set(source "${PROJECT_BINARY_DIR}/instances/${sparge_${table}_${row}_name}.cu")
        configure_file("${PROJECT_SOURCE_DIR}/src/${table}_instance.cu.in" "${source}" @ONLY)
        list(APPEND sources "${source}")
      endif()
    endforeach()
  endforeach()
  if(NOT sources)
    return()
  endif()
  set(target sparge_kernels_${arch})
  add_library(${target} OBJECT ${sources})
  set_target_properties(${target} PROPERTIES CUDA_ARCHITECTURES "${cuda_architectures}")
  target_link_libraries(${target} PRIVATE sparge_headers)
  sparge_use_built_header(${target} PRIVATE)
  sparge_warnings(${target})
  target_sources(sparge PRIVATE $<TARGET_OBJECTS:${target}>)
endfunction()

# Public for the library: whoever links it must see the same rows as the library does.
function(sparge_use_built_header target scope)
  target_include_directories(${target} ${scope} "$<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/include>")
  target_compile_definitions(${target} ${scope} "SPARGE_BUILT_HEADER=\"sparge/built_rows.hpp\"")
endfunction()

# Sets `bits` to a number with a bit for each built row of a table.
function(sparge_built_bits table bits)
  set(value 0)
  foreach(row IN LISTS sparge_${table}_rows)
    math(EXPR value "${value} | (1 << ${row})" OUTPUT_FORMAT HEXADECIMAL)
  endforeach()
  set(${bits} ${value} PARENT_SCOPE)
endfunction()

# wgmma exists in code for 9.0a alone, so a build without it leaves the sm90a rows out.
set(sparge_known_archs sm80 sm90a)
set(sparge_kernel_archs sm80)
if(SPARGE_ARCHS MATCHES "(^|;)90a")
  list(APPEND sparge_kernel_archs sm90a)
endif()

set(sparge_tables forward backward)
set(dtypes_seen "")
set(head_dims_seen "")
sparge_read_table(forward "")
sparge_read_table(backward "dkdv, |dq, ")
sparge_require_known(SPARGE_DTYPES "${dtypes_seen}")
sparge_require_known(SPARGE_HEAD_DIMS "${head_dims_seen}")
sparge_built_bits(forward SPARGE_BUILT_FORWARD_BITS)
sparge_built_bits(backward SPARGE_BUILT_BACKWARD_BITS)
set(SPARGE_BUILT_TARGETS "${sparge_targets}")
configure_file("${PROJECT_SOURCE_DIR}/cmake/built_rows.hpp.in" "${PROJECT_BINARY_DIR}/include/sparge/built_rows.hpp" @ONLY)
sparge_use_built_header(sparge PUBLIC)

file(GLOB portable_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/*.cu")
sparge_add_kernels(sm80 "${CMAKE_CUDA_ARCHITECTURES}" ${portable_sources})
sparge_add_kernels(sm90a "90a-real")
