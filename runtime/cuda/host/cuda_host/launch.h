/* Launches: FXCC_LAUNCH, FXCC_DYN_SMEM (runtime/cuda/launch.h has them for nvcc).
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#ifndef FXCU_LAUNCH_H
#define FXCU_LAUNCH_H
#include <functional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace fxcu {

/* A pointer among the arguments, or a word of a structure that may be one. */
struct argument {
    const void *pointer;
    int number; /* from 1 */
    bool writable, certain;
};

struct launch_desc {
    const char *name, *file;
    int line;
    dim3 grid, block;
    size_t dynamic_bytes;
    cudaStream_t stream;
    const void *kernel;
    std::vector<argument> arguments;
    std::function<void()> body; /* one thread */
};

cudaError_t launch(launch_desc &&desc);

template <class P> void note_argument(launch_desc &desc, int number, const P &value) {
    if constexpr (std::is_pointer_v<P>) {
        desc.arguments.push_back({reinterpret_cast<const void *>(value), number, !std::is_const_v<std::remove_pointer_t<P>>, true});
    } else if constexpr (std::is_class_v<P> && sizeof(P) >= sizeof(void *) && alignof(P) >= alignof(void *)) {
        static_assert(std::is_trivially_copyable_v<P>, "a kernel's argument is copied as bytes");
        for (size_t at = 0; at + sizeof(void *) <= sizeof(P); at += sizeof(void *)) {
            const void *word;
            __builtin_memcpy(&word, reinterpret_cast<const char *>(&value) + at, sizeof word);
            desc.arguments.push_back({word, number, true, false});
        }
    }
}

/* What FXCC_LAUNCH calls: its parameters are the kernel's, so arguments convert as they do in any call. */
template <class... P> struct bound_kernel {
    launch_desc desc;
    void (*kernel)(P...);
    cudaError_t operator()(P... values) {
        int number = 0;
        (note_argument<std::remove_cv_t<P>>(desc, ++number, values), ...);
        (void)number;
        desc.body = [k = kernel, all = std::tuple<std::remove_cv_t<P>...>(values...)] { std::apply(k, all); };
        return launch(std::move(desc));
    }
};
template <class... P> bound_kernel<P...> bind(void (*kernel)(P...), const char *name, const char *file, int line, dim3 grid, dim3 block,
                                              size_t dynamic_bytes, cudaStream_t stream) {
    return {{name, file, line, grid, block, dynamic_bytes, stream, reinterpret_cast<const void *>(kernel), {}, {}}, kernel};
}

void *dynamic_shared();

} // namespace fxcu

#define FXCC_LAUNCH(kernel, grid, block, smem, stream, ...)                                                                                    \
    (::fxcu::bind(kernel, #kernel, __FILE__, __LINE__, grid, block, smem, stream)(__VA_ARGS__))
#define FXCC_DYN_SMEM(T, name) T *const name = static_cast<T *>(::fxcu::dynamic_shared())
#endif
