/* Fibres: a stack each, and a switch that saves what the calling convention keeps. (ucontext's swapcontext asks the kernel for the
 * signal mask at each switch: ten times slower.) AddressSanitizer is told of each switch.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "internal.h"

#include <deque>
#include <pthread.h>
#include <sys/mman.h>

#if !defined __x86_64__ && !defined __aarch64__
#define FXCU_UCONTEXT 1 /* also to be defined by hand, to test it */
#endif
#ifdef FXCU_UCONTEXT
#include <ucontext.h>
#endif

namespace fxcu {

fibre main_fibre;
static std::deque<fibre> all;
static constexpr size_t guard = 64 << 10; /* below a stack */

#if defined FXCU_UCONTEXT
static void fxcu_swap(void **save, void *load);
#elif defined __x86_64__
/* Pushes the registers that a callee keeps, changes stacks, pops the other's. */
extern "C" void fxcu_swap(void **save, void *load);
asm(R"(
.text
.globl fxcu_swap
.hidden fxcu_swap
.type fxcu_swap, @function
fxcu_swap:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    retq
.size fxcu_swap, .-fxcu_swap
)");
static constexpr int saved_words = 6, return_word = 6;
#elif defined __aarch64__
extern "C" void fxcu_swap(void **save, void *load);
asm(R"(
.text
.globl fxcu_swap
.hidden fxcu_swap
.type fxcu_swap, %function
fxcu_swap:
    sub sp, sp, #160
    stp x19, x20, [sp, #0]
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp x29, x30, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x9, sp
    str x9, [x0]
    mov sp, x1
    ldp x19, x20, [sp, #0]
    ldp x21, x22, [sp, #16]
    ldp x23, x24, [sp, #32]
    ldp x25, x26, [sp, #48]
    ldp x27, x28, [sp, #64]
    ldp x29, x30, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    add sp, sp, #160
    ret
.size fxcu_swap, .-fxcu_swap
)");
static constexpr int saved_words = 20, return_word = 11;
#endif

static fibre *starting; /* the fibre that its first switch leads to */

static void start() {
    fibre *f = starting;
#ifdef FXCU_ASAN
    __sanitizer_finish_switch_fiber(nullptr, nullptr, nullptr);
#endif
    f->entry(f);
    __builtin_trap(); /* an entry never returns */
}

#ifndef FXCU_UCONTEXT
void restart_fibre(fibre *f) {
#ifdef FXCU_ASAN
    __asan_unpoison_memory_region(f->stack, f->stack_bytes);
#endif
    /* As fxcu_swap left it: zeros for the registers, start to return to, and zeros above it that end stack traces. Where the return address is
     * pushed, start finds the stack as after a call. */
    void **top = reinterpret_cast<void **>(f->stack + f->stack_bytes) - 2;
    void **frame = top - saved_words - (return_word == saved_words ? 2 : 0);
    memset(frame, 0, static_cast<size_t>(reinterpret_cast<char *>(top + 2) - reinterpret_cast<char *>(frame)));
    frame[return_word] = reinterpret_cast<void *>(&start);
    f->stack_pointer = frame;
    f->fake_stack = nullptr;
}
#else
static void fxcu_swap(void **save, void *load) {
    if (*save == nullptr) {
        *save = new ucontext_t;
    }
    swapcontext(static_cast<ucontext_t *>(*save), static_cast<ucontext_t *>(load));
}
void restart_fibre(fibre *f) {
    ucontext_t *context = f->stack_pointer ? static_cast<ucontext_t *>(f->stack_pointer) : new ucontext_t;
    getcontext(context);
    context->uc_stack.ss_sp = f->stack;
    context->uc_stack.ss_size = f->stack_bytes;
    context->uc_link = nullptr;
    makecontext(context, start, 0);
    f->stack_pointer = context;
    f->fake_stack = nullptr;
}
#endif

fibre *make_fibre(fibre_entry entry) {
#ifdef FXCU_ASAN
    const size_t bytes = 256 << 10;
#else
    const size_t bytes = 64 << 10;
#endif
    void *base = mmap(nullptr, bytes + guard, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED || mprotect(base, guard, PROT_NONE) != 0) {
        return nullptr;
    }
    all.push_back({nullptr, static_cast<char *>(base) + guard, bytes, nullptr, entry, 0});
    restart_fibre(&all.back());
    return &all.back();
}

void switch_fibre(fibre *from, fibre *to) {
    starting = to;
#ifdef FXCU_ASAN
    __sanitizer_start_switch_fiber(&from->fake_stack, to->stack, to->stack_bytes);
#endif
    fxcu_swap(&from->stack_pointer, to->stack_pointer);
#ifdef FXCU_ASAN
    __sanitizer_finish_switch_fiber(from->fake_stack, nullptr, nullptr);
#endif
}

void find_main_stack() {
#ifdef FXCU_ASAN
    static pthread_t known;
    pthread_attr_t attributes;
    void *lowest;
    if (main_fibre.stack && pthread_equal(known, pthread_self())) {
        return;
    }
    known = pthread_self();
    if (pthread_getattr_np(known, &attributes) == 0) {
        pthread_attr_getstack(&attributes, &lowest, &main_fibre.stack_bytes);
        main_fibre.stack = static_cast<char *>(lowest);
        pthread_attr_destroy(&attributes);
    }
#endif
}

const fibre *fibre_guarding(const void *address) {
    const char *at = static_cast<const char *>(address);
    for (const fibre &f : all) {
        if (at < f.stack && at >= f.stack - guard) {
            return &f;
        }
    }
    return nullptr;
}

} // namespace fxcu
