/* Errors: the last one and its message, sticky ones, and the signals by which a wrong access shows.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "blas.h"

#include <dlfcn.h>
#include <link.h>
#include <mutex>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

namespace fxcu {

static std::recursive_mutex lock;
static int depth;
static bool waited;
static thread_local cudaError_t last = cudaSuccess;
static cudaError_t sticky = cudaSuccess;
static std::string message;
static bool quiet;

entry::entry() {
    lock.lock();
    depth++;
    catch_faults();
    failed = sticky;
}
entry::~entry() {
    if (--depth == 0 && waited) {
        lock_device();
        waited = false;
    }
    lock.unlock();
}

void entry::host_waited() { waited = true; }

std::string format(const char *format, ...) {
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    std::string text(static_cast<size_t>(vsnprintf(nullptr, 0, format, args)), '\0');
    vsnprintf(&text[0], text.size() + 1, format, again);
    va_end(again);
    va_end(args);
    return text;
}

static bool is_sticky(cudaError_t code) {
    return code == cudaErrorIllegalAddress || code == cudaErrorMisalignedAddress || code == cudaErrorLaunchFailure;
}

void keep_message(const char *name, const std::string &text) {
    message = text;
    if (!quiet) {
        fprintf(stderr, "cuda_host: %s: %s\n", name, text.c_str());
    }
}

cudaError_t keep_error(cudaError_t code, const std::string &text) {
    last = code;
    if (is_sticky(code)) {
        sticky = code;
    }
    keep_message(cudaGetErrorName(code), text);
    return code;
}

cudaError_t error(cudaError_t code, const char *format, ...) {
    va_list args;
    va_start(args, format);
    char text[1024];
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return keep_error(code, text);
}

cudaError_t sticky_error() { return sticky; }

void reset_error() {
    last = sticky = cudaSuccess;
    message.clear();
}

/* ---- faults ---- */

std::string source_line(const void *pc) {
    Dl_info info;
    if (!dladdr(pc, &info)) {
        return "";
    }
    /* The call before pc; a program at a fixed address has its addresses whole. */
    const char *base = static_cast<const char *>(info.dli_fbase);
    const bool fixed = reinterpret_cast<const ElfW(Ehdr) *>(base)->e_type == ET_EXEC;
    char command[1024], line[512] = "";
    snprintf(command, sizeof command, "addr2line -s -e '%s' %#zx 2> /dev/null", info.dli_fname,
             static_cast<size_t>(static_cast<const char *>(pc) - (fixed ? nullptr : base)) - 1);
    if (FILE *from = popen(command, "r")) {
        if (!fgets(line, sizeof line, from) || line[0] == '?') {
            line[0] = '\0';
        }
        pclose(from);
    }
    line[strcspn(line, " \n")] = '\0';
    return line[0] ? format(" (%s)", line) : "";
}

static thread_local char *other_stack; /* for faults: one may be an overflow of the stack */
static constexpr size_t other_stack_bytes = 64 << 10;

/* Right after the instruction that faulted, as source_line wants it. */
static const void *fault_pc(void *context) {
    [[maybe_unused]] const mcontext_t &at = static_cast<ucontext_t *>(context)->uc_mcontext;
#if defined __x86_64__
    return reinterpret_cast<const char *>(at.gregs[REG_RIP]) + 1;
#elif defined __aarch64__
    return reinterpret_cast<const char *>(at.pc) + 1;
#else
    return nullptr;
#endif
}

/* Says what lies at an address that was not to be touched, kills the program if no kernel did it, or ends the kernel. */
static void on_fault(int number, siginfo_t *info, void *context) {
    ASAN_UNPOISON_MEMORY_REGION(other_stack, other_stack_bytes); /* a fault before left this stack for good */
    cudaError_t code = cudaErrorIllegalAddress;
    std::string text;
    if (number == SIGFPE) {
        code = cudaErrorLaunchFailure;
        text = "integer division by zero (on a GPU it gives a number without meaning)";
    } else if (number == SIGILL || number == SIGTRAP) {
        code = cudaErrorLaunchFailure;
        text = "the compiler's trap: code that cannot be reached";
    } else if (info->si_code == SI_KERNEL) { /* the processor does not tell the address */
        code = cudaErrorMisalignedAddress;
        text = "a misaligned vector access, or an address that is none";
    } else if (const fibre *guarding = fibre_guarding(info->si_addr)) {
        text = format("the thread's stack of %zu KiB is too small for its local variables", guarding->stack_bytes >> 10);
    } else {
        text = "access to " + describe(info->si_addr);
    }
    text += source_line(fault_pc(context));
    if (in_kernel()) {
        fail(code, std::move(text));
    }
    fprintf(stderr, "cuda_host: host code: %s\n", text.c_str());
    signal(number, SIG_DFL); /* returns to the access, which then ends the program as it would have */
}

/* A sanitizer is about to report: where it happened goes before it. */
static void tell_kernel() {
    if (in_kernel()) {
        fprintf(stderr, "cuda_host: %s:\n", where_running(true).c_str());
    }
}

void catch_faults() {
    if (other_stack) {
        return;
    }
    void *made = mmap(nullptr, other_stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (made == MAP_FAILED) {
        return;
    }
    other_stack = static_cast<char *>(made);
    stack_t stack = {};
    stack.ss_sp = made;
    stack.ss_size = other_stack_bytes;
    sigaltstack(&stack, nullptr);
    struct sigaction action = {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER; /* a kernel that ends leaves the handler for good */
    for (int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP}) {
        sigaction(number, &action, nullptr);
    }
}

} // namespace fxcu

/* The sanitizers' own hooks. */
extern "C" void __asan_on_error();
extern "C" void __asan_on_error() { fxcu::tell_kernel(); }
extern "C" void __ubsan_on_report();
extern "C" void __ubsan_on_report() { fxcu::tell_kernel(); }

using namespace fxcu;

const char *cudaGetErrorName(cudaError_t code) {
    switch (code) {
#define FXCU_ROW(name, value, text)                                                                                                            \
    case name:                                                                                                                                 \
        return #name;
        FXCU_ERRORS(FXCU_ROW)
#undef FXCU_ROW
    }
    return "unrecognized error code";
}

const char *cudaGetErrorString(cudaError_t code) {
    switch (code) {
#define FXCU_ROW(name, value, text)                                                                                                            \
    case name:                                                                                                                                 \
        return text;
        FXCU_ERRORS(FXCU_ROW)
#undef FXCU_ROW
    }
    return "unrecognized error code";
}

cudaError_t cudaPeekAtLastError() {
    entry e;
    return e.failed ? e.failed : last;
}
cudaError_t cudaGetLastError() {
    entry e;
    cudaError_t code = e.failed ? e.failed : last;
    last = cudaSuccess;
    return code;
}

const char *fxcu_message() { return message.c_str(); }
void fxcu_quiet(int yes) { quiet = yes != 0; }

size_t fxcu_alive() { return live_ranges() + live_streams() + live_graphs() + live_blas; }
