# Compiles PROGRAM twice: right with -DCORRECT, refused with the error of its first line without.

file(STRINGS "${PROGRAM}" first_line LIMIT_COUNT 1)
if(NOT first_line MATCHES "^// error: (.+)$")
  message(FATAL_ERROR "${PROGRAM}: the first line must be `// error: <regular expression>`")
endif()
set(expected "${CMAKE_MATCH_1}")
set(ENV{LC_ALL} C) # plain quotes in messages

execute_process(COMMAND "${COMPILER}" "@${ARGUMENTS}" -DCORRECT "${PROGRAM}" RESULT_VARIABLE result ERROR_VARIABLE output)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "the correct form of ${PROGRAM} does not compile:\n${output}")
endif()

execute_process(COMMAND "${COMPILER}" "@${ARGUMENTS}" "${PROGRAM}" RESULT_VARIABLE result ERROR_VARIABLE output)
if(result EQUAL 0)
  message(FATAL_ERROR "${PROGRAM} compiles, but must not")
endif()
if(NOT output MATCHES "error: [^\n]*${expected}")
  message(FATAL_ERROR "${PROGRAM} is refused, but not with `${expected}`:\n${output}")
endif()
