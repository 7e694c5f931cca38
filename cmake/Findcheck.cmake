# Finds Check, the unit test library: target check::check.
# Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
find_package(PkgConfig QUIET)
if(PkgConfig_FOUND)
  pkg_check_modules(check QUIET IMPORTED_TARGET check)
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(check REQUIRED_VARS check_LINK_LIBRARIES VERSION_VAR check_VERSION)
if(check_FOUND AND NOT TARGET check::check)
  add_library(check::check INTERFACE IMPORTED)
  target_link_libraries(check::check INTERFACE PkgConfig::check)
endif()
