/* What a kernel's thread sees: its place, barriers, warp operations, atomics, cached loads (src/block.cpp, src/warp.cpp).
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#ifndef FXCU_DEVICE_H
#define FXCU_DEVICE_H
#include <stdint.h>
#include <string.h>
#include <type_traits>

namespace fxcu {

struct place {
    uint3 thread;
    uint3 block;
};
extern place *here; /* the running thread's; null in host code */
extern dim3 block_size, grid_size;

enum class barrier { plain, count, all, any };
int block_barrier(barrier kind, int value, const char *file, int line);

enum class warp_op { sync, shuffle, shuffle_up, shuffle_down, shuffle_xor, ballot, all, any, match };
/* Waits for the lanes of mask; value is this lane's, argument the lane or distance, width the segment of a shuffle. */
uint64_t warp(warp_op op, unsigned mask, uint64_t value, int argument, int width, const char *file, int line);
unsigned active_mask();

void atomic_begin(const void *address, size_t bytes);
void fence();
void atomic_pause(); /* a place where another thread may run */
[[noreturn]] void trap(const char *what, const char *file, int line);

template <class T> uint64_t to_bits(T value) {
    static_assert(sizeof(T) <= 8 && std::is_trivially_copyable_v<T>, "warp operations take 4 or 8 bytes");
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof value);
    return bits;
}
template <class T> T from_bits(uint64_t bits) {
    T value;
    memcpy(&value, &bits, sizeof value);
    return value;
}
template <class T, class F> __attribute__((no_sanitize("thread"))) T atomic(T *address, F change) {
    atomic_begin(address, sizeof(T));
    T old = *address;
    *address = change(old);
    atomic_pause();
    return old;
}

} // namespace fxcu

#define threadIdx (::fxcu::here->thread)
#define blockIdx (::fxcu::here->block)
#define blockDim (::fxcu::block_size)
#define gridDim (::fxcu::grid_size)
static const int warpSize = 32;

/* Where a call stands, as two parameters after its own. */
#define FXCU_AT const char *file = __builtin_FILE(), int line = __builtin_LINE()

static inline void __syncthreads(FXCU_AT) { fxcu::block_barrier(fxcu::barrier::plain, 0, file, line); }
static inline int __syncthreads_count(int predicate, FXCU_AT) { return fxcu::block_barrier(fxcu::barrier::count, predicate, file, line); }
static inline int __syncthreads_and(int predicate, FXCU_AT) { return fxcu::block_barrier(fxcu::barrier::all, predicate, file, line); }
static inline int __syncthreads_or(int predicate, FXCU_AT) { return fxcu::block_barrier(fxcu::barrier::any, predicate, file, line); }
static inline void __syncwarp(unsigned mask = 0xffffffff, FXCU_AT) { fxcu::warp(fxcu::warp_op::sync, mask, 0, 0, 32, file, line); }

#define FXCU_SHUFFLE(name, op, argument_type)                                                                                                  \
    template <class T> T name(unsigned mask, T value, argument_type argument, int width = 32, FXCU_AT) {                                       \
        return fxcu::from_bits<T>(fxcu::warp(fxcu::warp_op::op, mask, fxcu::to_bits(value), static_cast<int>(argument), width, file, line));   \
    }
FXCU_SHUFFLE(__shfl_sync, shuffle, int)
FXCU_SHUFFLE(__shfl_up_sync, shuffle_up, unsigned)
FXCU_SHUFFLE(__shfl_down_sync, shuffle_down, unsigned)
FXCU_SHUFFLE(__shfl_xor_sync, shuffle_xor, int)
#undef FXCU_SHUFFLE

static inline unsigned __ballot_sync(unsigned mask, int predicate, FXCU_AT) {
    return static_cast<unsigned>(fxcu::warp(fxcu::warp_op::ballot, mask, predicate != 0, 0, 32, file, line));
}
static inline int __all_sync(unsigned mask, int predicate, FXCU_AT) {
    return static_cast<int>(fxcu::warp(fxcu::warp_op::all, mask, predicate != 0, 0, 32, file, line));
}
static inline int __any_sync(unsigned mask, int predicate, FXCU_AT) {
    return static_cast<int>(fxcu::warp(fxcu::warp_op::any, mask, predicate != 0, 0, 32, file, line));
}
template <class T> unsigned __match_any_sync(unsigned mask, T value, FXCU_AT) {
    return static_cast<unsigned>(fxcu::warp(fxcu::warp_op::match, mask, fxcu::to_bits(value), 0, 32, file, line));
}
static inline unsigned __activemask() { return fxcu::active_mask(); }

static inline void __threadfence() { fxcu::fence(); }
static inline void __threadfence_block() {}
static inline void __threadfence_system() { fxcu::fence(); }
static inline void __trap(FXCU_AT) { fxcu::trap("__trap()", file, line); }

/* Atomics: whole by themselves here, since threads change only where they wait; other threads may run after each. */
#define FXCU_ATOMIC(T, name, result)                                                                                                           \
    static inline T name(T *address, T value) {                                                                                                \
        return fxcu::atomic(address, [value](T old) { return static_cast<T>(result); });                                                       \
    }
#define FXCU_ATOMICS(T)                                                                                                                        \
    FXCU_ATOMIC(T, atomicMin, value < old ? value : old)                                                                                       \
    FXCU_ATOMIC(T, atomicMax, value > old ? value : old)                                                                                       \
    FXCU_ATOMIC(T, atomicAnd, old &value)                                                                                                      \
    FXCU_ATOMIC(T, atomicOr, old | value)                                                                                                      \
    FXCU_ATOMIC(T, atomicXor, old ^ value)                                                                                                     \
    static inline T atomicCAS(T *address, T expected, T value) {                                                                               \
        return fxcu::atomic(address, [expected, value](T old) { return old == expected ? value : old; });                                      \
    }
FXCU_ATOMICS(int)
FXCU_ATOMICS(unsigned)
FXCU_ATOMICS(unsigned long long)
FXCU_ATOMIC(int, atomicAdd, static_cast<unsigned>(old) + static_cast<unsigned>(value))
FXCU_ATOMIC(unsigned, atomicAdd, old + value)
FXCU_ATOMIC(unsigned long long, atomicAdd, old + value)
FXCU_ATOMIC(float, atomicAdd, old + value)
FXCU_ATOMIC(double, atomicAdd, old + value)
FXCU_ATOMIC(int, atomicSub, static_cast<unsigned>(old) - static_cast<unsigned>(value))
FXCU_ATOMIC(unsigned, atomicSub, old - value)
FXCU_ATOMIC(int, atomicExch, (static_cast<void>(old), value))
FXCU_ATOMIC(unsigned, atomicExch, (static_cast<void>(old), value))
FXCU_ATOMIC(unsigned long long, atomicExch, (static_cast<void>(old), value))
FXCU_ATOMIC(float, atomicExch, (static_cast<void>(old), value))
FXCU_ATOMIC(unsigned, atomicInc, old >= value ? 0 : old + 1)
FXCU_ATOMIC(unsigned, atomicDec, old == 0 || old > value ? value : old - 1)
#undef FXCU_ATOMICS
#undef FXCU_ATOMIC

template <class T> T __ldg(const T *address) { return *address; }
template <class T> T __ldca(const T *address) { return *address; }
template <class T> T __ldcg(const T *address) { return *address; }
template <class T> T __ldcs(const T *address) { return *address; }
template <class T> void __stwb(T *address, T value) { *address = value; }
template <class T> void __stcg(T *address, T value) { *address = value; }
template <class T> void __stcs(T *address, T value) { *address = value; }
#endif
