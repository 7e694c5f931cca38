# Finds minizip and the zlib under it: target minizip::minizip. Its headers are included as <minizip/unzip.h>.
# Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
find_package(ZLIB QUIET)
find_package(PkgConfig QUIET)
if(PkgConfig_FOUND)
  pkg_check_modules(PC_MINIZIP QUIET minizip)
endif()
find_path(MINIZIP_INCLUDE_DIR minizip/unzip.h HINTS ${PC_MINIZIP_INCLUDEDIR})
find_library(MINIZIP_LIBRARY minizip HINTS ${PC_MINIZIP_LIBRARY_DIRS})
set(minizip_VERSION ${PC_MINIZIP_VERSION})
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(minizip REQUIRED_VARS MINIZIP_LIBRARY MINIZIP_INCLUDE_DIR ZLIB_FOUND VERSION_VAR minizip_VERSION)
if(minizip_FOUND AND NOT TARGET minizip::minizip)
  add_library(minizip::minizip UNKNOWN IMPORTED)
  set_target_properties(minizip::minizip PROPERTIES IMPORTED_LOCATION ${MINIZIP_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES "${MINIZIP_INCLUDE_DIR};${MINIZIP_INCLUDE_DIR}/minizip" INTERFACE_LINK_LIBRARIES ZLIB::ZLIB)
endif()
mark_as_advanced(MINIZIP_INCLUDE_DIR MINIZIP_LIBRARY)
