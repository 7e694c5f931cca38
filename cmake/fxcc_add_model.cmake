# fxcc_add_model: a saved model as a library target, compiled to C at build time.
# Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
#
#   fxcc_add_model(TARGET MODEL
#     [PREFIX name]              of symbols and files; default: the target's name
#     [FOR target]               fxcc's --target; default native, or generic when cross compiling
#     [WEIGHTS c|bin|incbin]     default c: the library is complete in itself
#     [LINK_RUNTIME]             call libfxrt (fxcc::fxrt) instead of pasting kernels
#     [OPENMP]                   spread the work over threads
#     [CHECK]                    also a program TARGET_check with golden vectors, and a test that runs it
#     [OPTIONS option...])       further options of fxcc compile
#
# The model is compiled again when its file or fxcc changes. Include the header as "NAME.h"; with WEIGHTS bin the property
# FXCC_WEIGHTS of the target names the file to load.
function(fxcc_add_model target model)
  cmake_parse_arguments(PARSE_ARGV 2 arg "LINK_RUNTIME;OPENMP;CHECK" "PREFIX;FOR;WEIGHTS" "OPTIONS")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "fxcc_add_model(${target}): expected PREFIX, FOR, WEIGHTS, LINK_RUNTIME, OPENMP, CHECK or OPTIONS, "
      "got ${arg_UNPARSED_ARGUMENTS}")
  endif()
  if(NOT arg_PREFIX)
    string(MAKE_C_IDENTIFIER ${target} arg_PREFIX)
  endif()
  if(NOT arg_FOR)
    set(arg_FOR native)
    if(CMAKE_CROSSCOMPILING)
      set(arg_FOR generic)
    endif()
  endif()
  if(arg_FOR MATCHES "^cuda")
    message(FATAL_ERROR "fxcc_add_model(${target}): expected FOR a CPU's target, got ${arg_FOR}; for GPUs, add_subdirectory() the folder that "
      "'fxcc compile' writes (examples/cuda_two_models)")
  endif()
  if(NOT arg_WEIGHTS)
    set(arg_WEIGHTS c)
  endif()
  if(NOT arg_WEIGHTS MATCHES "^(c|bin|incbin)$")
    message(FATAL_ERROR "fxcc_add_model(${target}): expected WEIGHTS c, bin or incbin, got ${arg_WEIGHTS}")
  endif()
  get_filename_component(model ${model} ABSOLUTE)
  set(dir ${CMAKE_CURRENT_BINARY_DIR}/${target}.fxcc)
  set(command ${FXCC_COMMAND} compile ${model} -o ${dir} --prefix=${arg_PREFIX} --target=${arg_FOR} --weights=${arg_WEIGHTS})
  set(sources ${dir}/${arg_PREFIX}.c)
  set(outputs ${sources} ${dir}/${arg_PREFIX}.h)
  if(arg_LINK_RUNTIME)
    list(APPEND command --link-runtime)
  endif()
  if(NOT arg_WEIGHTS STREQUAL bin)
    list(APPEND sources ${dir}/${arg_PREFIX}_weights.c)
    list(APPEND outputs ${dir}/${arg_PREFIX}_weights.c)
  endif()
  if(NOT arg_WEIGHTS STREQUAL c)
    list(APPEND outputs ${dir}/${arg_PREFIX}.bin)
  endif()
  if(arg_CHECK)
    list(APPEND command --check)
    list(APPEND outputs ${dir}/${arg_PREFIX}_check.c)
  endif()
  list(APPEND command ${arg_OPTIONS})
  add_custom_command(OUTPUT ${outputs} COMMAND ${command} DEPENDS ${model} ${FXCC_COMMAND}
    COMMENT "Compiling ${model} to C" VERBATIM)

  add_library(${target} STATIC ${sources} ${dir}/${arg_PREFIX}.h)
  target_include_directories(${target} PUBLIC ${dir})
  set_target_properties(${target} PROPERTIES C_STANDARD 99 C_STANDARD_REQUIRED ON C_EXTENSIONS OFF FXCC_WEIGHTS ${dir}/${arg_PREFIX}.bin)
  fxcc_target_flags(flags ${arg_FOR})
  target_compile_options(${target} PRIVATE ${flags})
  if(arg_WEIGHTS STREQUAL incbin)
    string(TOUPPER ${arg_PREFIX} upper)
    set_source_files_properties(${dir}/${arg_PREFIX}_weights.c PROPERTIES OBJECT_DEPENDS ${dir}/${arg_PREFIX}.bin)
    target_compile_definitions(${target} PRIVATE ${upper}_WEIGHTS_FILE="${dir}/${arg_PREFIX}.bin")
  endif()
  if(arg_LINK_RUNTIME)
    target_link_libraries(${target} PUBLIC fxcc::fxrt)
  endif()
  if(arg_OPENMP)
    find_package(OpenMP REQUIRED COMPONENTS C)
    target_link_libraries(${target} PUBLIC OpenMP::OpenMP_C)
  endif()
  find_library(FXCC_LIBM m)
  mark_as_advanced(FXCC_LIBM)
  if(FXCC_LIBM)
    target_link_libraries(${target} PUBLIC m)
  endif()
  if(arg_CHECK)
    add_executable(${target}_check ${dir}/${arg_PREFIX}_check.c)
    set_target_properties(${target}_check PROPERTIES C_STANDARD 99 C_STANDARD_REQUIRED ON C_EXTENSIONS OFF)
    target_link_libraries(${target}_check PRIVATE ${target})
    add_test(NAME ${target}_check COMMAND ${target}_check WORKING_DIRECTORY ${dir})
  endif()
endfunction()

# The compiler flags that a target of fxcc asks for, as a list.
function(fxcc_target_flags variable target)
  execute_process(COMMAND ${FXCC_COMMAND} target ${target} --cflags OUTPUT_VARIABLE flags OUTPUT_STRIP_TRAILING_WHITESPACE
    RESULT_VARIABLE status)
  if(status)
    message(FATAL_ERROR "expected ${FXCC_COMMAND} to know the target ${target}")
  endif()
  separate_arguments(flags UNIX_COMMAND "${flags}")
  set(${variable} ${flags} PARENT_SCOPE)
endfunction()
