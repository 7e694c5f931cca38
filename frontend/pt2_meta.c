/* frontend/pt2_meta.c: where a node comes from: module path, module classes and the Python line, from a node's metadata.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "frontend/pt2.h"

/* "L['self'].layer1[0].conv" and "layer1.0.conv@1" to "layer1.0.conv". */
static const char *module_path(fx_pt2 *p, const char *s, size_t n)
{
    static const char self[] = "L['self']";
    if (n >= sizeof self - 1 && !memcmp(s, self, sizeof self - 1)) {
        s += sizeof self - 1;
        n -= sizeof self - 1;
    }
    char *out = fx_arena_alloc(p->tmp, n + 1);
    size_t len = 0;
    bool inside = false; /* of brackets */
    for (size_t i = 0; i < n; i++) {
        char c = s[i];
        if (c == '@' && !inside) /* the second and later calls of a module */
            break;
        if (c == '[' || c == ']') {
            inside = c == '[';
            c = '.';
        } else if (inside && (c == '\'' || c == '"')) {
            continue;
        }
        if (c == '.' && (len == 0 || out[len - 1] == '.'))
            continue;
        out[len++] = c;
    }
    if (len && out[len - 1] == '.')
        len--;
    return fx_intern_n(p->ctx, out, len);
}

/* "key,path,class;key,path,class": the last is the innermost. Paths may hold commas only in brackets. */
static void read_modules(fx_pt2 *p, fx_graph *g, const char *stack, fx_loc *loc)
{
    for (const char *item = stack, *next; *item; item = next) {
        const char *end = strchr(item, ';');
        next = end ? end + 1 : item + strlen(item);
        if (!end)
            end = next;
        const char *path = memchr(item, ',', (size_t)(end - item));
        const char *class_name = end;
        while (class_name > item && class_name[-1] != ',')
            class_name--;
        bool none = !strncmp(item, "_empty_nn_module_stack", 22); /* export's word for a node of its own making */
        if (!path || class_name <= path + 1 || none)
            continue;
        path++;
        const char *name = module_path(p, path, (size_t)(class_name - 1 - path));
        loc->module = *name ? name : NULL;
        fx_module *m = *name ? fx_module_make(g, name) : g->root;
        if (m && !m->class_name)
            m->class_name = fx_intern_n(p->ctx, class_name, (size_t)(end - class_name));
    }
}

/* The last two components: "models/resnet.py". */
static size_t tail(const char *path, size_t n)
{
    int slashes = 0;
    for (size_t i = n; i > 0; i--)
        if ((path[i - 1] == '/' || path[i - 1] == '\\') && ++slashes == 2)
            return i;
    return 0;
}

/* Whether the folder part ("torch/nn/") is on the path, whole components and either kind of slash. */
static bool within(const char *s, size_t n, const char *part)
{
    size_t m = strlen(part);
    for (size_t i = 0; i + m <= n; i++) {
        size_t k = 0;
        while (k < m && (s[i + k] == part[k] || (part[k] == '/' && s[i + k] == '\\')))
            k++;
        if (k == m && (i == 0 || s[i - 1] == '/' || s[i - 1] == '\\'))
            return true;
    }
    return false;
}

/* Whether a file is PyTorch's own, wherever it is installed and also where the path was made relative to it. A folder that is merely
 * called torch is the user's. */
static bool is_torch_file(const char *s, size_t n)
{
    static const char *const folders[] = {"site-packages/torch/", "dist-packages/torch/", "torch/nn/", "torch/fx/", "torch/export/",
        "torch/_export/", "torch/_dynamo/", "torch/_higher_order_ops/", "torch/_functorch/", "torch/utils/", "torch/ao/", "torch/autograd/"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        if (within(s, n, folders[i]))
            return true;
    return false;
}

/* Lines `File "models/resnet.py", line 92, in forward`, innermost last. PyTorch's own frames say little about the model: a layer's
 * is taken when there is no other. */
static const char *read_frame(fx_pt2 *p, const char *trace)
{
    const char *layer = NULL, *model = NULL;
    for (const char *at = strstr(trace, "File \""); at; at = strstr(at + 1, "File \"")) {
        const char *path = at + 6, *end = strstr(path, "\", line "), *newline = strchr(path, '\n');
        if (!end || (newline && newline < end))
            continue;
        size_t n = (size_t)(end - path), skip = tail(path, n), digits = strspn(end + 8, "0123456789");
        if (!digits || digits > 9)
            continue;
        if (*path == '<') /* generated code: it is on no disk */
            continue;
        const char *frame = fx_intern_f(p->ctx, "%.*s:%.*s", n - skip > 200 ? 200 : (int)(n - skip), path + skip, (int)digits, end + 8);
        if (!is_torch_file(path, n))
            model = frame;
        else if (within(path, n, "torch/nn/"))
            layer = frame;
    }
    return model ? model : layer;
}

void fx_pt2_metadata(fx_pt2 *p, fx_graph *g, const fx_json_value *metadata, fx_loc *loc)
{
    const char *stack = fx_json_text(fx_json_get(metadata, "nn_module_stack"));
    const char *trace = fx_json_text(fx_json_get(metadata, "stack_trace"));
    loc->module = loc->frame = NULL;
    if (stack)
        read_modules(p, g, stack, loc);
    if (trace)
        loc->frame = read_frame(p, trace);
}
