/* What the host's CUDA shares among its files, in the order of a launch's way: API call, stream, launch, block, thread.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#ifndef FXCU_INTERNAL_H
#define FXCU_INTERNAL_H
#include "cuda_runtime.h"

#include <memory>
#include <string>

#ifdef FXCU_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#else
#define ASAN_POISON_MEMORY_REGION(at, bytes) (static_cast<void>(at), static_cast<void>(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(at, bytes) (static_cast<void>(at), static_cast<void>(bytes))
#endif

namespace fxcu {

/* ---- error.cpp ---- */

/* Every API function opens one: it takes the lock, since work runs on one thread at a time. */
class entry {
  public:
    entry();
    ~entry();
    entry(const entry &) = delete;
    entry &operator=(const entry &) = delete;
    void host_waited(); /* the host may look at results now: when the last entry ends, device memory is closed to it */
    cudaError_t failed; /* the sticky error, if there is one */
};

/* Keeps the message and code as the last error, sticky where CUDA's is, and returns the code. */
cudaError_t error(cudaError_t code, const char *format, ...) __attribute__((format(printf, 2, 3)));
void keep_message(const char *name, const std::string &message);
cudaError_t keep_error(cudaError_t code, const std::string &message);
std::string format(const char *format, ...) __attribute__((format(printf, 1, 2)));
cudaError_t sticky_error();
void reset_error();
std::string source_line(const void *pc); /* " (file.cu:7)", as addr2line tells; "" where it cannot */
void catch_faults();                     /* installs the signal handlers, once */

/* ---- device.cpp ---- */

constexpr size_t shared_per_block = 48 << 10;
int current_device();       /* of this thread of the host */
cudaError_t device_error(); /* no device is there, or none that the program has code for */
size_t shared_per_block_optin();
bool fail_this_allocation();
extern fxcu_device device;
extern fxcu_counts counts;

/* ---- memory.cpp ---- */

enum class memory { unknown, device, pinned };
struct range {
    memory kind;
    char *at;
    size_t bytes;
    int number; /* counted from 1, for messages */
    int device;
    bool freed;
    mutable void *shadow; /* race.cpp's, unmapped with the buffer */
    mutable size_t shadow_bytes;
};
const range *find_range(const void *pointer); /* that holds the address, or whose fence does; null: none */
std::string describe(const void *pointer);
void unlock_device();
void lock_device();
cudaError_t check_fences(const char *after);
size_t live_ranges();
void free_ranges();
/* What FXCU_EACH takes back and compares. */
struct snapshot {
    std::vector<std::pair<const range *, std::vector<char>>> parts;
};
void save(snapshot *into, const std::vector<const range *> &only); /* only empty: all of device memory */
void restore(const snapshot &from);
const range *differs(const snapshot &from, size_t *offset);

/* ---- stream.cpp, graph.cpp ---- */

struct node;
using node_ref = std::shared_ptr<node>;
struct node {
    std::function<void()> run;
    std::vector<node_ref> after;
    bool done = false;
};
struct capture;
cudaError_t enqueue(cudaStream_t stream, std::function<void()> run);
cudaError_t check_stream(cudaStream_t stream);
/* For calls that no capture allows (allocation, the host waiting): an error while one is under way. */
cudaError_t refuse_in_capture(const char *call);
cudaError_t drain_all();
void drop_pending();
size_t live_streams();
void free_streams();

struct event_state {
    std::vector<node_ref> after;
    capture *in = nullptr; /* recorded last in this one */
    bool recorded = false;
    bool of_ended_capture = false;
};
struct stream_state {
    std::vector<node_ref> last;     /* what the next piece of work comes after */
    std::vector<node_ref> captured; /* the same, of a capture's nodes */
    unsigned flags = 0;
    int device = -1; /* any: the default stream, which is each device's own */
    capture *in = nullptr;
};
stream_state *state(cudaStream_t stream); /* null: no such stream */
void begin_node(const node_ref &added);   /* puts it among pending work */
std::vector<stream_state *> all_streams();
cudaError_t add_captured(stream_state *stream, std::function<void()> run);
cudaError_t invalidate(capture *in, cudaError_t code, const char *why);
void stream_gone(stream_state *stream);
void forget_capture(capture *ended); /* by streams and events */
size_t live_graphs();
void free_graphs();

/* ---- launch.cpp ---- */

void reset_launch();

/* ---- shared.cpp ---- */

/* The static shared variables that a kernel declares, and those of functions it calls, as they are seen to be used. */
/* launch.cpp: a line in the file that FXCU_TRACE names, of what is put on a stream; nothing where it names none. */
void trace(const char *format, ...) __attribute__((format(printf, 1, 2)));

struct kernel_shared;
kernel_shared *shared_of(const void *kernel);
std::string symbol_of(const void *kernel);           /* as the linker knows it; "?": the program was stripped */
size_t shared_bytes(const kernel_shared *kernel);
bool is_guard(const kernel_shared *kernel, const char *at); /* a compiler's mark beside the variables, no access of the source */
uint64_t shared_moves(const kernel_shared *kernel);  /* changes when the variables lie elsewhere: another thread of the host runs the blocks */
void poison_shared(kernel_shared *kernel, bool all); /* fills them with NaNs; all: those of every kernel, before its first block */
void find_used_shared(kernel_shared *kernel);        /* after that block */
void each_shared(const kernel_shared *kernel, void (*f)(char *at, size_t bytes, const char *name)); /* its own, and those of no kernel */

/* ---- block.cpp ---- */

enum class order { forward, reverse, random, warp, warp_reverse };
extern order current_order;
uint64_t random_number();
void seed_random(uint64_t seed);
/* Runs a block's threads; false: a thread failed, and its error is kept. */
bool run_block(const launch_desc &launch, uint3 index, void *dynamic);
std::string name_thread(int number); /* "thread (1,0,0)" */
int thread_number();                 /* the running thread's */
bool on_own_stack(const void *address);
std::string where_running(bool thread_too); /* "kernel k, block (0,0,0), thread (1,0,0)" */
bool in_kernel();
/* Ends the running block with an error; thread_s: it is the running thread's, and the message names it. */
[[noreturn]] void fail(cudaError_t code, std::string &&message, bool thread_s = true);

/* ---- fibre.cpp ---- */

struct fibre;
using fibre_entry = void (*)(fibre *);
struct fibre {
    void *stack_pointer;
    char *stack; /* lowest address, above its guard page */
    size_t stack_bytes;
    void *fake_stack; /* AddressSanitizer's */
    fibre_entry entry;
    int thread; /* which one it runs */
};
extern fibre main_fibre;
fibre *make_fibre(fibre_entry entry);
void restart_fibre(fibre *f); /* forgets what it was in the midst of */
void switch_fibre(fibre *from, fibre *to);
void find_main_stack(); /* main_fibre is the calling thread */
const fibre *fibre_guarding(const void *address);

/* ---- race.cpp ---- */

/* Told of all that orders accesses, when sources were compiled to tell of the accesses themselves; else null. */
struct race_watch {
    void (*begin_launch)();
    void (*begin_block)(const kernel_shared *kernel, char *dynamic, size_t dynamic_bytes, int threads);
    void (*pass_barrier)();
    void (*sync_warp)(int warp, uint32_t mask);
    void (*note_atomic)(const void *at, size_t bytes, const void *pc);
    void (*fence)(int thread);
};
extern const race_watch *watch;

} // namespace fxcu
#endif
