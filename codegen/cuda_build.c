/* codegen/cuda_build.c: the Makefile and the CMakeLists.txt beside emitted CUDA sources.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "codegen/emit.h"

static void put_makefile(fx_emit *e)
{
    const char *n = e->prefix;
    fx_text text, *t = &text;
    fx_text_init(t, e->arena);
    fx_printf(t, "# Builds lib%s.a from the sources beside this file. Made by fxcc.\n#\n#   make [NVCC=nvcc] [ARCH=-arch=native] [NVCCFLAGS=-O3]\n", n);
    fx_puts(t, "\nNVCC ?= nvcc\nNVCCFLAGS ?= -O3\nARCH ?= ");
    fx_put_comment(t, e->p->target.cflags, 1000);
    fx_puts(t, "\n# Every operation rounds on its own, as in PyTorch; what fuses multiply and add says so.\nCOMPILE = $(NVCC) -std=c++17 -fmad=false $(ARCH) $(NVCCFLAGS)\n\n");
    fx_printf(t, "lib%s.a: %s.o\n\t$(NVCC) -lib $^ -o $@\n\n", n, n);
    fx_printf(t, "%s.o: %s.cu %s.h\n\t$(COMPILE) -c %s.cu -o $@\n\n", n, n, n, n);
    fx_printf(t, "clean:\n\trm -f lib%s.a %s.o\n\n.PHONY: clean\n", n, n);
    fx_file *f = fx_emit_file(e, "", t);
    f->name = "Makefile";
}

/* CMake's list: code for each, PTX of the last one. */
static void put_archs(fx_text *t, const fx_target *target)
{
    for (int i = 0; i + 1 < target->n_archs; i++)
        fx_printf(t, "%d-real ", target->archs[i]);
    fx_printf(t, "%d", target->n_archs ? target->archs[target->n_archs - 1] : target->sm);
}

static void put_cmake(fx_emit *e)
{
    const char *n = e->prefix;
    fx_text text, *t = &text;
    fx_text_init(t, e->arena);
    fx_printf(t, "# The library %s from the sources beside this file: build it here, or add_subdirectory() this folder and link to %s.\n# Made by fxcc.\n", n, n);
    fx_puts(t, "cmake_minimum_required(VERSION 3.18)\n\nif(NOT CMAKE_CUDA_ARCHITECTURES)\n");
    fx_puts(t, "  set(CMAKE_CUDA_ARCHITECTURES ");
    put_archs(t, &e->p->target);
    fx_printf(t, ")\nendif()\nproject(%s LANGUAGES CXX CUDA)\n\n", n);
    fx_puts(t, "if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES AND CMAKE_SOURCE_DIR STREQUAL CMAKE_CURRENT_SOURCE_DIR)\n"
               "  set(CMAKE_BUILD_TYPE Release)\nendif()\n\n");
    fx_printf(t, "add_library(%s STATIC %s.cu)\ntarget_include_directories(%s PUBLIC ${CMAKE_CURRENT_SOURCE_DIR} ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES})\n", n, n, n);
    fx_printf(t, "set_target_properties(%s PROPERTIES CUDA_STANDARD 17 CUDA_STANDARD_REQUIRED ON CUDA_EXTENSIONS OFF)\n", n);
    fx_printf(t, "# Every operation rounds on its own, as in PyTorch; what fuses multiply and add says so.\ntarget_compile_options(%s PRIVATE -fmad=false)\n", n);
    fx_file *f = fx_emit_file(e, "", t);
    f->name = "CMakeLists.txt";
}

void fx_cuda_build(fx_emit *e)
{
    put_makefile(e);
    put_cmake(e);
}
