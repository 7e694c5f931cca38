/* tests/unit/shell.h: commands that tests run.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#ifndef FXCC_UNIT_SHELL_H
#define FXCC_UNIT_SHELL_H

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* The status of a command; 0 when all went well. */
static int run(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static int run(const char *fmt, ...)
{
    char command[2000];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(command, sizeof command, fmt, ap);
    va_end(ap);
    return system(command);
}

#endif
