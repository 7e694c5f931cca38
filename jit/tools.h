/* jit/tools.h: telling debuggers and profilers of compiled code.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * Both are given an object file, and where one of its functions was put in memory: LLVM's linkers keep a section in one piece. */
#ifndef FXCC_JIT_TOOLS_H
#define FXCC_JIT_TOOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* gdb.c: what gdb (and lldb) is told until it is taken back. NULL: the object has no such function, or there is no memory. */
typedef struct fx_gdb_code fx_gdb_code;
fx_gdb_code *fx_gdb_add(const void *object, size_t size, const char *function, uint64_t address);
void fx_gdb_remove(fx_gdb_code *code); /* NULL is allowed */

/* perf.c: adds the object's functions to /tmp/perf-PID.map, as "MODEL.function". False: it cannot be written. */
bool fx_perf_add(const void *object, size_t size, const char *function, uint64_t address, const char *model);

#endif
