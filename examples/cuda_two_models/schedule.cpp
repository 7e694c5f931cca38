/* examples/cuda_two_models/schedule.cpp: for `run host` alone: in which order the host's CUDA does what is given to streams, by the variable SCHEDULE.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <stdlib.h>

#include "cuda_host/control.h"

static const struct choose {
    choose()
    {
        const char *number = getenv("SCHEDULE");
        fxcu_set_schedule_number(number ? atoi(number) : 0);
    }
} at_start;
