/* What each access of a kernel does to each byte: races between threads and between blocks, shared memory read before it is written, and
 * accesses outside a buffer, whatever the schedule. For sources compiled with -fsanitize=thread and linked without it: the compiler then calls
 * the functions at the end of this file before every access to memory that others may see.
 *
 * A byte's shadow says who wrote and who read it last. Two accesses by threads of one block are in order when a barrier of the block is between
 * them, or a __syncwarp of both (a vector clock over a warp's lanes; shuffles and votes do not order memory). Accesses by two blocks of a
 * launch are in order by fences and an atomic variable, as CUDA's memory model has it: one thread fences, then changes the variable; another one changes it
 * later, then fences. What the first knew of its block's past when it fenced, it and what it had from barriers, the other one knows from then on, and its block
 * from the next barrier on; not what other blocks had told the first. Atomics conflict with other accesses only. Of several readers in no order, one is remembered, and that there were more.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "internal.h"

#include <algorithm>
#include <unordered_map>
#include <sys/mman.h>

namespace fxcu {
namespace {

constexpr size_t nearby = 64; /* what is so near a shared variable, and nothing known, is meant to be it: constants lie elsewhere */
constexpr int lanes = 32, most_threads = 1024;

struct access {          /* 0: none yet */
    uint64_t block : 28; /* the number of the block's run, from 1 */
    uint64_t thread : 10;
    uint64_t phase : 12; /* how many barriers it had passed */
    uint64_t clock : 12; /* how many __syncwarp of its own */
    uint64_t atomic : 1;
    uint64_t more : 1; /* of a reader: others have read it, too, in no order with this one */
};
struct cell {
    access writer, reader;
};

struct past { /* of a block: all before its barrier number `phase`, and what the thread did before its time `clock` */
    uint64_t block, phase, thread, clock;
};
struct known {
    past what;
    int thread;     /* knows it, */
    unsigned phase; /* and all of the block after this barrier */
};

struct region { /* of shared memory */
    char *at;
    size_t bytes;
    const char *name;
    cell *cells;
};

uint64_t run, first_of_launch; /* numbers of blocks' runs */
unsigned phase;
uint16_t clocks[most_threads][lanes]; /* [thread][lane]: how much of that lane's past the thread knows */
past fenced[most_threads];                                 /* by the thread's last fence */
std::unordered_map<const void *, std::vector<past>> told;  /* in this launch, by atomic variable: what changes of it told */
std::vector<std::pair<int, past>> heard;                   /* by threads that have not fenced since */
std::vector<known> knowledge;                              /* of the block, about others */
std::vector<region> regions;
const kernel_shared *regions_of;
uint64_t regions_moves;

cell *make_cells(size_t bytes) {
    void *map = mmap(nullptr, bytes * sizeof(cell), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED) {
        fail(cudaErrorMemoryAllocation, "the host has no memory to look for races");
    }
    return static_cast<cell *>(map);
}

/* Whether the phase, of which an access has 12 bits, is before another one. */
bool is_before(uint64_t phase, uint64_t other) { return phase != (other & 0xfff) && ((other - phase) & 0xfff) < 0x800; }

bool is_known(const access &a, int t) {
    for (const known &k : knowledge) {
        const bool covers = is_before(a.phase, k.what.phase) || (a.thread == k.what.thread && a.clock < k.what.clock);
        if (a.block == (k.what.block & 0xfffffff) && covers && (k.thread == t || k.phase < phase)) {
            return true;
        }
    }
    return false;
}

/* Whether what a did is known to thread t: its own, or there was a barrier since, or another block told. Shared memory is each block's own. */
bool in_order(const access &a, int t, bool shared) {
    if (a.block != (run & 0xfffffff)) {
        return shared || a.block < (first_of_launch & 0xfffffff) || is_known(a, t); /* an earlier launch, or another block of this one */
    }
    if (static_cast<int>(a.thread) == t || a.phase != (phase & 0xfff)) {
        return true;
    }
    const int other = static_cast<int>(a.thread);
    return other / lanes == t / lanes && clocks[t][other % lanes] > a.clock;
}

struct request {
    const char *at;
    size_t bytes;
    bool write, atomic;
    const void *pc;
};

[[noreturn]] void report_race(const request &r, const std::string &what, const access &other, bool wrote) {
    const bool same_block = other.block == (run & 0xfffffff);
    fail(cudaErrorLaunchFailure, format("race: %s %zu bytes at %s%s, which %s %s%s",
                                        r.atomic  ? "changes"
                                        : r.write ? "writes"
                                                  : "reads",
                                        r.bytes, what.c_str(), source_line(r.pc).c_str(),
                                        same_block ? name_thread(static_cast<int>(other.thread)).c_str() : "another block of this launch",
                                        wrote ? "wrote" : "read", same_block ? " with no barrier between them" : ""));
}

template <class Describe> void note(const request &r, cell *cells, size_t offset, bool shared, Describe describe) {
    const int t = thread_number();
    const access mine = {run & 0xfffffff, static_cast<uint64_t>(t), phase & 0xfff, clocks[t][t % lanes], r.atomic, 0};
    for (size_t i = 0; i < r.bytes; i++) {
        cell &c = cells[offset + i];
        const bool written = c.writer.block != 0;
        if (shared && !r.write && c.writer.block != mine.block) {
            fail(cudaErrorLaunchFailure, format("reads %zu bytes at %s%s, which no thread of this block has written", r.bytes,
                                                describe(i).c_str(), source_line(r.pc).c_str()));
        }
        if (written && !in_order(c.writer, t, shared) && !(r.atomic && c.writer.atomic)) {
            report_race(r, describe(i), c.writer, true);
        }
        if (r.write && c.reader.block != 0 && !(r.atomic && c.reader.atomic)) {
            const bool own = static_cast<int>(c.reader.thread) == t && c.reader.block == mine.block;
            if (!in_order(c.reader, t, shared) || (own && c.reader.more && c.reader.phase == mine.phase && c.reader.clock == mine.clock)) {
                report_race(r, describe(i), c.reader, false);
            }
        }
        if (r.write) {
            c.writer = mine;
        }
        if (!r.write || r.atomic) {
            const bool more = c.reader.block != 0 && (!in_order(c.reader, t, shared) ||
                                                      (c.reader.more && c.reader.phase == mine.phase && c.reader.block == mine.block));
            c.reader = mine;
            c.reader.more = more;
        }
    }
}

/* Where threadIdx, blockDim and the like come from. */
bool is_place(const char *at) {
    const auto in = [at](const auto &one) {
        return at >= reinterpret_cast<const char *>(&one) && at < reinterpret_cast<const char *>(&one + 1);
    };
    return in(here) || in(*here) || in(block_size) || in(grid_size);
}

void check(const request &r) {
    if (!in_kernel() || on_own_stack(r.at) || is_place(r.at)) {
        return;
    }
    for (const region &shared : regions) {
        if (r.at >= shared.at && r.at < shared.at + shared.bytes) {
            const size_t offset = static_cast<size_t>(r.at - shared.at);
            const auto describe = [&](size_t i) { return format("byte %zu of shared memory %s", offset + i, shared.name); };
            if (r.bytes > shared.bytes - offset) {
                fail(cudaErrorIllegalAddress,
                     format("access to %zu bytes at %s of %zu bytes%s", r.bytes, describe(0).c_str(), shared.bytes, source_line(r.pc).c_str()));
            }
            note(r, shared.cells, offset, true, describe);
            return;
        }
    }
    const range *buffer = find_range(r.at);
    if (buffer == nullptr) {
        if (is_guard(regions_of, r.at)) {
            return;
        }
        for (const region &shared : regions) {
            if (r.at + nearby >= shared.at && r.at < shared.at + shared.bytes + nearby) {
                fail(cudaErrorIllegalAddress, format("access to %zu bytes at byte %td of shared memory %s of %zu bytes%s", r.bytes,
                                                     r.at - shared.at, shared.name, shared.bytes, source_line(r.pc).c_str()));
            }
        }
        if (r.write) {
            fail(cudaErrorIllegalAddress,
                 format("writes to %s, nor its own variable%s", fxcu::describe(r.at).c_str(), source_line(r.pc).c_str()));
        }
        return; /* a constant of the program */
    }
    const size_t offset = static_cast<size_t>(r.at - buffer->at);
    if (buffer->freed || r.at < buffer->at || offset > buffer->bytes || r.bytes > buffer->bytes - offset) {
        fail(cudaErrorIllegalAddress, format("access to %zu bytes at %s%s", r.bytes, fxcu::describe(r.at).c_str(), source_line(r.pc).c_str()));
    }
    if (buffer->shadow == nullptr) {
        buffer->shadow = make_cells(buffer->bytes);
        buffer->shadow_bytes = buffer->bytes * sizeof(cell);
    }
    note(r, static_cast<cell *>(buffer->shadow), offset, false,
         [&](size_t i) { return format("byte %zu of device buffer %d", offset + i, buffer->number); });
}

void begin_launch() {
    first_of_launch = run + 1;
    told.clear();
}

void begin_block(const kernel_shared *kernel, char *dynamic, size_t dynamic_bytes, int threads) {
    static cell *dynamic_cells = make_cells(256 << 10);
    run++;
    phase = 0;
    heard.clear();
    knowledge.clear();
    std::fill(&clocks[0][0], &clocks[0][0] + threads * lanes, uint16_t(0));
    if (regions_of != kernel || regions_moves != shared_moves(kernel)) {
        for (region &r : regions) {
            if (r.cells != dynamic_cells) {
                munmap(r.cells, r.bytes * sizeof(cell));
            }
        }
        regions.clear();
        each_shared(kernel, [](char *at, size_t bytes, const char *name) { regions.push_back({at, bytes, name, make_cells(bytes)}); });
        regions.push_back({});
        regions_of = kernel;
        regions_moves = shared_moves(kernel);
    }
    regions.back() = {dynamic, dynamic_bytes, "(dynamic)", dynamic_cells};
}

void pass_barrier() { phase++; }

/* The lanes learn what each of them knows, and begin a new time of their own. */
void sync_warp(int warp, uint32_t mask) {
    uint16_t all[lanes] = {};
    for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
        const int t = warp * lanes + __builtin_ctz(rest);
        clocks[t][t % lanes]++;
        for (int i = 0; i < lanes; i++) {
            all[i] = std::max(all[i], clocks[t][i]);
        }
    }
    for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
        memcpy(clocks[warp * lanes + __builtin_ctz(rest)], all, sizeof all);
    }
}

/* The fence begins a new time of the thread, so that what it does next is told from what it did before. */
void fence(int t) {
    fenced[t] = {run, phase, static_cast<uint64_t>(t), ++clocks[t][t % lanes]};
    const auto mine = [t](const std::pair<int, past> &one) { return one.first == t; };
    for (const auto &one : heard) {
        if (mine(one)) {
            knowledge.push_back({one.second, t, phase});
        }
    }
    heard.erase(std::remove_if(heard.begin(), heard.end(), mine), heard.end());
}

void note_atomic(const void *at, size_t bytes, const void *pc) {
    check({static_cast<const char *>(at), bytes, true, true, pc});
    if (!in_kernel() || find_range(at) == nullptr) { /* a block's shared memory tells other blocks nothing */
        return;
    }
    const int t = thread_number();
    std::vector<past> &all = told[at];
    for (const past &one : all) {
        if (one.block != run) {
            heard.push_back({t, one});
        }
    }
    if (fenced[t].block == run) {
        all.push_back(fenced[t]);
    }
}

const race_watch watching = {begin_launch, begin_block, pass_barrier, sync_warp, note_atomic, fence};

} // namespace
} // namespace fxcu

/* ---- what compilers call ---- */

using fxcu::check;
#define FXCU_ACCESS(name, bytes, write)                                                                                                        \
    extern "C" void name(void *at);                                                                                                            \
    extern "C" void name(void *at) { check({static_cast<const char *>(at), bytes, write, false, __builtin_return_address(0)}); }
#define FXCU_ACCESSES(bytes)                                                                                                                   \
    FXCU_ACCESS(__tsan_read##bytes, bytes, false)                                                                                              \
    FXCU_ACCESS(__tsan_write##bytes, bytes, true)                                                                                              \
    FXCU_ACCESS(__tsan_unaligned_read##bytes, bytes, false)                                                                                    \
    FXCU_ACCESS(__tsan_unaligned_write##bytes, bytes, true)
FXCU_ACCESSES(1)
FXCU_ACCESSES(2)
FXCU_ACCESSES(4)
FXCU_ACCESSES(8)
FXCU_ACCESSES(16)
extern "C" {
void __tsan_init();
void __tsan_func_entry(void *pc);
void __tsan_func_exit();
void __tsan_vptr_update(void **at, void *value);
void __tsan_vptr_read(void **at);
void __tsan_read_range(void *at, size_t bytes);
void __tsan_write_range(void *at, size_t bytes);
void *__tsan_memcpy(void *to, const void *from, size_t bytes);
void *__tsan_memmove(void *to, const void *from, size_t bytes);
void *__tsan_memset(void *to, int value, size_t bytes);
void __tsan_init() { fxcu::watch = &fxcu::watching; } /* called as the program starts, by what was compiled so */
void __tsan_func_entry(void *) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void **, void *) {}
void __tsan_vptr_read(void **) {}
void __tsan_read_range(void *at, size_t bytes) { check({static_cast<const char *>(at), bytes, false, false, __builtin_return_address(0)}); }
void __tsan_write_range(void *at, size_t bytes) { check({static_cast<const char *>(at), bytes, true, false, __builtin_return_address(0)}); }
void *__tsan_memcpy(void *to, const void *from, size_t bytes) {
    __tsan_read_range(const_cast<void *>(from), bytes);
    __tsan_write_range(to, bytes);
    return memcpy(to, from, bytes);
}
void *__tsan_memmove(void *to, const void *from, size_t bytes) {
    __tsan_read_range(const_cast<void *>(from), bytes);
    __tsan_write_range(to, bytes);
    return memmove(to, from, bytes);
}
void *__tsan_memset(void *to, int value, size_t bytes) {
    __tsan_write_range(to, bytes);
    return memset(to, value, bytes);
}
}
