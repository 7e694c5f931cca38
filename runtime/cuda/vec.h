/* vec.h: V neighbouring elements, floats unless it is said, read and written at once: 16 bytes where V floats are 4.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
template <int V, class T = float> struct alignas(V * sizeof(T)) fxrt_cuda_vec {
    T at[V];
};

template <int V, class T> FXRT_DEVICE fxrt_cuda_vec<V, T> fxrt_cuda_load(const T *p) { return *reinterpret_cast<const fxrt_cuda_vec<V, T> *>(p); }
template <int V, class T> FXRT_DEVICE void fxrt_cuda_store(T *p, const fxrt_cuda_vec<V, T> &v) { *reinterpret_cast<fxrt_cuda_vec<V, T> *>(p) = v; }

/* Whether the pointers can be read by 16 bytes; NULL, which nobody reads, can. */
FXRT_HOST bool fxrt_cuda_aligned(const void *a, const void *b, const void *c = nullptr, const void *d = nullptr)
{
    const uintptr_t any = reinterpret_cast<uintptr_t>(a) | reinterpret_cast<uintptr_t>(b) | reinterpret_cast<uintptr_t>(c) | reinterpret_cast<uintptr_t>(d);
    return any % 16 == 0;
}

/* Whether places that lie so far apart, in elements, are as aligned as the first one. */
template <class... Strides> FXRT_HOST bool fxrt_cuda_fours(Strides... strides) { return (... && (strides % 4 == 0)); }
