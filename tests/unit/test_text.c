/* tests/unit/test_text.c: runs tests/text: one readable file a case.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 *   NAME.fx     a graph, NAME.prog a loop program. Lines that begin with `//` say what the case is about. What follows must be
 *               read, and print back to the byte.
 *   // verify: STAGE      (.fx) it also verifies at this stage; (.prog) it also verifies: built or planned
 *   // error: MESSAGE     reading or verifying fails with exactly this message
 *
 * FXCC_BLESS=1 writes what came out into the files instead of failing. Other files can be given as arguments. */
#include <dirent.h>

#include "ir/program.h"
#include "tests/unit/unit.h"

static char **paths;
static int n_paths;

static bool ends(const char *s, const char *suffix)
{
    size_t n = strlen(s), k = strlen(suffix);
    return n >= k && strcmp(s + n - k, suffix) == 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void find_cases(const char *dir)
{
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d));) {
        if (!ends(e->d_name, ".fx") && !ends(e->d_name, ".prog"))
            continue;
        char *path = malloc(strlen(dir) + strlen(e->d_name) + 2);
        sprintf(path, "%s/%s", dir, e->d_name);
        paths = realloc(paths, (size_t)(n_paths + 1) * sizeof *paths);
        paths[n_paths++] = path;
    }
    if (d)
        closedir(d);
    qsort(paths, (size_t)n_paths, sizeof *paths, by_name);
}

static char *read_file(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    ck_assert_msg(f != NULL, "cannot read %s", path);
    char *text = NULL;
    size_t n = 0, got;
    do {
        text = realloc(text, n + 65537);
        got = fread(text + n, 1, 65536, f);
        n += got;
    } while (got > 0);
    text[n] = 0;
    fclose(f);
    *size = n;
    return text;
}

/* The value of a directive among the leading comment lines; NULL if it is not there. */
static char *directive(const char *text, const char *body, const char *key)
{
    for (const char *line = text; line < body; line = strchr(line, '\n') + 1) {
        size_t n = strlen(key);
        if (strncmp(line + 2, key, n) == 0)
            return strndup(line + 2 + n, strcspn(line + 2 + n, "\n"));
    }
    return NULL;
}

static fx_status run_case(fx_context *ctx, const char *path, const char *text, size_t size, const char *verify, fx_text *out)
{
    fx_graph *g;
    fx_program *p;
    fx_text_init(out, fx_context_arena(ctx));
    fx_puts(out, "");
    if (ends(path, ".fx")) {
        FX_TRY(fx_graph_parse(ctx, NULL, text, size, &g));
        fx_graph_print(out, g);
        for (int i = 0; verify && i <= FX_STAGE_CORE; i++) {
            if (strcmp(verify, fx_stage_name((fx_stage)i)) == 0)
                return fx_graph_verify(g, (fx_stage)i, "test");
        }
        return FX_OK;
    }
    FX_TRY(fx_program_parse(ctx, NULL, text, size, &p));
    fx_program_print(out, p);
    return verify ? fx_program_verify(p, strcmp(verify, "planned") == 0, "test") : FX_OK;
}

START_TEST(text_case)
{
    const char *path = paths[_i];
    size_t size;
    char *text = read_file(path, &size), *body = text;
    while (strncmp(body, "//", 2) == 0 && strchr(body, '\n'))
        body = strchr(body, '\n') + 1;
    char *verify = directive(text, body, " verify: "), *error = directive(text, body, " error: ");
    fx_context *ctx = fx_context_create();
    fx_text out;
    fx_status st = run_case(ctx, path, body, size - (size_t)(body - text), verify, &out);
    const char *message = fx_diag_count(ctx) ? fx_diag_get(ctx, 0)->message : "";
    bool as_expected = error ? st != FX_OK && strcmp(message, error) == 0 : st == FX_OK && strcmp(out.data, body) == 0;
    if (!as_expected && getenv("FXCC_BLESS")) {
        FILE *f = fopen(path, "wb");
        for (const char *line = text; line < body; line = strchr(line, '\n') + 1) {
            if (strncmp(line, "// error: ", 10) != 0)
                fprintf(f, "%.*s\n", (int)strcspn(line, "\n"), line);
        }
        if (st != FX_OK)
            fprintf(f, "// error: %s\n%s", message, body);
        else
            fputs(out.data, f);
        fclose(f);
    } else if (error) {
        ck_assert_msg(st != FX_OK, "%s: expected the error '%s'", path, error);
        ck_assert_msg(as_expected, "%s: expected the error '%s', got '%s'", path, error, message);
    } else {
        ck_assert_msg(st == FX_OK, "%s: %s", path, message);
        ck_assert_msg(as_expected, "%s prints as:\n%s", path, out.data);
    }
    fx_context_free(ctx);
    free(text);
    free(verify);
    free(error);
}
END_TEST

static void add_tests(TCase *t)
{
    tcase_add_loop_test(t, text_case, 0, n_paths);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        paths = realloc(paths, (size_t)(n_paths + 1) * sizeof *paths);
        paths[n_paths++] = strdup(argv[i]);
    }
    if (argc == 1)
        find_cases(FXCC_SOURCE_DIR "/tests/text");
    int failed = unit_run("text", 60, NULL, NULL, add_tests);
    for (int i = 0; i < n_paths; i++)
        free(paths[i]);
    free(paths);
    return failed || n_paths == 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
