/* jit/elf.h: reading the object files that LLVM makes. Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#ifndef FXCC_JIT_ELF_H
#define FXCC_JIT_ELF_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>

/* An object file of 64 bits in memory, 8-byte aligned, which is not copied. */
typedef struct fx_elf {
    unsigned char *data;
    size_t size, n_sections, n_symbols, names_size;
    Elf64_Shdr *sections;
    const Elf64_Sym *symbols;
    const char *names;
} fx_elf;

/* False: it is none, or damaged. */
bool fx_elf_read(void *data, size_t size, fx_elf *e);
/* The name of a symbol; NULL when it has none. */
const char *fx_elf_name(const fx_elf *e, const Elf64_Sym *s);
/* The function of this name; NULL when there is none. */
const Elf64_Sym *fx_elf_function(const fx_elf *e, const char *name);

#endif
