/* ir/workers.c: several threads for a piece of work that is cut into parts already.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#define _GNU_SOURCE /* sched_getaffinity */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include "ir/ir.h"

typedef struct worker {
    void (*work)(void *user, int thread);
    void *user;
    int number;
    pthread_t thread;
} worker;

static void *run(void *arg)
{
    const worker *w = arg;
    w->work(w->user, w->number);
    return NULL;
}

int fx_processors(void)
{
#ifdef CPU_COUNT
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        return CPU_COUNT(&set);
#endif
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (int)n : 1;
}

void fx_in_parallel(int threads, void (*work)(void *user, int thread), void *user)
{
    enum { MOST = 64 };
    worker w[MOST];
    int n = 1;
    sigset_t all, before; /* signals are the caller's business */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (; n < threads && n < MOST; n++) {
        w[n] = (worker){.work = work, .user = user, .number = n};
        if (pthread_create(&w[n].thread, NULL, run, &w[n]) != 0)
            break; /* fewer do it too */
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    work(user, 0);
    while (--n > 0)
        pthread_join(w[n].thread, NULL);
}
