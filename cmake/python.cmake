# The Python package: python/core built as the extension module fxcc._core, and python/fxcc beside it, in ${PROJECT_BINARY_DIR}/python:
# PYTHONPATH=build/release/python serves them without installing. Under scikit-build-core (pyproject.toml) they are what a wheel holds.
# Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
if(NOT TARGET fxcc_static)
  return()
endif()
find_package(Python3 COMPONENTS Interpreter Development.Module)
if(NOT Python3_Development.Module_FOUND)
  if(SKBUILD)
    message(FATAL_ERROR "a wheel needs Python's headers (Debian: python3-dev)")
  endif()
  message(STATUS "Python's headers not found (Debian: python3-dev): no Python package")
  return()
endif()

set(package_dir ${PROJECT_BINARY_DIR}/python/fxcc)
file(GLOB core_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/python/core/*.c)
set(root ${PROJECT_BINARY_DIR}/include-roots/python)
file(MAKE_DIRECTORY ${root} ${package_dir})
# CPython's stable ABI (core.h says of which version on): no library to link, and one build for all later versions
add_library(fxcc_python MODULE ${core_sources})
set_target_properties(fxcc_python PROPERTIES OUTPUT_NAME _core PREFIX "" SUFFIX ".abi3.so" LIBRARY_OUTPUT_DIRECTORY ${package_dir}
  C_VISIBILITY_PRESET hidden)
target_include_directories(fxcc_python PRIVATE ${PROJECT_SOURCE_DIR}/include)
target_include_directories(fxcc_python SYSTEM PRIVATE ${Python3_INCLUDE_DIRS})
target_compile_definitions(fxcc_python PRIVATE FXCC_VERSION="${PROJECT_VERSION}")
target_link_libraries(fxcc_python PRIVATE fxcc_static)
target_link_options(fxcc_python PRIVATE LINKER:--exclude-libs,ALL)

# Links, not copies: an edit is there at once.
file(GLOB package_files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/python/fxcc/*.py ${PROJECT_SOURCE_DIR}/python/fxcc/*.pyi
  ${PROJECT_SOURCE_DIR}/python/fxcc/py.typed)
foreach(file ${package_files})
  get_filename_component(name ${file} NAME)
  file(CREATE_LINK ${file} ${package_dir}/${name} SYMBOLIC)
endforeach()

# Its tests: those that need the standard library alone are quick; the others (NumPy, torch) run where tests/env is.
# An interpreter that is not built with AddressSanitizer loads a module that is when gcc's library of it comes first; with malloc for its own objects
# the module's reads, writes and leaks of them are seen too. gcc's alone: clang links its into programs.
set(python ${Python3_EXECUTABLE})
set(python_environment PYTHONPATH=${PROJECT_BINARY_DIR}/python)
if(FXCC_SANITIZE)
  set(python)
  if(FXCC_SANITIZE MATCHES address AND CMAKE_C_COMPILER_ID STREQUAL "GNU")
    execute_process(COMMAND ${CMAKE_C_COMPILER} -print-file-name=libasan.so OUTPUT_VARIABLE asan OUTPUT_STRIP_TRAILING_WHITESPACE)
    execute_process(COMMAND ${Python3_EXECUTABLE} -c "import sys; print(sys.executable)" OUTPUT_VARIABLE python OUTPUT_STRIP_TRAILING_WHITESPACE) # no script
    list(APPEND python_environment LD_PRELOAD=${asan} PYTHONMALLOC=malloc ASAN_OPTIONS=intercept_tls_get_addr=0
      LSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/python/tests/leaks.txt:print_suppressions=0)
  endif()
endif()
if(BUILD_TESTING AND python)
  add_test(NAME python.plain COMMAND ${python} ${PROJECT_SOURCE_DIR}/python/tests/test_plain.py)
  set_tests_properties(python.plain PROPERTIES LABELS quick ENVIRONMENT "${python_environment}" TIMEOUT 600)
endif()

if(SKBUILD)
  install(TARGETS fxcc_python LIBRARY DESTINATION fxcc COMPONENT python)
endif()
