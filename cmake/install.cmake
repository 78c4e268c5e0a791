# The package, in the install tree and in the build tree.

include(CMakePackageConfigHelpers)

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/sparge")
set_target_properties(sparge PROPERTIES EXPORT_NAME sparge)
install(TARGETS sparge sparge_headers EXPORT sparge_targets)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/sparge" "${PROJECT_BINARY_DIR}/include/sparge"
        DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
# The C ABI is a set of its own, since it needs no CUDA Toolkit.
install(TARGETS sparge_c EXPORT sparge_c_targets)
install(EXPORT sparge_c_targets NAMESPACE sparge:: FILE spargeCTargets.cmake DESTINATION "${package_dir}")
export(EXPORT sparge_c_targets NAMESPACE sparge:: FILE "${PROJECT_BINARY_DIR}/spargeCTargets.cmake")
file(RELATIVE_PATH prefix_from_pc "${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "${CMAKE_INSTALL_PREFIX}")
configure_file("${PROJECT_SOURCE_DIR}/cmake/sparge.pc.in" "${PROJECT_BINARY_DIR}/sparge.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/sparge.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
install(EXPORT sparge_targets NAMESPACE sparge:: FILE spargeTargets.cmake DESTINATION "${package_dir}")
export(EXPORT sparge_targets NAMESPACE sparge:: FILE "${PROJECT_BINARY_DIR}/spargeTargets.cmake")

configure_file("${PROJECT_SOURCE_DIR}/cmake/spargeCUDAToolkit.cmake" "${PROJECT_BINARY_DIR}/spargeCUDAToolkit.cmake" COPYONLY)
configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/spargeConfig.cmake.in"
                              "${PROJECT_BINARY_DIR}/spargeConfig.cmake" INSTALL_DESTINATION "${package_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/spargeConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/spargeConfig.cmake" "${PROJECT_BINARY_DIR}/spargeConfigVersion.cmake"
              "${PROJECT_SOURCE_DIR}/cmake/spargeCUDAToolkit.cmake"
        DESTINATION "${package_dir}")
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DOCDIR}")
