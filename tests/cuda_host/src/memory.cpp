/* Device and pinned memory: pages of the host, each buffer fenced by pages that nobody may touch and ending right before one, filled
 * with NaNs. When the host has waited for the device, device memory is closed until there is work again, so that host code that takes a
 * device pointer for its own is caught; a freed buffer stays closed, and its addresses are not used again for long.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "internal.h"

#include <map>
#include <sys/mman.h>
#include <unistd.h>

namespace fxcu {

constexpr size_t alignment = 256; /* of what cudaMalloc gives */
constexpr size_t guard = 64 << 10;
constexpr size_t held_back = 512; /* freed buffers that keep their addresses */

struct mapped : range {
    char *map;
    size_t map_bytes; /* without the guards */
    char *inside() const { return map + guard; }
};
static std::map<uintptr_t, mapped> ranges; /* by the mapping's end */
static std::vector<uintptr_t> freed_order;
static size_t used, live;
static int last_number;
static bool unlocked;

static uintptr_t key(const mapped &m) { return reinterpret_cast<uintptr_t>(m.map) + m.map_bytes + 2 * guard; }
static const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));

static size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

static const mapped *find(const void *pointer) {
    auto found = ranges.upper_bound(reinterpret_cast<uintptr_t>(pointer));
    return found == ranges.end() || pointer < found->second.map ? nullptr : &found->second;
}
const range *find_range(const void *pointer) { return find(pointer); }

std::string describe(const void *pointer) {
    const char *at = static_cast<const char *>(pointer);
    const mapped *m = find(pointer);
    if (pointer == nullptr) {
        return "a null pointer";
    }
    if (m == nullptr) {
        return format("%p, which is in no device buffer", pointer);
    }
    const char *kind = m->kind == memory::device ? "device" : "pinned";
    std::string place = at < m->at              ? format("%zu bytes before", static_cast<size_t>(m->at - at))
                        : at < m->at + m->bytes ? format("at byte %zu of", static_cast<size_t>(at - m->at))
                                                : format("%zu bytes past the end of", static_cast<size_t>(at - m->at) - m->bytes);
    return format("%p, %s %s buffer %d of %zu bytes%s", pointer, place.c_str(), kind, m->number, m->bytes,
                  m->freed ? ", which has been freed" : "");
}

static void set_access(bool open) {
    for (auto &pair : ranges) {
        const mapped &m = pair.second;
        if (m.kind == memory::device && !m.freed) {
            mprotect(m.inside(), m.map_bytes, open ? PROT_READ | PROT_WRITE : PROT_NONE);
        }
    }
    unlocked = open;
}
void unlock_device() {
    if (!unlocked) {
        set_access(true);
    }
}
void lock_device() {
    if (unlocked) {
        set_access(false);
    }
}

/* Device memory of which a copy needs these bytes alone is open for the copy alone: opening all of it takes milliseconds a gigabyte. */
class opened {
  public:
    opened(const void *at, size_t bytes) : begin(reinterpret_cast<uintptr_t>(at) / page * page), size(0) {
        const mapped *m = find(at);
        if (m != nullptr && m->kind == memory::device && !unlocked) {
            size = round_up(reinterpret_cast<uintptr_t>(at) + bytes - begin, page);
            mprotect(reinterpret_cast<void *>(begin), size, PROT_READ | PROT_WRITE);
        }
    }
    ~opened() {
        if (size != 0) {
            mprotect(reinterpret_cast<void *>(begin), size, PROT_NONE);
        }
    }
    opened(const opened &) = delete;
    opened &operator=(const opened &) = delete;

  private:
    uintptr_t begin;
    size_t size;
};

/* Bytes of a buffer's pages outside it: fenced too, byte by byte. */
template <class F> static void outside(const mapped &m, F f) {
    f(m.inside(), static_cast<size_t>(m.at - m.inside()));
    f(m.at + m.bytes, static_cast<size_t>(m.inside() + m.map_bytes - (m.at + m.bytes)));
}

static cudaError_t allocate(memory kind, void **pointer, size_t bytes, const char *call) {
    entry e;
    if (e.failed) {
        return e.failed;
    }
    if (pointer == nullptr) {
        return error(cudaErrorInvalidValue, "%s: no place for the pointer", call);
    }
    if (device.count < 1) {
        return device_error();
    }
    if (cudaError_t refused = refuse_in_capture(call)) {
        return refused;
    }
    *pointer = nullptr;
    if (bytes == 0) {
        return cudaSuccess;
    }
    if ((kind == memory::device && bytes > device.memory - used) || fail_this_allocation()) {
        return error(cudaErrorMemoryAllocation, "%s: %zu bytes, where %zu of %zu are free", call, bytes, device.memory - used, device.memory);
    }
    mapped m = {};
    m.kind = kind;
    m.bytes = bytes;
    m.map_bytes = round_up(bytes, page);
    void *map = mmap(nullptr, m.map_bytes + 2 * guard, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED) {
        return error(cudaErrorMemoryAllocation, "%s: the host has no %zu bytes", call, bytes);
    }
    m.map = static_cast<char *>(map);
    m.at = m.inside() + m.map_bytes - round_up(bytes, alignment);
    m.number = ++last_number;
    m.device = current_device();
    mprotect(m.inside(), m.map_bytes, PROT_READ | PROT_WRITE);
    memset(m.inside(), 0xff, m.map_bytes); /* a NaN of every floating type, -1 of every integer */
    outside(m, [](char *at, size_t n) { ASAN_POISON_MEMORY_REGION(at, n); });
    if (kind == memory::device && !unlocked) {
        mprotect(m.inside(), m.map_bytes, PROT_NONE);
    }
    ranges.emplace(key(m), m);
    used += kind == memory::device ? bytes : 0;
    live++;
    *pointer = m.at;
    return cudaSuccess;
}

static void drop_shadow(const mapped &m) {
    if (m.shadow) {
        munmap(m.shadow, m.shadow_bytes);
        m.shadow = nullptr;
    }
}

static void unmap(const mapped &m) {
    drop_shadow(m);
    ASAN_UNPOISON_MEMORY_REGION(m.inside(), m.map_bytes);
    munmap(m.map, m.map_bytes + 2 * guard);
}

static cudaError_t release(memory kind, void *pointer, const char *call) {
    entry e; /* after a sticky error, too, what is freed is no leak, though the error comes back */
    if (pointer == nullptr) {
        return e.failed;
    }
    if (cudaError_t refused = refuse_in_capture(call)) {
        return refused;
    }
    mapped *m = const_cast<mapped *>(find(pointer));
    if (m == nullptr || m->kind != kind || m->freed || pointer != m->at) {
        return error(cudaErrorInvalidValue, "%s: %s is not what %s gave", call, describe(pointer).c_str(),
                     kind == memory::device ? "cudaMalloc" : "cudaMallocHost");
    }
    e.host_waited();
    const cudaError_t failed = drain_all(); /* freeing waits for all work */
    m->freed = true;
    drop_shadow(*m);
    used -= kind == memory::device ? m->bytes : 0;
    live--;
    madvise(m->inside(), m->map_bytes, MADV_DONTNEED);
    mprotect(m->inside(), m->map_bytes, PROT_NONE);
    freed_order.push_back(key(*m));
    if (freed_order.size() > held_back) {
        unmap(ranges[freed_order.front()]);
        ranges.erase(freed_order.front());
        freed_order.erase(freed_order.begin());
    }
    return e.failed ? e.failed : failed;
}

cudaError_t check_fences(const char *after) {
    cudaError_t result = cudaSuccess;
    for (auto &pair : ranges) {
        const mapped &m = pair.second;
        if (m.freed || (m.kind == memory::device && !unlocked)) {
            continue;
        }
        outside(m, [&](char *at, size_t n) {
            ASAN_UNPOISON_MEMORY_REGION(at, n);
            for (size_t i = 0; i < n; i++) {
                if (static_cast<unsigned char>(at[i]) != 0xff) {
                    result = error(cudaErrorIllegalAddress, "%s has written to %s", after, describe(at + i).c_str());
                    memset(at, 0xff, n);
                }
            }
            ASAN_POISON_MEMORY_REGION(at, n);
        });
    }
    return result;
}

size_t live_ranges() { return live; }

void free_ranges() {
    for (auto &pair : ranges) {
        unmap(pair.second);
    }
    ranges.clear();
    freed_order.clear();
    used = live = 0;
    last_number = 0;
}

void save(snapshot *into, const std::vector<const range *> &only) {
    into->parts.clear();
    for (auto &pair : ranges) {
        const range *r = &pair.second;
        bool wanted = only.empty();
        for (const range *one : only) {
            wanted |= one == r;
        }
        if (r->kind == memory::device && !r->freed && wanted) {
            into->parts.emplace_back(r, std::vector<char>(r->at, r->at + r->bytes));
        }
    }
}
void restore(const snapshot &from) {
    for (auto &part : from.parts) {
        memcpy(part.first->at, part.second.data(), part.first->bytes);
    }
}
const range *differs(const snapshot &from, size_t *offset) {
    for (auto &part : from.parts) {
        if (memcmp(part.first->at, part.second.data(), part.first->bytes) != 0) {
            for (*offset = 0; part.first->at[*offset] == part.second[*offset]; ++*offset) {
            }
            return part.first;
        }
    }
    return nullptr;
}

/* Whether the bytes lie in one live buffer of the kind; host memory is all that is in no buffer. */
static cudaError_t check_side(const char *call, const char *side, const void *pointer, size_t bytes, bool on_device) {
    const mapped *m = find(pointer);
    if (!on_device && m == nullptr) {
        return pointer == nullptr ? error(cudaErrorInvalidValue, "%s: %s is null", call, side) : cudaSuccess;
    }
    if (on_device != (m != nullptr && m->kind == memory::device)) {
        return error(cudaErrorInvalidValue, "%s: %s is %s, where %s memory is expected", call, side, describe(pointer).c_str(),
                     on_device ? "device" : "host");
    }
    const char *at = static_cast<const char *>(pointer);
    if (m->freed || at < m->at || at > m->at + m->bytes || bytes > static_cast<size_t>(m->at + m->bytes - at)) {
        return error(cudaErrorInvalidValue, "%s: %s is %s, where %zu bytes are to be accessed", call, side, describe(pointer).c_str(), bytes);
    }
    return cudaSuccess;
}

static bool is_pinned(const void *pointer) {
    const mapped *m = find(pointer);
    return m != nullptr && m->kind == memory::pinned;
}
static bool is_device(const void *pointer) {
    const mapped *m = find(pointer);
    return m != nullptr && m->kind == memory::device;
}

/* Checks a copy and puts it on the stream. Memory that is not pinned is read at once and has been written when this returns, as CUDA's
 * driver, which passes it through a buffer of its own, may do. */
static cudaError_t copy(const char *call, void *to, const void *from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream, bool wait) {
    entry e;
    if (e.failed) {
        return e.failed;
    }
    if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault) {
        return error(cudaErrorInvalidMemcpyDirection, "%s: no kind of copy: %d", call, static_cast<int>(kind));
    }
    if (wait) {
        if (cudaError_t refused = refuse_in_capture(call)) {
            return refused;
        }
    }
    if (bytes == 0) {
        return cudaSuccess;
    }
    const bool to_device = kind == cudaMemcpyDefault ? is_device(to) : kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
    const bool from_device = kind == cudaMemcpyDefault ? is_device(from) : kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
    if (cudaError_t failed = check_side(call, "the target", to, bytes, to_device)) {
        return failed;
    }
    if (cudaError_t failed = check_side(call, "the source", from, bytes, from_device)) {
        return failed;
    }
    counts.copies++;
    counts.copied_bytes += bytes;
    std::function<void()> run;
    if (!from_device && !is_pinned(from) && !wait) {
        const char *bytes_from = static_cast<const char *>(from);
        run = [to, staged = std::vector<char>(bytes_from, bytes_from + bytes)] {
            const opened access(to, staged.size());
            memcpy(to, staged.data(), staged.size());
        };
    } else {
        run = [to, from, bytes] {
            const opened read(from, bytes), written(to, bytes);
            memmove(to, from, bytes);
        };
    }
    const bool pageable = !to_device && !is_pinned(to);
    if (!wait && pageable) {
        if (cudaError_t refused = refuse_in_capture("a copy to memory that is not pinned")) {
            return refused;
        }
    }
    if (cudaError_t failed = enqueue(stream, std::move(run))) {
        return failed;
    }
    return wait || pageable ? cudaStreamSynchronize(stream) : cudaSuccess;
}

static cudaError_t fill(const char *call, void *to, int value, size_t bytes, cudaStream_t stream) {
    entry e;
    if (e.failed) {
        return e.failed;
    }
    if (bytes == 0) {
        return cudaSuccess;
    }
    if (cudaError_t failed = check_side(call, "the target", to, bytes, true)) {
        return failed;
    }
    return enqueue(stream, [to, value, bytes] {
        const opened access(to, bytes);
        memset(to, value, bytes);
    });
}

} // namespace fxcu

using namespace fxcu;

cudaError_t cudaMalloc(void **pointer, size_t bytes) { return allocate(memory::device, pointer, bytes, "cudaMalloc"); }
cudaError_t cudaFree(void *pointer) { return release(memory::device, pointer, "cudaFree"); }
cudaError_t cudaMallocHost(void **pointer, size_t bytes) { return allocate(memory::pinned, pointer, bytes, "cudaMallocHost"); }
cudaError_t cudaHostAlloc(void **pointer, size_t bytes, unsigned) { return allocate(memory::pinned, pointer, bytes, "cudaHostAlloc"); }
cudaError_t cudaFreeHost(void *pointer) { return release(memory::pinned, pointer, "cudaFreeHost"); }

cudaError_t cudaMemGetInfo(size_t *free, size_t *total) {
    entry e;
    *total = fxcu::device.memory;
    *free = fxcu::device.memory - used;
    return e.failed;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes *attributes, const void *pointer) {
    entry e;
    const mapped *m = find(pointer);
    const bool inside = m != nullptr && !m->freed && pointer >= m->at && pointer < m->at + m->bytes;
    *attributes = {};
    if (inside) {
        attributes->type = m->kind == memory::device ? cudaMemoryTypeDevice : cudaMemoryTypeHost;
        attributes->device = m->device;
        attributes->devicePointer = const_cast<void *>(pointer);
        attributes->hostPointer = m->kind == memory::device ? nullptr : const_cast<void *>(pointer);
    }
    return e.failed;
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind) {
    return copy("cudaMemcpy", to, from, bytes, kind, nullptr, true);
}
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
    return copy("cudaMemcpyAsync", to, from, bytes, kind, stream, false);
}
cudaError_t cudaMemset(void *to, int value, size_t bytes) { return fill("cudaMemset", to, value, bytes, nullptr); }
cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream) {
    return fill("cudaMemsetAsync", to, value, bytes, stream);
}
