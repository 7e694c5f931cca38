/* codegen/c_build.c: the Makefile and the CMakeLists.txt beside the emitted sources.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "codegen/emit.h"

static bool has_weights_source(const fx_emit *e)
{
    return e->weights != FX_WEIGHTS_BIN;
}

static void put_makefile(fx_emit *e)
{
    const char *n = e->prefix;
    fx_text text, *t = &text;
    fx_text_init(t, e->arena);
    fx_printf(t, "# Builds lib%s.a from the sources beside this file. Made by fxcc.\n#\n"
                 "#   make [CC=gcc] [AR=ar] [CFLAGS=-O3] [OPENMP=-fopenmp]\n", n);
    if (e->opt->golden)
        fx_printf(t, "#   make check [RUN=qemu-aarch64]    runs the model on its golden vectors\n");
    fx_printf(t, "#   make stack                         stack of each function, the largest first (gcc, clang)\n\n");
    fx_puts(t, "CFLAGS ?= -O3\nOPENMP ?=\nRUN ?=\nAR ?= ar\n");
    fx_puts(t, "TARGET_FLAGS = -std=c99");
    if (e->p->target.cflags && *e->p->target.cflags) {
        fx_puts(t, " ");
        fx_put_comment(t, e->p->target.cflags, 200);
    }
    fx_puts(t, "\n");
    if (e->opt->link_runtime)
        fx_puts(t, "FXRT_CFLAGS ?= `pkg-config --cflags fxrt`\nFXRT_LIBS ?= `pkg-config --libs fxrt`\n");
    const char *rt = e->opt->link_runtime ? " $(FXRT_CFLAGS)" : "";
    fx_printf(t, "COMPILE = $(CC) $(TARGET_FLAGS) $(CFLAGS) $(OPENMP)%s -I.\n\n", rt);
    fx_printf(t, "lib%s.a: %s.o%s\n\trm -f $@\n\t$(AR) rcs $@ %s.o%s\n\n", n, n, has_weights_source(e) ? fx_arena_printf(e->arena, " %s_weights.o", n) : "",
              n, has_weights_source(e) ? fx_arena_printf(e->arena, " %s_weights.o", n) : "");
    fx_printf(t, "%s.o: %s.c %s.h\n\t$(COMPILE) -c %s.c -o $@\n\n", n, n, n, n);
    if (has_weights_source(e))
        fx_printf(t, "%s_weights.o: %s_weights.c %s.h%s\n\t$(COMPILE) -c %s_weights.c -o $@\n\n", n, n, n,
                  e->weights == FX_WEIGHTS_INCBIN ? fx_arena_printf(e->arena, " %s.bin", n) : "", n);
    if (e->opt->golden) {
        fx_printf(t, "%s_check: %s_check.c %s.h lib%s.a\n\t$(COMPILE) $(CHECK_FLAGS) %s_check.c lib%s.a $(LDFLAGS) -o $@%s -lm\n\n", n, n, n, n, n, n,
                  e->opt->link_runtime ? " $(FXRT_LIBS)" : "");
        fx_printf(t, "check: %s_check\n\t$(RUN) ./%s_check\n\n", n, n);
    }
    fx_printf(t, "stack: %s.c %s.h\n\t$(COMPILE) -fstack-usage -c %s.c -o %s_stack.o\n\tsort -t '\t' -k 2,2nr %s_stack.su\n\n", n, n, n, n, n);
    fx_printf(t, "clean:\n\trm -f lib%s.a %s.o %s_weights.o %s_check %s_stack.o %s_stack.su\n\n.PHONY: check stack clean\n", n, n, n, n, n, n);
    fx_file *f = fx_emit_file(e, "", t);
    f->name = "Makefile";
}

static void put_cmake(fx_emit *e)
{
    const char *n = e->prefix, *N = e->PREFIX;
    fx_text text, *t = &text;
    fx_text_init(t, e->arena);
    fx_printf(t, "# The library %s from the sources beside this file: build it here, or add_subdirectory() this folder and link to %s.\n# Made by fxcc.\n", n, n);
    fx_printf(t, "cmake_minimum_required(VERSION 3.16)\nproject(%s C)\n\n", n);
    fx_printf(t, "option(%s_OPENMP \"spread %s_run over threads by OpenMP\" OFF)\n", N, n);
    fx_puts(t, "if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES AND CMAKE_SOURCE_DIR STREQUAL CMAKE_CURRENT_SOURCE_DIR)\n"
               "  set(CMAKE_BUILD_TYPE Release)\nendif()\n\n");
    fx_printf(t, "add_library(%s STATIC %s.c%s)\n", n, n, has_weights_source(e) ? fx_arena_printf(e->arena, " %s_weights.c", n) : "");
    fx_printf(t, "target_include_directories(%s PUBLIC ${CMAKE_CURRENT_SOURCE_DIR})\n", n);
    fx_printf(t, "set_target_properties(%s PROPERTIES C_STANDARD 99 C_STANDARD_REQUIRED ON C_EXTENSIONS OFF)\n", n);
    if (e->p->target.cflags && *e->p->target.cflags) {
        fx_printf(t, "target_compile_options(%s PRIVATE ", n);
        fx_put_comment(t, e->p->target.cflags, 200);
        fx_puts(t, ")\n");
    }
    if (e->weights == FX_WEIGHTS_INCBIN)
        fx_printf(t, "set_source_files_properties(%s_weights.c PROPERTIES OBJECT_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/%s.bin)\n"
                     "target_compile_definitions(%s PRIVATE %s_WEIGHTS_FILE=\"${CMAKE_CURRENT_SOURCE_DIR}/%s.bin\")\n", n, n, n, N, n);
    if (e->opt->link_runtime)
        fx_printf(t, "if(NOT TARGET fxcc::fxrt)\n  find_package(fxcc REQUIRED)\nendif()\ntarget_link_libraries(%s PUBLIC fxcc::fxrt)\n", n);
    fx_printf(t, "if(%s_OPENMP)\n  find_package(OpenMP REQUIRED COMPONENTS C)\n  target_link_libraries(%s PUBLIC OpenMP::OpenMP_C)\nendif()\n", N, n);
    fx_printf(t, "find_library(%s_LIBM m)\nif(%s_LIBM)\n  target_link_libraries(%s PUBLIC m)\nendif()\n", N, N, n);
    if (e->opt->golden)
        fx_printf(t, "\n# The model on its golden vectors.\nadd_executable(%s_check EXCLUDE_FROM_ALL %s_check.c)\n"
                     "set_target_properties(%s_check PROPERTIES C_STANDARD 99 C_STANDARD_REQUIRED ON C_EXTENSIONS OFF)\n"
                     "target_link_libraries(%s_check PRIVATE %s)\n", n, n, n, n, n);
    fx_file *f = fx_emit_file(e, "", t);
    f->name = "CMakeLists.txt";
}

fx_status fx_c_build(fx_emit *e)
{
    put_makefile(e);
    put_cmake(e);
    return FX_OK;
}
