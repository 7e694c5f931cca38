/* jit/gdb.c: gdb's interface for code made at run time (its manual, "JIT Compilation Interface"; lldb reads the same).
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * The debugger puts a breakpoint into __jit_debug_register_code, and reads __jit_debug_descriptor when it is hit or when it attaches. Both must
 * be globals of these names: the one place of this library where state is global, which the protocol asks for. LLVM has the
 * same, but its C API turns it on in newer versions only. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "jit/elf.h"
#include "jit/tools.h"

struct fx_gdb_code {             /* the protocol's jit_code_entry comes first */
    struct fx_gdb_code *next, *before;
    const char *object;
    uint64_t size;
    uint64_t data[];             /* the object */
};

enum { NOTHING, REGISTERED, UNREGISTERING };

struct jit_descriptor {
    uint32_t version, action;
    fx_gdb_code *relevant, *first;
};

extern struct jit_descriptor __jit_debug_descriptor;
void __jit_debug_register_code(void);

struct jit_descriptor __jit_debug_descriptor = {.version = 1};

__attribute__((noinline)) void __jit_debug_register_code(void)
{
    __asm__ volatile("" ::: "memory"); /* a call of it is never left out */
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void tell(uint32_t action, fx_gdb_code *code)
{
    __jit_debug_descriptor.action = action;
    __jit_debug_descriptor.relevant = code;
    __jit_debug_register_code();
    __jit_debug_descriptor.action = NOTHING;
    __jit_debug_descriptor.relevant = NULL;
}

fx_gdb_code *fx_gdb_add(const void *object, size_t size, const char *function, uint64_t address)
{
    fx_gdb_code *code = malloc(sizeof *code + size);
    fx_elf elf;
    if (!code)
        return NULL;
    memcpy(code->data, object, size);
    const Elf64_Sym *s = fx_elf_read(code->data, size, &elf) ? fx_elf_function(&elf, function) : NULL;
    if (!s) {
        free(code);
        return NULL;
    }
    elf.sections[s->st_shndx].sh_addr = address - s->st_value; /* the debugger relocates by it what tells of the code */
    code->object = (const char *)code->data;
    code->size = size;
    code->before = NULL;
    pthread_mutex_lock(&lock);
    code->next = __jit_debug_descriptor.first;
    if (code->next)
        code->next->before = code;
    __jit_debug_descriptor.first = code;
    tell(REGISTERED, code);
    pthread_mutex_unlock(&lock);
    return code;
}

void fx_gdb_remove(fx_gdb_code *code)
{
    if (!code)
        return;
    pthread_mutex_lock(&lock);
    if (code->before)
        code->before->next = code->next;
    else
        __jit_debug_descriptor.first = code->next;
    if (code->next)
        code->next->before = code->before;
    tell(UNREGISTERING, code);
    pthread_mutex_unlock(&lock);
    free(code);
}
