# Turns text files into a C file of byte arrays (string literals have a length limit in C).
#   cmake -DOUT=texts.c "-DFILES=a.h;b.h" "-DCUDA_FILES=cuda/a.h" -P embed.cmake
# Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
set(text "/* Made by cmake/embed.cmake: the kernel texts of runtime/. */\n#include \"codegen/texts.h\"\n\n")
# The files' arrays, and the table of them: fx_PREFIX_texts.
macro(table prefix)
  set(arrays "")
  set(table "")
  set(n 0)
  foreach(file ${ARGN})
    get_filename_component(name "${file}" NAME_WE)
    file(READ "${file}" hex HEX)
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
    string(REPEAT "0x..," 20 line)
    string(REGEX REPLACE "(${line})" "\\1\n" bytes "${bytes}")
    string(APPEND arrays "static const char ${prefix}_${name}_text[] = {\n${bytes}0};\n")
    string(APPEND table "    {\"${name}\", ${prefix}_${name}_text},\n")
    math(EXPR n "${n} + 1")
  endforeach()
  string(APPEND text "${arrays}\nconst fx_runtime_text fx_${prefix}_texts[] = {\n${table}};\nconst int fx_n_${prefix}_texts = ${n};\n")
endmacro()
table(runtime ${FILES})
table(cuda ${CUDA_FILES})
file(WRITE ${OUT} "${text}")
