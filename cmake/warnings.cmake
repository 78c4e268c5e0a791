# Warnings for the project's own targets; users of the library inherit none.

option(SPARGE_WARNINGS_AS_ERRORS "Fail the build on a warning" OFF)

function(sparge_warnings target)
  target_compile_options(
    ${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra>" "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra>")
  if(SPARGE_WARNINGS_AS_ERRORS)
    target_compile_options(
      ${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:-Werror>"
                        "$<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings;-Xcompiler=-Werror>")
  endif()
endfunction()
