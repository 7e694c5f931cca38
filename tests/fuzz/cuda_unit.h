/* Around a run of emitted CUDA on the host's CUDA: memory of the device for what lies in the host's. Included by units that unit.c writes.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <vector>

#include "cuda_host/control.h"

struct entry {
    size_t (*arena_size)(const int64_t *sizes);
    int (*run)(const int64_t *sizes, void **in, void *const *out, void *arena, size_t arena_size, const size_t *bytes);
};

static size_t unit_no_arena(const int64_t *) { return 0; }

/* Each case of a unit has a schedule. */
static void unit_schedule(int number) { fxcu_set_schedule_number(number % FXCU_SCHEDULES); }

/* Inputs and outputs on the device, as the host has them; at the end the host has them as they are then. */
struct unit_memory {
    std::vector<void *> devices;
    void *const *in, *const *out;
    void **host_in;
    void *const *host_out;
    size_t n_in, n_out;
    const size_t *bytes;

    unit_memory(size_t inputs, size_t outputs, void **from, void *const *to, const size_t *sizes)
        : devices(inputs + outputs + 1), in(devices.data()), out(devices.data() + inputs), host_in(from), host_out(to), n_in(inputs), n_out(outputs), bytes(sizes)
    {
        for (size_t i = 0; i < n_in + n_out; i++)
            if (cudaMalloc(&devices[i], bytes[i] + 1) != cudaSuccess || cudaMemcpy(devices[i], host(i), bytes[i], cudaMemcpyHostToDevice) != cudaSuccess)
                exit(4);
    }
    ~unit_memory()
    {
        for (size_t i = 0; i < n_in + n_out; i++)
            if (cudaMemcpy(host(i), devices[i], bytes[i], cudaMemcpyDeviceToHost) != cudaSuccess || cudaFree(devices[i]) != cudaSuccess)
                exit(4);
        if (fxcu_alive())
            exit(5);
    }
    unit_memory(const unit_memory &) = delete;
    void *host(size_t i) const { return i < n_in ? host_in[i] : host_out[i - n_in]; }
};
