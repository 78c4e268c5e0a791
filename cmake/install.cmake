# The package, in the install tree and in the build tree.

include(CMakePackageConfigHelpers)

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/sparge")
set_target_properties(sparge PROPERTIES EXPORT_NAME sparge)
install(TARGETS sparge sparge_headers EXPORT sparge_targets)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/sparge" "${PROJECT_BINARY_DIR}/include/sparge"
        DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(EXPORT sparge_targets NAMESPACE sparge:: FILE spargeTargets.cmake DESTINATION "${package_dir}")
export(EXPORT sparge_targets NAMESPACE sparge:: FILE "${PROJECT_BINARY_DIR}/spargeTargets.cmake")

configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/spargeConfig.cmake.in"
                              "${PROJECT_BINARY_DIR}/spargeConfig.cmake" INSTALL_DESTINATION "${package_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/spargeConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/spargeConfig.cmake" "${PROJECT_BINARY_DIR}/spargeConfigVersion.cmake"
        DESTINATION "${package_dir}")
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DOCDIR}")
