/* jit/perf.c: the map that perf looks symbols of code made at run time up in (tools/perf/Documentation/jit-interface.txt in Linux): lines of
 * "START SIZE name", numbers in hexadecimal. It grows only: code that was freed stays in it, and what comes later to its place wins.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "jit/elf.h"
#include "jit/tools.h"

/* At once: other threads, and other compilers in the process, add lines too. */
static bool append(const char *text, size_t size)
{
    char path[64];
    snprintf(path, sizeof path, "/tmp/perf-%ld.map", (long)getpid());
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return false;
    ssize_t n;
    do
        n = write(fd, text, size);
    while (n < 0 && errno == EINTR);
    return close(fd) == 0 && n == (ssize_t)size;
}

bool fx_perf_add(const void *object, size_t size, const char *function, uint64_t address, const char *model)
{
    unsigned char *copy = malloc(size); /* aligned */
    char *text = NULL;
    size_t text_size = 0;
    fx_elf elf;
    if (!copy)
        return false;
    memcpy(copy, object, size);
    const Elf64_Sym *at = fx_elf_read(copy, size, &elf) ? fx_elf_function(&elf, function) : NULL;
    FILE *out = at ? open_memstream(&text, &text_size) : NULL;
    for (size_t i = 0; out && i < elf.n_symbols; i++) {
        const Elf64_Sym *s = &elf.symbols[i];
        const char *name = fx_elf_name(&elf, s);
        if (ELF64_ST_TYPE(s->st_info) == STT_FUNC && s->st_shndx == at->st_shndx && s->st_size && name)
            fprintf(out, "%llx %llx %s.%s\n", (unsigned long long)(address - at->st_value + s->st_value), (unsigned long long)s->st_size, model,
                    strncmp(name, "step.", 5) == 0 ? name + 5 : name);
    }
    bool good = out && fclose(out) == 0 && append(text, text_size);
    free(text);
    free(copy);
    return good;
}
