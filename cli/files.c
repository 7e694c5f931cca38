/* cli/files.c: temporary folders, paths, programs run.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/cli.h"

char *path_join(const char *dir, const char *name)
{
    size_t size = strlen(dir) + strlen(name) + 2;
    char *path = malloc(size);

    if (path)
        snprintf(path, size, "%s/%s", dir, name);
    return path;
}

/* ---- temporary folders: removed by temp_remove, or by the signal that ends the command ------------------------------ */

static const int ending[] = {SIGINT, SIGTERM, SIGHUP};
enum { N_ENDING = sizeof ending / sizeof ending[0] };
static struct {
    char path[4096];             /* ""; else the folder that is there now: no command has two */
    struct sigaction old[N_ENDING];
} temporary;

/* Only what a handler may call. */
static void remove_and_end(int signal_number)
{
    pid_t pid = fork();

    if (pid == 0) {
        execl("/bin/rm", "rm", "-rf", "--", temporary.path, (char *)NULL);
        _exit(127);
    }
    while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

/* Ignored signals (nohup) stay so, and those that a command handles are its own. */
static void watch_signals(void)
{
    struct sigaction action = {.sa_handler = remove_and_end};

    for (int i = 0; i < N_ENDING; i++)
        if (sigaction(ending[i], NULL, &temporary.old[i]) == 0 && temporary.old[i].sa_handler == SIG_DFL)
            sigaction(ending[i], &action, NULL);
}

char *temp_folder(const char *command)
{
    const char *base = getenv("TMPDIR");
    char *path = path_join(base && *base ? base : "/tmp", "fxcc-XXXXXX");

    if (!path || !mkdtemp(path)) {
        complain(command, "expected to make a temporary folder %s: %s", path ? path : "", strerror(errno));
        free(path);
        return NULL;
    }
    if (strlen(path) < sizeof temporary.path) {
        strcpy(temporary.path, path);
        watch_signals();
    }
    return path;
}

/* Only files lie in our temporary folders, no folders. */
void temp_remove(const char *dir)
{
    if (!strcmp(dir, temporary.path)) {
        for (int i = 0; i < N_ENDING; i++)
            if (temporary.old[i].sa_handler == SIG_DFL)
                sigaction(ending[i], &temporary.old[i], NULL);
        temporary.path[0] = '\0';
    }
    DIR *d = opendir(dir);

    if (d) {
        for (struct dirent *e; (e = readdir(d));)
            unlinkat(dirfd(d), e->d_name, 0); /* fails for "." and "..", as it should */
        closedir(d);
    }
    rmdir(dir);
}

int run_program(char *const *argv, const char *log)
{
    pid_t pid = fork();

    if (pid < 0)
        return -1;
    if (pid == 0) {
        if (log) {
            int fd = open(log, O_WRONLY | O_CREAT | O_TRUNC, 0644);
            if (fd >= 0) {
                dup2(fd, STDOUT_FILENO);
                dup2(fd, STDERR_FILENO);
                close(fd);
            }
        }
        execvp(argv[0], argv);
        fprintf(stderr, "%s: %s\n", argv[0], strerror(errno));
        _exit(127);
    }
    int status;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int write_text(const char *command, const char *path, const char *text, size_t size)
{
    size_t n = strlen(path) + 16;
    char *part = malloc(n);

    if (!part)
        return complain(command, "out of memory");
    /* A file of its own beside it, moved into place; what is no plain file (/dev/stdout, a pipe) is written as it is. */
    struct stat st;
    bool special = stat(path, &st) == 0 && !S_ISREG(st.st_mode);
    snprintf(part, n, special ? "%s" : "%s.%ld~", path, (long)getpid());
    FILE *f = fopen(part, "wb");
    bool good = f && fwrite(text, 1, size, f) == size;
    int error = errno;
    if (f && fclose(f) != 0) {
        error = good ? errno : error;
        good = false;
    }
    if (good && !special && rename(part, path) != 0) {
        error = errno;
        good = false;
    }
    if (!good && f && !special)
        unlink(part);
    free(part);
    return good ? 0 : complain(command, "expected to write '%s': %s", path, strerror(error));
}

char *read_text(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    struct stat st;
    char *text = NULL;

    if (!f)
        return NULL;
    if (fstat(fileno(f), &st) == 0 && S_ISREG(st.st_mode) && (text = malloc((size_t)st.st_size + 1))) {
        if (fread(text, 1, (size_t)st.st_size, f) == (size_t)st.st_size) {
            text[st.st_size] = '\0';
            *size = (size_t)st.st_size;
        } else {
            free(text);
            text = NULL;
        }
    }
    fclose(f);
    return text;
}

bool has_suffix(const char *text, const char *suffix)
{
    size_t n = strlen(text), m = strlen(suffix);

    return n >= m && !strcmp(text + n - m, suffix);
}
