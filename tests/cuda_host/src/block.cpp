/* A block's threads: which runs next, barriers, warp operations, and what is said when they go wrong. A fibre runs one thread after
 * another and is left only by a thread that waits, so a kernel without barriers is a plain loop over its threads.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "internal.h"

#include <algorithm>

namespace fxcu {

place *here;
dim3 block_size, grid_size;
const race_watch *watch;
order current_order = order::forward;

namespace {

constexpr int most_threads = 1024, lanes = 32, most_warps = most_threads / lanes;

enum class waiting { nothing, barrier, warp };
struct thread {
    place at;
    waiting for_what;
    bool done;
    fibre *on; /* null: not started */
    const char *file;
    int line; /* where it waits, or waited last; 0: nowhere yet */
    int kind; /* enum barrier or warp_op */
    unsigned mask;
    uint64_t value, result;
    int argument, width;
};

struct block {
    const launch_desc *launch;
    void *dynamic;
    thread threads[most_threads];
    int size, live, at_barrier;
    uint32_t ready[most_warps]; /* a bit a thread */
    uint32_t alive[most_warps];
    uint32_t at_warp[most_warps]; /* lanes that wait in a warp operation */
    int cursor;                   /* the thread that ran last; -1: begin with the order's first */
    bool failed;
} b;
std::vector<fibre *> idle;
uint64_t random_state = 1;
thread_local bool runs_block; /* this thread of the host: others may be in their own code meanwhile */

const char *const warp_names[] = {"__syncwarp",    "__shfl_sync", "__shfl_up_sync", "__shfl_down_sync", "__shfl_xor_sync",
                                  "__ballot_sync", "__all_sync",  "__any_sync",     "__match_any_sync"};

int warps() { return (b.size + lanes - 1) / lanes; }
void set_ready(int t) { b.ready[t / lanes] |= 1u << (t % lanes); }
int self() { return static_cast<int>(reinterpret_cast<thread *>(here) - b.threads); }

/* ---- which thread runs next ---- */

int ready_upwards(int from) { /* the first ready one at or after from; -1: none */
    for (int w = from / lanes; w < warps(); w++) {
        uint32_t bits = b.ready[w];
        if (w == from / lanes) {
            bits &= ~0u << (from % lanes);
        }
        if (bits != 0) {
            return w * lanes + __builtin_ctz(bits);
        }
    }
    return -1;
}
int ready_downwards(int from) { /* the last ready one at or before from; -1: none */
    for (int w = from / lanes; from >= 0 && w >= 0; w--) {
        uint32_t bits = b.ready[w];
        if (w == from / lanes) {
            bits &= ~0u >> (lanes - 1 - from % lanes);
        }
        if (bits != 0) {
            return w * lanes + lanes - 1 - __builtin_clz(bits);
        }
    }
    return -1;
}

/* Takes the next thread out of the ready ones; -1: none is ready. */
int pick() {
    int next = -1;
    const int last = b.cursor;
    switch (current_order) {
    case order::forward:
        next = last + 1 < b.size ? ready_upwards(last + 1) : -1;
        next = next < 0 ? ready_upwards(0) : next;
        break;
    case order::reverse:
        next = last > 0 ? ready_downwards(last - 1) : -1;
        next = next < 0 ? ready_downwards(b.size - 1) : next;
        break;
    case order::random:
        next = ready_upwards(static_cast<int>(random_number() % static_cast<uint64_t>(b.size)));
        next = next < 0 ? ready_upwards(0) : next;
        break;
    case order::warp: /* this warp as long as it can, then the next */
        next = last < 0 ? -1 : ready_upwards(last / lanes * lanes);
        next = next < 0 ? ready_upwards(0) : next;
        break;
    case order::warp_reverse:
        next = last < 0 ? -1 : ready_downwards(std::min(last / lanes * lanes + lanes, b.size) - 1);
        next = next < 0 ? ready_downwards(b.size - 1) : next;
        break;
    }
    if (next >= 0) {
        b.ready[next / lanes] &= ~(1u << (next % lanes));
        b.cursor = next;
    }
    return next;
}

/* ---- threads on fibres ---- */

void finish(int t);
[[noreturn]] void fail_stuck();

void run_fibre(fibre *f) {
    for (;;) {
        const int t = f->thread;
        b.threads[t].on = f;
        here = &b.threads[t].at;
        b.launch->body();
        finish(t);
        const int next = pick();
        if (next < 0 && b.live > 0) {
            fail_stuck();
        }
        if (next >= 0 && b.threads[next].on == nullptr) {
            f->thread = next;
            continue;
        }
        idle.push_back(f);
        switch_fibre(f, next < 0 ? &main_fibre : b.threads[next].on);
    }
}

/* The fibre that runs thread t, which it starts if need be. */
fibre *fibre_of(int t) {
    if (b.threads[t].on != nullptr) {
        return b.threads[t].on;
    }
    fibre *f;
    if (idle.empty()) {
        f = make_fibre(run_fibre);
        if (f == nullptr) {
            fail(cudaErrorMemoryAllocation, "the host has no memory for one more thread's stack");
        }
    } else {
        f = idle.back();
        idle.pop_back();
    }
    f->thread = t;
    return f;
}

/* Lets others run until this thread is ready again and its turn comes. */
void give_way() {
    place *const me = here;
    const int t = self();
    const int next = pick();
    if (next < 0) {
        fail_stuck();
    }
    if (next != t) {
        counts.switches++;
        switch_fibre(b.threads[t].on, fibre_of(next));
        here = me;
    }
}

/* ---- barriers ---- */

/* All threads wait at one: they go on together. */
void open_barrier() {
    const thread &first = b.threads[0];
    int sum = 0;
    for (int t = 0; t < b.size; t++) {
        const thread &other = b.threads[t];
        if (other.line != first.line || other.kind != first.kind || (other.file != first.file && strcmp(other.file, first.file) != 0)) {
            fail_stuck();
        }
        sum += other.value != 0;
    }
    const barrier kind = static_cast<barrier>(first.kind);
    const int result = kind == barrier::count ? sum : kind == barrier::all ? sum == b.size : kind == barrier::any ? sum > 0 : 0;
    for (int t = 0; t < b.size; t++) {
        b.threads[t].result = static_cast<uint64_t>(result);
        b.threads[t].for_what = waiting::nothing;
        set_ready(t);
    }
    b.at_barrier = 0;
    b.cursor = -1;
    if (watch) {
        watch->pass_barrier();
    }
}

/* ---- warp operations ---- */

/* Which lane a shuffle reads: CUDA's rules, segment by segment; past a segment's end a lane reads itself. */
int source_lane(const thread &t, int lane) {
    const int begin = lane / t.width * t.width, end = begin + t.width;
    int from = lane;
    switch (static_cast<warp_op>(t.kind)) {
    case warp_op::shuffle:
        return begin + static_cast<int>(static_cast<unsigned>(t.argument) % static_cast<unsigned>(t.width));
    case warp_op::shuffle_up:
        from = lane - t.argument;
        return from < begin ? lane : from;
    case warp_op::shuffle_down:
        from = lane + t.argument;
        return from >= end ? lane : from;
    case warp_op::shuffle_xor:
        from = lane ^ t.argument;
        return from < 0 || from >= end ? lane : from;
    default:
        return lane;
    }
}

/* The lanes among those taking part for which f holds. */
template <class F> uint32_t lanes_where(uint32_t taking_part, F f) {
    uint32_t where = 0;
    for (uint32_t rest = taking_part; rest != 0; rest &= rest - 1) {
        const int lane = __builtin_ctz(rest);
        where |= f(lane) ? 1u << lane : 0;
    }
    return where;
}

uint64_t warp_result(const thread *warp, int lane, uint32_t taking_part) {
    const thread &t = warp[lane];
    const auto is_set = [warp](int other) { return warp[other].value != 0; };
    switch (static_cast<warp_op>(t.kind)) {
    case warp_op::sync:
        return 0;
    case warp_op::ballot:
        return lanes_where(taking_part, is_set);
    case warp_op::all:
        return lanes_where(taking_part, is_set) == taking_part;
    case warp_op::any:
        return lanes_where(taking_part, is_set) != 0;
    case warp_op::match:
        return lanes_where(taking_part, [warp, &t](int other) { return warp[other].value == t.value; });
    default:
        break;
    }
    const int from = source_lane(t, lane);
    if (!(taking_part >> from & 1u)) {
        fail(cudaErrorLaunchFailure,
             format("%s at %s:%d: lane %d reads inactive lane %d, which %s (mask 0x%08x)", warp_names[t.kind], t.file, t.line, lane, from,
                    t.mask >> from & 1u ? "has finished or does not exist" : "is not in the mask", t.mask));
    }
    return warp[from].value;
}

/* Two lanes of a warp that wait for each other have to agree on the mask, and on the operation. */
void check_agreement(int t, int o) {
    const thread &mine = b.threads[t], &other = b.threads[o];
    if (!(mine.mask >> (o % lanes) & 1u) || !(other.mask >> (t % lanes) & 1u)) {
        return;
    }
    if (mine.mask != other.mask) {
        fail(cudaErrorLaunchFailure, format("differing masks: lane %d waits at %s:%d with mask 0x%08x, lane %d at %s:%d with mask 0x%08x",
                                            t % lanes, mine.file, mine.line, mine.mask, o % lanes, other.file, other.line, other.mask));
    }
    if (mine.kind != other.kind || mine.line != other.line) {
        fail(cudaErrorLaunchFailure,
             format("divergent warp: lane %d is at %s of %s:%d, lane %d at %s of %s:%d", t % lanes, warp_names[mine.kind], mine.file, mine.line,
                    o % lanes, warp_names[other.kind], other.file, other.line));
    }
}

/* If all that thread t waits for are there, gives them their results; says whether it did. */
bool complete_warp(int t) {
    const int w = t / lanes;
    thread *const warp = b.threads + w * lanes;
    const thread &mine = b.threads[t];
    const uint32_t needed = mine.mask & b.alive[w];
    if (needed & ~b.at_warp[w]) {
        return false;
    }
    bool together = true;
    for (uint32_t rest = needed; rest != 0; rest &= rest - 1) {
        const int lane = __builtin_ctz(rest);
        check_agreement(t, w * lanes + lane);
        together &= warp[lane].mask == mine.mask; /* or it is in an operation of its own, which has to come to its end first */
    }
    if (!together) {
        return false;
    }
    for (uint32_t rest = needed; rest != 0; rest &= rest - 1) {
        const int lane = __builtin_ctz(rest);
        warp[lane].result = warp_result(warp, lane, needed);
    }
    for (uint32_t rest = needed; rest != 0; rest &= rest - 1) {
        b.threads[w * lanes + __builtin_ctz(rest)].for_what = waiting::nothing;
    }
    if (watch && static_cast<warp_op>(mine.kind) == warp_op::sync) {
        watch->sync_warp(w, needed);
    }
    b.ready[w] |= needed;
    b.at_warp[w] &= ~needed;
    return true;
}

void finish(int t) {
    b.threads[t].done = true;
    b.live--;
    counts.threads++;
    const int w = t / lanes;
    b.alive[w] &= ~(1u << (t % lanes));
    if (b.live > 0 && b.at_barrier == b.live) {
        fail_stuck(); /* the others wait at a barrier that this one has passed by */
    }
    for (uint32_t rest = b.at_warp[w]; rest != 0; rest &= rest - 1) { /* who waits for this one, too, need not any more */
        const int other = w * lanes + __builtin_ctz(rest);
        if (b.threads[other].for_what == waiting::warp) {
            complete_warp(other);
        }
    }
}

/* No thread can go on: who waits where. */
[[noreturn]] void fail_stuck() {
    for (int t = 0; t < b.size; t++) {
        for (int o = t / lanes * lanes; o < t; o++) {
            if (b.threads[t].for_what == waiting::warp && b.threads[o].for_what == waiting::warp) {
                check_agreement(t, o);
            }
        }
    }
    std::string text;
    bool told[most_threads] = {}, barriers = false;
    int finished = 0;
    for (int t = 0; t < b.size; t++) {
        const thread &one = b.threads[t];
        finished += one.done;
        if (one.done || told[t] || one.for_what == waiting::nothing) {
            continue;
        }
        int many = 0;
        for (int o = t; o < b.size; o++) {
            const thread &other = b.threads[o];
            if (!other.done && other.for_what == one.for_what && other.kind == one.kind && other.line == one.line) {
                told[o] = true;
                many++;
            }
        }
        const bool at_barrier = one.for_what == waiting::barrier;
        barriers |= at_barrier;
        text += format("%s%d of %d threads wait at %s of %s:%d, %s first", text.empty() ? "" : "; ", many, b.size,
                       at_barrier ? "the barrier" : warp_names[one.kind], one.file, one.line, name_thread(t).c_str());
        if (!at_barrier) {
            text += format(" (mask 0x%08x)", one.mask);
        }
    }
    if (finished > 0) {
        text += format("; %d have finished", finished);
    }
    text.insert(0, barriers ? "divergent barrier: " : "divergent warp: ");
    fail(cudaErrorLaunchFailure, std::move(text), false);
}

} // namespace

/* ---- what a kernel calls ---- */

int block_barrier(barrier kind, int value, const char *file, int line) {
    thread &me = b.threads[self()];
    me.for_what = waiting::barrier;
    me.kind = static_cast<int>(kind);
    me.value = static_cast<uint64_t>(value != 0);
    me.file = file;
    me.line = line;
    b.at_barrier++;
    if (b.at_barrier == b.live) {
        if (b.live < b.size) {
            fail_stuck();
        }
        open_barrier();
    }
    give_way();
    return static_cast<int>(me.result);
}

uint64_t warp(warp_op op, unsigned mask, uint64_t value, int argument, int width, const char *file, int line) {
    const int t = self();
    thread &me = b.threads[t];
    me.file = file;
    me.line = line;
    me.kind = static_cast<int>(op);
    if (!(mask >> (t % lanes) & 1u)) {
        fail(cudaErrorLaunchFailure,
             format("%s at %s:%d: lane %d is not in its own mask 0x%08x", warp_names[me.kind], file, line, t % lanes, mask));
    }
    if (width < 1 || width > lanes || (width & (width - 1)) != 0) {
        fail(cudaErrorLaunchFailure, format("%s at %s:%d: width %d is no power of two up to 32", warp_names[me.kind], file, line, width));
    }
    me.for_what = waiting::warp;
    me.mask = mask;
    me.value = value;
    me.argument = argument;
    me.width = width;
    b.at_warp[t / lanes] |= 1u << (t % lanes);
    if (complete_warp(t)) {
        b.ready[t / lanes] &= ~(1u << (t % lanes)); /* the last to come goes on at once */
    } else {
        give_way();
    }
    return me.result;
}

/* Any set of lanes that holds the caller's is a legal answer; this one shows who relies on more. */
unsigned active_mask() { return 1u << (self() % lanes); }

void atomic_begin(const void *address, size_t bytes) {
    if (watch) {
        watch->note_atomic(address, bytes, __builtin_return_address(0));
    }
}

void fence() {
    if (watch) {
        watch->fence(self());
    }
}

void atomic_pause() {
    if (here != nullptr && current_order == order::random && random_number() % 4 == 0) {
        set_ready(self());
        give_way();
    }
}

void trap(const char *what, const char *file, int line) { fail(cudaErrorLaunchFailure, format("%s at %s:%d", what, file, line)); }

void *dynamic_shared() { return b.dynamic; }

/* ---- what a launch and the watch for races call ---- */

std::string name_thread(int t) {
    const uint3 &at = b.threads[t].at.thread;
    return format("thread (%u,%u,%u)", at.x, at.y, at.z);
}
int thread_number() { return self(); }
bool on_own_stack(const void *address) {
    const fibre *f = b.threads[self()].on;
    return address >= f->stack && address < f->stack + f->stack_bytes;
}

uint64_t random_number() { /* xorshift64* */
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return random_state * 0x2545f4914f6cdd1du >> 16;
}
void seed_random(uint64_t seed) { random_state = seed * 0x9e3779b97f4a7c15u | 1u; }

bool in_kernel() { return runs_block && here != nullptr; }

std::string where_running(bool thread_too) {
    const thread &t = b.threads[self()];
    const uint3 &block = t.at.block;
    const std::string text = format("kernel %s, block (%u,%u,%u)", b.launch->name, block.x, block.y, block.z);
    return thread_too ? text + ", " + name_thread(self()) : text;
}

void fail(cudaError_t code, std::string &&message, bool thread_s) {
    const thread &t = b.threads[self()];
    message.insert(0, where_running(thread_s) + ": ");
    if (thread_s && t.line > 0 && message.find(format("%s:%d", t.file, t.line)) == std::string::npos) {
        message += format(" (after %s:%d)", t.file, t.line); /* the last barrier or warp operation */
    }
    keep_error(code, message + format(" [launched at %s:%d]", b.launch->file, b.launch->line));
    std::string().swap(message); /* nothing on this stack is destroyed any more */
    b.failed = true;
    here = nullptr;
    switch_fibre(t.on, &main_fibre);
    __builtin_unreachable();
}

bool run_block(const launch_desc &launch, uint3 index, void *dynamic) {
    const dim3 size = launch.block;
    b.launch = &launch;
    b.dynamic = dynamic;
    b.size = b.live = static_cast<int>(size.x * size.y * size.z);
    b.at_barrier = 0;
    b.cursor = -1;
    b.failed = false;
    int t = 0;
    for (unsigned z = 0; z < size.z; z++) {
        for (unsigned y = 0; y < size.y; y++) {
            for (unsigned x = 0; x < size.x; x++, t++) {
                thread &one = b.threads[t];
                one.at = {{x, y, z}, index};
                one.for_what = waiting::nothing;
                one.done = false;
                one.on = nullptr;
                one.line = 0;
            }
        }
    }
    for (int w = 0; w < warps(); w++) {
        b.at_warp[w] = 0;
        b.ready[w] = b.alive[w] = b.size - w * lanes >= lanes ? ~0u : (1u << (b.size - w * lanes)) - 1;
    }
    block_size = size;
    grid_size = launch.grid;
    find_main_stack();
    here = &b.threads[0].at; /* for an error of the first fibre's making */
    runs_block = true;
    switch_fibre(&main_fibre, fibre_of(pick()));
    runs_block = false;
    here = nullptr;
    if (b.failed) {
        for (t = 0; t < b.size; t++) {
            if (b.threads[t].on != nullptr && !b.threads[t].done) {
                restart_fibre(b.threads[t].on);
                idle.push_back(b.threads[t].on);
            }
        }
    }
    counts.blocks++;
    return !b.failed;
}

} // namespace fxcu
