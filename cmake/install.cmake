# Installing: fxcc, libfxcc, libfxrt, headers, pkg-config files and the CMake package fxcc (with fxcc_add_model).
# Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
if(NOT TARGET fxcc_static)
  return()
endif()
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/fxcc)

set_target_properties(fxcc_static PROPERTIES EXPORT_NAME fxcc_static)
set(libraries fxcc_static fxrt)
if(TARGET fxcc_shared)
  set_target_properties(fxcc_shared PROPERTIES EXPORT_NAME fxcc)
  list(APPEND libraries fxcc_shared)
endif()
install(TARGETS ${libraries} EXPORT fxcc-targets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS fxcc RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/fxcc DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")

configure_package_config_file(cmake/fxccConfig.cmake.in ${PROJECT_BINARY_DIR}/fxccConfig.cmake INSTALL_DESTINATION ${package_dir}
  PATH_VARS CMAKE_INSTALL_BINDIR)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/fxccConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(EXPORT fxcc-targets NAMESPACE fxcc:: DESTINATION ${package_dir})
install(FILES ${PROJECT_BINARY_DIR}/fxccConfig.cmake ${PROJECT_BINARY_DIR}/fxccConfigVersion.cmake cmake/fxcc_add_model.cmake
  cmake/Findminizip.cmake cmake/Findisl.cmake DESTINATION ${package_dir})

foreach(name fxcc fxrt)
  configure_file(cmake/${name}.pc.in ${PROJECT_BINARY_DIR}/${name}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()

file(GLOB pages ${PROJECT_SOURCE_DIR}/docs/man/*.1)
install(FILES ${pages} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
