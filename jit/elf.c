/* jit/elf.c: reading the object files that LLVM makes. Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "jit/elf.h"

#include <string.h>

static bool within(const fx_elf *e, uint64_t at, uint64_t size)
{
    return at <= e->size && size <= e->size - at;
}

bool fx_elf_read(void *data, size_t size, fx_elf *e)
{
    *e = (fx_elf){.data = data, .size = size};
    const Elf64_Ehdr *h = data;
    if (size < sizeof *h || memcmp(h->e_ident, ELFMAG, SELFMAG) != 0 || h->e_ident[EI_CLASS] != ELFCLASS64 || h->e_type != ET_REL ||
        h->e_shentsize != sizeof(Elf64_Shdr) || h->e_shoff % 8 || !within(e, h->e_shoff, (uint64_t)h->e_shnum * sizeof(Elf64_Shdr)))
        return false;
    e->sections = (Elf64_Shdr *)(void *)(e->data + h->e_shoff);
    e->n_sections = h->e_shnum;
    for (size_t i = 0; i < e->n_sections; i++) {
        const Elf64_Shdr *s = &e->sections[i], *names = &e->sections[s->sh_link < e->n_sections ? s->sh_link : 0];
        if (s->sh_type != SHT_SYMTAB || s->sh_offset % 8 || !within(e, s->sh_offset, s->sh_size) || !within(e, names->sh_offset, names->sh_size) ||
            !names->sh_size || e->data[names->sh_offset + names->sh_size - 1])
            continue;
        e->symbols = (const Elf64_Sym *)(const void *)(e->data + s->sh_offset);
        e->n_symbols = s->sh_size / sizeof(Elf64_Sym);
        e->names = (const char *)e->data + names->sh_offset;
        e->names_size = names->sh_size;
        return true;
    }
    return false;
}

const char *fx_elf_name(const fx_elf *e, const Elf64_Sym *s)
{
    return s->st_name && s->st_name < e->names_size ? e->names + s->st_name : NULL;
}

const Elf64_Sym *fx_elf_function(const fx_elf *e, const char *name)
{
    for (size_t i = 0; i < e->n_symbols; i++) {
        const Elf64_Sym *s = &e->symbols[i];
        const char *own = fx_elf_name(e, s);
        if (ELF64_ST_TYPE(s->st_info) == STT_FUNC && s->st_shndx < e->n_sections && own && strcmp(own, name) == 0)
            return s;
    }
    return NULL;
}
