# Every public header compiles alone: one generated translation unit each.

file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE "${PROJECT_SOURCE_DIR}/include" "include/*.hpp" "include/*.cuh")

set(host_units "")
set(device_units "")
foreach(header IN LISTS headers)
  string(MAKE_C_IDENTIFIER "${header}" unit)
  if(header MATCHES "\\.hpp$")
    set(unit "${PROJECT_BINARY_DIR}/header_tests/${unit}.cpp")
    list(APPEND host_units "${unit}")
  else()
    set(unit "${PROJECT_BINARY_DIR}/header_tests/${unit}.cu")
    list(APPEND device_units "${unit}")
  endif()
  file(CONFIGURE OUTPUT "${unit}" CONTENT "#include \"${header}\"\n" @ONLY)
endforeach()

add_library(sparge_header_tests OBJECT ${host_units})
target_link_libraries(sparge_header_tests PRIVATE sparge_headers)
target_compile_options(sparge_header_tests PRIVATE -O0 -Wall -Wextra -Werror)

if(device_units)
  add_library(sparge_device_header_tests OBJECT ${device_units})
  target_link_libraries(sparge_device_header_tests PRIVATE sparge_headers)
  # As far as PTX: the device's view of every header, at a third of the cost. The host's view is compiled by src/.
  set_target_properties(sparge_device_header_tests PROPERTIES CUDA_PTX_COMPILATION ON CUDA_ARCHITECTURES 80-virtual)
  sparge_warnings(sparge_device_header_tests)
endif()
