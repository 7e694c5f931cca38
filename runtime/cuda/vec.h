/* vec.h: V neighbouring elements, floats unless it is said, read and written at once: 16 bytes where V floats are 4. Kernels whose images are of type T
 * (float, __half, __nv_bfloat16) reckon in floats all the same: they read and write by fxrt_cuda_floats and fxrt_cuda_put.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
template <int V, class T = float> struct alignas(V * sizeof(T)) fxrt_cuda_vec {
    T at[V];
};

template <int V, class T> FXRT_DEVICE fxrt_cuda_vec<V, T> fxrt_cuda_load(const T *p) { return *reinterpret_cast<const fxrt_cuda_vec<V, T> *>(p); }
template <int V, class T> FXRT_DEVICE void fxrt_cuda_store(T *p, const fxrt_cuda_vec<V, T> &v) { *reinterpret_cast<fxrt_cuda_vec<V, T> *>(p) = v; }

/* V elements as floats, and floats as V elements, rounded to the nearest. */
template <int V, class T> FXRT_DEVICE fxrt_cuda_vec<V> fxrt_cuda_floats(const T *p)
{
    const fxrt_cuda_vec<V, T> from = fxrt_cuda_load<V>(p);
    fxrt_cuda_vec<V> to;
    FXRT_UNROLL
    for (int i = 0; i < V; i++) {
        to.at[i] = static_cast<float>(from.at[i]);
    }
    return to;
}
template <int V, class T> FXRT_DEVICE void fxrt_cuda_put(T *p, const fxrt_cuda_vec<V> &v)
{
    fxrt_cuda_vec<V, T> to;
    FXRT_UNROLL
    for (int i = 0; i < V; i++) {
        to.at[i] = static_cast<T>(v.at[i]);
    }
    fxrt_cuda_store<V>(p, to);
}

/* A buffer of T that may be null, which has no type that T could be deduced from. */
template <class T> struct fxrt_cuda_type {
    using is = T;
};
template <class T> using fxrt_cuda_optional = const typename fxrt_cuda_type<T>::is *;

/* Whether the pointers can be read by 16 bytes; NULL, which nobody reads, can. */
FXRT_HOST bool fxrt_cuda_aligned(const void *a, const void *b, const void *c = nullptr, const void *d = nullptr)
{
    const uintptr_t any = reinterpret_cast<uintptr_t>(a) | reinterpret_cast<uintptr_t>(b) | reinterpret_cast<uintptr_t>(c) | reinterpret_cast<uintptr_t>(d);
    return any % 16 == 0;
}

/* Whether places that lie so far apart, in elements, are as aligned as the first one. */
template <class... Strides> FXRT_HOST bool fxrt_cuda_fours(Strides... strides) { return (... && (strides % 4 == 0)); }
