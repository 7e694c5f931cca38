/* codegen/cuda_build.c: the Makefile and the CMakeLists.txt beside emitted CUDA sources.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "codegen/emit.h"

static void put_makefile(fx_emit *e)
{
    bool check = e->opt->golden;
    fx_text text, *t = &text;
    fx_text_init(t, e->arena);
    fx_cuda_put(e, t, "# Builds lib@.a from the sources beside this file. Made by fxcc.\n#\n#   make [NVCC=nvcc] [ARCH=-arch=native] [NVCCFLAGS=-O3]\n");
    if (check)
        fx_puts(t, "#   make check                         runs the model on its golden vectors, where a GPU is\n");
    fx_puts(t, "\nNVCC ?= nvcc\nNVCCFLAGS ?= -O3\nARCH ?= ");
    fx_put_comment(t, e->p->target.cflags, 1000);
    fx_puts(t, "\n# Every operation rounds on its own, as in PyTorch; what fuses multiply and add says so.\nCOMPILE = $(NVCC) -std=c++17 -fmad=false $(ARCH) $(NVCCFLAGS)\n");
    fx_puts(t, fx_cuda_has_products(e) ? "LIBS = -lcublasLt\n\n" : "LIBS =\n\n");
    fx_cuda_put(e, t, "lib@.a: @.o\n\t$(NVCC) -lib $^ -o $@\n\n"
                      "@.o: @.cu @.h\n\t$(COMPILE) -c @.cu -o $@\n\n");
    if (check)
        fx_cuda_put(e, t, "net_check: net_check.cu @.h lib@.a\n\t$(COMPILE) net_check.cu lib@.a $(LIBS) -o $@\n\n"
                          "check: net_check\n\t./net_check\n\n");
    fx_cuda_put(e, t, "clean:\n\trm -f lib@.a @.o net_check\n\n.PHONY: check clean\n");
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
    fx_text text, *t = &text;
    fx_text_init(t, e->arena);
    fx_cuda_put(e, t, "# The library @ from the sources beside this file: build it here, or add_subdirectory() this folder and link to @.\n# Made by fxcc.\n"
                      "cmake_minimum_required(VERSION 3.18)\n\nif(NOT CMAKE_CUDA_ARCHITECTURES)\n  set(CMAKE_CUDA_ARCHITECTURES ");
    put_archs(t, &e->p->target);
    fx_cuda_put(e, t, ")\nendif()\nproject(@ LANGUAGES CXX CUDA)\nfind_package(CUDAToolkit REQUIRED)\n\n"
                      "if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES AND CMAKE_SOURCE_DIR STREQUAL CMAKE_CURRENT_SOURCE_DIR)\n"
                      "  set(CMAKE_BUILD_TYPE Release)\nendif()\n\n"
                      "add_library(@ STATIC @.cu)\ntarget_include_directories(@ PUBLIC ${CMAKE_CURRENT_SOURCE_DIR})\n");
    fx_cuda_put(e, t, fx_cuda_has_products(e) ? "target_link_libraries(@ PUBLIC CUDA::cudart_static CUDA::cublasLt)\n" : "target_link_libraries(@ PUBLIC CUDA::cudart_static)\n");
    fx_cuda_put(e, t, "set_target_properties(@ PROPERTIES CUDA_STANDARD 17 CUDA_STANDARD_REQUIRED ON CUDA_EXTENSIONS OFF)\n"
                      "# Every operation rounds on its own, as in PyTorch; what fuses multiply and add says so.\ntarget_compile_options(@ PRIVATE -fmad=false)\n");
    if (e->opt->golden)
        fx_cuda_put(e, t, "\n# The model on its golden vectors, where a GPU is.\nadd_executable(@_check EXCLUDE_FROM_ALL @_check.cu)\n"
                          "set_target_properties(@_check PROPERTIES CUDA_STANDARD 17 CUDA_STANDARD_REQUIRED ON CUDA_EXTENSIONS OFF)\n"
                          "target_link_libraries(@_check PRIVATE @)\n");
    fx_file *f = fx_emit_file(e, "", t);
    f->name = "CMakeLists.txt";
}

void fx_cuda_build(fx_emit *e)
{
    put_makefile(e);
    put_cmake(e);
}
