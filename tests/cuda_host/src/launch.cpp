/* Launches: what CUDA would refuse, where the arguments point, and a grid's blocks in the schedule's order.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "internal.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <numeric>
#include <sys/mman.h>
#include <unistd.h>

namespace fxcu {

static std::map<const void *, size_t> most_dynamic; /* by cudaFuncSetAttribute */
static fxcu_schedule schedule = FXCU_FORWARD;
static uint64_t schedule_seed = 1;

void reset_launch() { most_dynamic.clear(); }

/* ---- schedules ---- */

static const struct {
    order threads;
    uint64_t seed;
    const char *name;
} schedules[FXCU_SCHEDULES] = {
    {order::forward, 1, "forward"}, {order::reverse, 1, "reverse"}, {order::random, 1, "random 1"},           {order::random, 2, "random 2"},
    {order::random, 3, "random 3"}, {order::warp, 1, "warp"},       {order::warp_reverse, 1, "warp reverse"},
};

static void use_schedule(int number) {
    current_order = schedules[number].threads;
    seed_random(schedules[number].seed);
}

/* ---- checks ---- */

static bool is_mapped(const void *pointer) {
    const uintptr_t page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
    unsigned char resident;
    return mincore(reinterpret_cast<void *>(reinterpret_cast<uintptr_t>(pointer) & ~(page - 1)), 1, &resident) == 0;
}

/* A pointer may be null, or point into (or right past) a live buffer. A word of a structure is wrong only where it is the address of memory of
 * the host or of a freed buffer: a number hardly ever is. */
static cudaError_t check_argument(const launch_desc &d, const argument &a) {
    const range *r = find_range(a.pointer);
    const char *at = static_cast<const char *>(a.pointer);
    const bool inside = r && !r->freed && at >= r->at && at <= r->at + r->bytes;
    if (inside && r->kind == memory::device && r->device != current_device()) {
        return error(cudaErrorIllegalAddress, "kernel %s: argument %d is of device %d, the kernel runs on device %d [launched at %s:%d]", d.name,
                     a.number, r->device, current_device(), d.file, d.line);
    }
    if (a.pointer == nullptr || inside) {
        return cudaSuccess;
    }
    if (!a.certain) {
        const uintptr_t word = reinterpret_cast<uintptr_t>(at); /* the heap, stacks and libraries lie high */
#ifdef FXCU_ASAN
        constexpr int low = 45; /* below: its shadow */
#else
        constexpr int low = 36;
#endif
        if (r ? !r->freed : word >> low == 0 || word >> 48 != 0 || !is_mapped(at)) {
            return cudaSuccess;
        }
    }
    return error(cudaErrorIllegalAddress, "kernel %s: argument %d%s is %s%s [launched at %s:%d]", d.name, a.number,
                 a.certain ? "" : " holds a pointer that", describe(at).c_str(), r ? "" : ": a host pointer", d.file, d.line);
}

static cudaError_t check_launch(const launch_desc &d) {
    const dim3 &g = d.grid, &t = d.block;
    if (t.x == 0 || t.y == 0 || t.z == 0 || t.x > 1024 || t.y > 1024 || t.z > 64 || uint64_t(t.x) * t.y * t.z > 1024) {
        return error(
            cudaErrorInvalidConfiguration,
            "kernel %s: a block of (%u,%u,%u) threads, where 1024 in all and 64 in z are the most, and 1 the least [launched at %s:%d]", d.name,
            t.x, t.y, t.z, d.file, d.line);
    }
    if (g.x == 0 || g.y == 0 || g.z == 0 || g.x > 0x7fffffff || g.y > 65535 || g.z > 65535) {
        return error(cudaErrorInvalidConfiguration,
                     "kernel %s: a grid of (%u,%u,%u) blocks, where (2147483647,65535,65535) is the most, and 1 the least [launched at %s:%d]",
                     d.name, g.x, g.y, g.z, d.file, d.line);
    }
    const size_t fixed = shared_bytes(shared_of(d.kernel));
    auto raised = most_dynamic.find(d.kernel);
    const size_t most = std::max(shared_per_block, raised == most_dynamic.end() ? 0 : raised->second + fixed);
    if (fixed + d.dynamic_bytes > most) {
        return error(cudaErrorInvalidValue,
                     "kernel %s: %zu bytes of static and %zu of dynamic shared memory, where %zu are the most%s [launched at %s:%d]", d.name,
                     fixed, d.dynamic_bytes, most, raised == most_dynamic.end() ? " without cudaFuncSetAttribute" : "", d.file, d.line);
    }
    for (const argument &a : d.arguments) {
        if (cudaError_t failed = check_argument(d, a)) {
            return failed;
        }
    }
    return cudaSuccess;
}

/* ---- running ---- */

/* Dynamic shared memory: ends right before pages that nobody may touch. */
static char *dynamic_memory(size_t bytes) {
    constexpr size_t most = 256 << 10, guard = 64 << 10;
    static char *map;
    if (map == nullptr) {
        void *made = mmap(nullptr, most + 2 * guard, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (made == MAP_FAILED || mprotect(static_cast<char *>(made) + guard, most, PROT_READ | PROT_WRITE) != 0) {
            return nullptr;
        }
        map = static_cast<char *>(made);
    }
    char *end = map + guard + most, *at = end - (bytes + 15) / 16 * 16;
    ASAN_POISON_MEMORY_REGION(map + guard, most);
    ASAN_UNPOISON_MEMORY_REGION(at, bytes);
    return at;
}

/* The blocks in the schedule's order; by chance: i -> i * step + first, a permutation, as step has no divisor in common with their number. */
static bool run_grid(const launch_desc &d) {
    const uint64_t many = uint64_t(d.grid.x) * d.grid.y * d.grid.z;
    kernel_shared *shared = shared_of(d.kernel);
    char *dynamic = dynamic_memory(d.dynamic_bytes);
    uint64_t step = 1, first = 0;
    if (current_order == order::random) {
        first = random_number() % many;
        do {
            step = random_number() % many + 1;
        } while (std::gcd(step, many) != 1);
    }
    const bool downwards = current_order == order::reverse || current_order == order::warp_reverse;
    for (uint64_t i = 0; i < many; i++) {
        const uint64_t n = downwards ? many - 1 - i : static_cast<uint64_t>((static_cast<fxcu_u128>(i) * step + first) % many);
        const uint3 index = {static_cast<unsigned>(n % d.grid.x), static_cast<unsigned>(n / d.grid.x % d.grid.y),
                             static_cast<unsigned>(n / d.grid.x / d.grid.y)};
        if (watch && i == 0) {
            watch->begin_launch();
        }
        if (watch) {
            watch->begin_block(shared, dynamic, d.dynamic_bytes, static_cast<int>(d.block.x * d.block.y * d.block.z));
        }
        poison_shared(shared, i == 0);
        memset(dynamic, 0xff, d.dynamic_bytes);
        if (!run_block(d, index, dynamic)) {
            return false;
        }
        if (i == 0) {
            find_used_shared(shared);
        }
    }
    counts.launches++;
    return check_fences(format("kernel %s [launched at %s:%d]", d.name, d.file, d.line).c_str()) == cudaSuccess;
}

/* Under every schedule from the same memory; what differs depends on an order that CUDA does not promise. */
static void run_each(const launch_desc &d) {
    std::vector<const range *> written;
    for (const argument &a : d.arguments) {
        const range *r = find_range(a.pointer);
        if (a.writable && r && std::find(written.begin(), written.end(), r) == written.end()) {
            written.push_back(r);
        }
    }
    if (written.empty()) {
        run_grid(d);
        return;
    }
    snapshot before, result;
    save(&before, written);
    for (int i = 0; i < FXCU_SCHEDULES; i++) {
        use_schedule(i);
        if (i > 0) {
            restore(before);
        }
        if (!run_grid(d)) {
            break;
        }
        size_t offset;
        if (i == 0) {
            save(&result, written);
        } else if (const range *r = differs(result, &offset)) {
            error(cudaErrorLaunchFailure,
                  "kernel %s: schedules %s and %s give different results at byte %zu of device buffer %d: a race [launched at %s:%d]", d.name,
                  schedules[0].name, schedules[i].name, offset, r->number, d.file, d.line);
            break;
        }
    }
    fxcu_set_schedule(FXCU_EACH, schedule_seed);
}

void trace(const char *format, ...) {
    static FILE *const file = getenv("FXCU_TRACE") ? fopen(getenv("FXCU_TRACE"), "w") : nullptr; /* of the process: never closed */
    if (file == nullptr) {
        return;
    }
    va_list args;
    va_start(args, format);
    vfprintf(file, format, args);
    va_end(args);
    fflush(file);
}

cudaError_t launch(launch_desc &&d) {
    entry e;
    if (e.failed) {
        return e.failed;
    }
    if (cudaError_t failed = device_error()) {
        return failed;
    }
    if (cudaError_t failed = check_stream(d.stream)) {
        return failed;
    }
    if (state(d.stream)->device >= 0 && state(d.stream)->device != current_device()) {
        return error(cudaErrorInvalidResourceHandle, "kernel %s: the stream is of device %d, not of %d, which is current [launched at %s:%d]", d.name,
                     state(d.stream)->device, current_device(), d.file, d.line);
    }
    if (cudaError_t failed = check_launch(d)) {
        return failed;
    }
    const cudaStream_t stream = d.stream;
    if (getenv("FXCU_TRACE")) {
        trace("%s %u %u %u %u %u %u %zu\n", symbol_of(d.kernel).c_str(), d.grid.x, d.grid.y, d.grid.z, d.block.x, d.block.y, d.block.z, d.dynamic_bytes);
    }
    return enqueue(stream, [d = std::move(d)] {
        unlock_device();
        if (schedule == FXCU_EACH) {
            run_each(d);
        } else {
            run_grid(d);
        }
    });
}

} // namespace fxcu

using namespace fxcu;

void fxcu_set_schedule(fxcu_schedule to, uint64_t seed) {
    schedule = to;
    schedule_seed = seed;
    current_order = to == FXCU_REVERSE        ? order::reverse
                    : to == FXCU_RANDOM       ? order::random
                    : to == FXCU_WARP         ? order::warp
                    : to == FXCU_WARP_REVERSE ? order::warp_reverse
                                              : order::forward;
    seed_random(seed);
}
void fxcu_set_schedule_number(int number) {
    fxcu_set_schedule(FXCU_FORWARD, 1);
    use_schedule(number % FXCU_SCHEDULES);
}
const char *fxcu_schedule_name(int number) { return schedules[number % FXCU_SCHEDULES].name; }

/* For programs that say nothing of schedules. */
static const struct from_environment {
    from_environment() {
        if (const char *number = getenv("FXCU_SCHEDULE")) {
            fxcu_set_schedule_number(atoi(number));
        }
    }
} at_start;

cudaError_t fxcu_func_set_attribute(const void *kernel, cudaFuncAttribute attribute, int value) {
    entry e;
    if (e.failed || attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) {
        return e.failed ? e.failed
               : attribute == cudaFuncAttributePreferredSharedMemoryCarveout
                   ? cudaSuccess
                   : error(cudaErrorInvalidValue, "cudaFuncSetAttribute: attribute %d", attribute);
    }
    const size_t fixed = shared_bytes(shared_of(kernel));
    if (value < 0 || static_cast<size_t>(value) + fixed > shared_per_block_optin()) {
        return error(cudaErrorInvalidValue,
                     "cudaFuncSetAttribute: %d bytes of dynamic and %zu of static shared memory, where the device has %zu for a block", value,
                     fixed, shared_per_block_optin());
    }
    most_dynamic[kernel] = static_cast<size_t>(value);
    return cudaSuccess;
}

cudaError_t fxcu_func_get_attributes(cudaFuncAttributes *attributes, const void *kernel) {
    entry e;
    *attributes = {};
    if (cudaError_t failed = e.failed ? e.failed : device_error()) {
        return failed;
    }
    attributes->sharedSizeBytes = shared_bytes(shared_of(kernel));
    attributes->maxThreadsPerBlock = 1024;
    auto raised = most_dynamic.find(kernel);
    attributes->maxDynamicSharedSizeBytes =
        static_cast<int>(raised == most_dynamic.end() ? shared_per_block - attributes->sharedSizeBytes : raised->second);
    return cudaSuccess;
}
