/* examples/cuda_two_models/main.cpp: two models that fxcc compiled to CUDA, in one program: `prepare` makes floats of a picture's bytes, `digits` reads
 * them. Each has its weights, its context and its stream; events alone stand between them, so that one picture is prepared while another is read.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 *   two_models [FOLDER]   FOLDER: where prepare.bin and digits.bin are (default: here) */
#include <stdio.h>
#include <string>

#include "digits.h"
#include "prepare.h"

#include "../digits/pictures.h"

enum { SLOTS = 2 }; /* pictures under way at once */

#define MUST(call) must(#call, call)
static void must(const char *call, cudaError_t error)
{
    if (error == cudaSuccess)
        return;
    fprintf(stderr, "two_models: %s: %s (%s)\n", call, cudaGetErrorName(error), cudaGetErrorString(error));
    exit(1);
}

/* Of either model: what its status means, and what it has to add. */
static void must(const char *call, const char *status, const char *more, bool good)
{
    if (good)
        return;
    fprintf(stderr, "two_models: %s: %s%s%s\n", call, status, *more ? ": " : "", more);
    exit(1);
}
#define MUST_PREPARE(status) must("prepare", prepare_status_string(status), prepare_error(prepare), (status) == PREPARE_OK)
#define MUST_DIGITS(status) must("digits", digits_status_string(status), digits_error(digits), (status) == DIGITS_OK)

/* One picture under way. */
struct slot {
    unsigned char *pixels; /* on the device, as the next two */
    float *picture, *scores;
    float *result;         /* on the host, where the device writes by itself */
    cudaEvent_t prepared, read;
};

static void make(slot *s)
{
    MUST(cudaMalloc((void **)&s->pixels, PREPARE_IN0_NUMEL));
    MUST(cudaMalloc((void **)&s->picture, DIGITS_IN0_NUMEL * sizeof(float)));
    MUST(cudaMalloc((void **)&s->scores, DIGITS_OUT0_NUMEL * sizeof(float)));
    MUST(cudaMallocHost((void **)&s->result, DIGITS_OUT0_NUMEL * sizeof(float)));
    MUST(cudaEventCreateWithFlags(&s->prepared, cudaEventDisableTiming));
    MUST(cudaEventCreateWithFlags(&s->read, cudaEventDisableTiming));
}

static void drop(slot *s)
{
    MUST(cudaFree(s->pixels));
    MUST(cudaFree(s->picture));
    MUST(cudaFree(s->scores));
    MUST(cudaFreeHost(s->result));
    MUST(cudaEventDestroy(s->prepared));
    MUST(cudaEventDestroy(s->read));
}

static int likeliest(const float *scores)
{
    int best = 0;
    for (int i = 1; i < DIGITS_OUT0_NUMEL; i++)
        if (scores[i] > scores[best])
            best = i;
    return best;
}

int main(int argc, char **argv)
{
    const std::string folder = argc > 1 ? argv[1] : ".";
    const std::string prepare_bin = folder + "/prepare.bin", digits_bin = folder + "/digits.bin";
    prepare_config prepare_made = {};
    digits_config digits_made = {};
    prepare_made.weights_file = prepare_bin.c_str();
    digits_made.weights_file = digits_bin.c_str();
    prepare_context *prepare;
    digits_context *digits;
    int status = prepare_create(&prepare, &prepare_made);
    MUST_PREPARE(status);
    status = digits_create(&digits, &digits_made);
    MUST_DIGITS(status);

    cudaStream_t preparing, reading;
    slot slots[SLOTS];
    MUST(cudaStreamCreateWithFlags(&preparing, cudaStreamNonBlocking));
    MUST(cudaStreamCreateWithFlags(&reading, cudaStreamNonBlocking));
    for (slot &s : slots)
        make(&s);

    int right = 0;
    for (int i = 0; i < N_PICTURES + SLOTS; i++) {
        slot *s = &slots[i % SLOTS];
        if (i >= SLOTS) { /* what the slot had before is read: count it, then its memory is free */
            MUST(cudaEventSynchronize(s->read));
            right += likeliest(s->result) == pictures[i - SLOTS].label;
        }
        if (i >= N_PICTURES)
            continue;
        MUST(cudaMemcpyAsync(s->pixels, pictures[i].pixel, PREPARE_IN0_NUMEL, cudaMemcpyHostToDevice, preparing));
        status = prepare_run(prepare, s->pixels, s->picture, preparing);
        MUST_PREPARE(status);
        MUST(cudaEventRecord(s->prepared, preparing));
        MUST(cudaStreamWaitEvent(reading, s->prepared, 0));
        status = digits_run(digits, s->picture, s->scores, reading);
        MUST_DIGITS(status);
        MUST(cudaMemcpyAsync(s->result, s->scores, DIGITS_OUT0_NUMEL * sizeof(float), cudaMemcpyDeviceToHost, reading));
        MUST(cudaEventRecord(s->read, reading));
    }
    status = prepare_wait(prepare, preparing); /* also tells what a kernel found wrong */
    MUST_PREPARE(status);
    status = digits_wait(digits, reading);
    MUST_DIGITS(status);
    printf("%d of %d pictures that were kept from training are read right.\n", right, N_PICTURES);

    for (slot &s : slots)
        drop(&s);
    MUST(cudaStreamDestroy(preparing));
    MUST(cudaStreamDestroy(reading));
    prepare_destroy(prepare);
    digits_destroy(digits);
    return 0;
}
