# Writes OUTPUT, a header with the commit and the build type, where its text changed. Run at every build:
# cmake -DSOURCE_DIR=.. -DBUILD_TYPE=.. -DTEMPLATE=.. -DOUTPUT=.. -P commit.cmake

set(commit "")
execute_process(
  COMMAND git rev-parse --short=12 HEAD WORKING_DIRECTORY "${SOURCE_DIR}"
  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(commit)
  execute_process(
    COMMAND git status --porcelain --untracked-files=no WORKING_DIRECTORY "${SOURCE_DIR}"
    OUTPUT_VARIABLE changes ERROR_QUIET)
  if(changes)
    string(APPEND commit "+changes")
  endif()
else()
  execute_process(
    COMMAND bash ci/source_hash.sh WORKING_DIRECTORY "${SOURCE_DIR}"
    OUTPUT_VARIABLE hash OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  string(SUBSTRING "${hash}" 0 12 hash)
  set(commit "sources ${hash}")
endif()
configure_file("${TEMPLATE}" "${OUTPUT}" @ONLY)
