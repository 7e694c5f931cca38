/* cli/report.c: messages and progress on stderr.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"

int complain(const char *command, const char *fmt, ...)
{
    va_list ap;

    progress_end();
    fprintf(stderr, "%s: error: ", command);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
    return 1;
}

/* text with `to` for each `from`. */
static void print_renamed(const char *text, const char *from, const char *to)
{
    for (const char *at; from && (at = strstr(text, from)); text = at + strlen(from))
        fprintf(stderr, "%.*s%s", (int)(at - text), text, to);
    fputs(text, stderr);
}

void report(const char *command, const fx_context *ctx, bool verbose)
{
    report_renamed(command, ctx, verbose, NULL, NULL);
}

void report_renamed(const char *command, const fx_context *ctx, bool verbose, const char *from, const char *to)
{
    static const char *const names[] = {[FX_REMARK] = "remark", [FX_WARNING] = "warning", [FX_ERROR] = "error"};

    progress_end();
    for (size_t i = 0; i < fx_diag_count(ctx); i++) {
        const fx_diag *d = fx_diag_get(ctx, i);
        if (d->severity == FX_REMARK && !verbose)
            continue;
        size_t size = fx_diag_format(d, NULL, 0) + 1;
        char *text = malloc(size);
        if (!text) {
            fprintf(stderr, "%s: %s: %s\n", command, names[d->severity], d->message);
            continue;
        }
        fx_diag_format(d, text, size);
        fprintf(stderr, "%s: %s: ", command, names[d->severity]);
        print_renamed(text, from, to);
        fputc('\n', stderr);
        free(text);
    }
}

/* ---- progress: a thread that wakes after two seconds, then every half --------------------------------------- */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t stop;
    pthread_t thread;
    bool running, stopping, shown;
    const char *what;
} progress = {.lock = PTHREAD_MUTEX_INITIALIZER, .stop = PTHREAD_COND_INITIALIZER};

static void *show_progress(void *unused)
{
    struct timespec start, until;

    (void)unused;
    clock_gettime(CLOCK_REALTIME, &start);
    until = start;
    until.tv_sec += 2;
    pthread_mutex_lock(&progress.lock);
    while (!progress.stopping) {
        if (pthread_cond_timedwait(&progress.stop, &progress.lock, &until) == 0)
            continue; /* woken: look at stopping again */
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        fprintf(stderr, "\r%s ... %ld s ", progress.what, (long)(now.tv_sec - start.tv_sec));
        fflush(stderr);
        progress.shown = true;
        until = now;
        until.tv_sec += 1;
    }
    pthread_mutex_unlock(&progress.lock);
    return NULL;
}

void progress_begin(const char *what)
{
    if (!isatty(STDERR_FILENO))
        return;
    progress_end();
    progress.what = what;
    progress.stopping = progress.shown = false;
    progress.running = pthread_create(&progress.thread, NULL, show_progress, NULL) == 0;
}

void progress_end(void)
{
    if (!progress.running)
        return;
    pthread_mutex_lock(&progress.lock);
    progress.stopping = true;
    pthread_cond_signal(&progress.stop);
    pthread_mutex_unlock(&progress.lock);
    pthread_join(progress.thread, NULL);
    progress.running = false;
    if (progress.shown)
        fprintf(stderr, "\r\033[K");
}
