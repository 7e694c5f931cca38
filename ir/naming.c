/* ir/naming.c: names of nodes by FX's rules (torch.fx.graph._Namespace as of torch 2.13).
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <stdlib.h>
#include <string.h>

#include "ir/context.h"

/* ---- reserved words ---------------------------------------------------------------------------------------------------- */

static int compare(const void *key, const void *entry)
{
    return strcmp(key, *(const char *const *)entry);
}

#define IN_SORTED(name, list) (bsearch((name), (list), sizeof (list) / sizeof *(list), sizeof *(list), compare) != NULL)

bool fx_is_python_keyword(const char *name)
{
    static const char *const keywords[] = {
        "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue", "def", "del", "elif", "else",
        "except", "finally", "for", "from", "global", "if", "import", "in", "is", "lambda", "nonlocal", "not", "or", "pass", "raise",
        "return", "try", "while", "with", "yield"};
    const char *end = name; /* they are of letters alone */
    while ((*end >= 'a' && *end <= 'z') || (*end >= 'A' && *end <= 'Z'))
        end++;
    return *end == '\0' && IN_SORTED(name, keywords);
}

/* What a node's name would hide in the code that FX prints: keywords, Python's builtins, and what that code imports. */
static bool is_reserved(const char *name)
{
    static const char *const reserved[] = {
        "ArithmeticError", "AssertionError", "AttributeError", "BaseException", "BaseExceptionGroup", "BlockingIOError",
        "BrokenPipeError", "BufferError", "BytesWarning", "ChildProcessError", "ConnectionAbortedError", "ConnectionError",
        "ConnectionRefusedError", "ConnectionResetError", "DeprecationWarning", "EOFError", "Ellipsis", "EncodingWarning",
        "EnvironmentError", "Exception", "ExceptionGroup", "False", "FileExistsError", "FileNotFoundError", "FloatingPointError",
        "FutureWarning", "GeneratorExit", "IOError", "ImportError", "ImportWarning", "IndentationError", "IndexError",
        "InterruptedError", "IsADirectoryError", "KeyError", "KeyboardInterrupt", "LookupError", "MemoryError", "ModuleNotFoundError",
        "NameError", "None", "NoneType", "NotADirectoryError", "NotImplemented", "NotImplementedError", "OSError", "OverflowError",
        "PendingDeprecationWarning", "PermissionError", "ProcessLookupError", "RecursionError", "ReferenceError", "ResourceWarning",
        "RuntimeError", "RuntimeWarning", "StopAsyncIteration", "StopIteration", "SyntaxError", "SyntaxWarning", "SystemError",
        "SystemExit", "TabError", "TimeoutError", "True", "TypeError", "UnboundLocalError", "UnicodeDecodeError", "UnicodeEncodeError",
        "UnicodeError", "UnicodeTranslateError", "UnicodeWarning", "UserWarning", "ValueError", "Warning", "ZeroDivisionError",
        "__build_class__", "__debug__", "__doc__", "__import__", "__loader__", "__name__", "__package__", "__spec__", "abs", "aiter",
        "all", "and", "anext", "any", "as", "ascii", "assert", "async", "await", "bin", "bool", "break", "breakpoint", "bytearray",
        "bytes", "callable", "chr", "class", "classmethod", "compile", "complex", "continue", "copyright", "credits", "def", "del",
        "delattr", "device", "dict", "dir", "divmod", "elif", "else", "enumerate", "eval", "except", "exec", "exit", "filter",
        "finally", "float", "for", "format", "from", "frozenset", "fx_pytree", "getattr", "global", "globals", "hasattr", "hash",
        "help", "hex", "id", "if", "import", "in", "inf", "input", "int", "is", "isinstance", "issubclass", "iter", "lambda", "len",
        "license", "list", "locals", "map", "max", "memoryview", "min", "nan", "next", "nonlocal", "not", "object", "oct", "open", "or",
        "ord", "pass", "pow", "print", "property", "pytree", "quit", "raise", "range", "repr", "return", "reversed", "round", "set",
        "setattr", "slice", "sorted", "staticmethod", "str", "sum", "super", "torch", "try", "tuple", "type", "vars", "while", "with",
        "yield", "zip"};
    return IN_SORTED(name, reserved);
}

/* ---- candidates ----------------------------------------------------------------------------------------------------------- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_word(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

bool fx_is_identifier(const char *name)
{
    if (!name || !*name || is_digit(*name))
        return false;
    while (is_word(*name))
        name++;
    return *name == '\0';
}

/* A Python identifier from any text: each run of illegal bytes becomes "_". */
static const char *identifier(fx_context *ctx, const char *text)
{
    size_t n = strlen(text), k = 0;
    char small[256], *out = n + 2 <= sizeof small ? small : fx_arena_alloc(ctx->arena, n + 2);
    if (is_digit(*text))
        out[k++] = '_';
    for (const char *p = text; *p; p++) {
        if (is_word(*p))
            out[k++] = *p;
        else if (p == text || is_word(p[-1]))
            out[k++] = '_';
    }
    return k == 0 ? fx_intern(ctx, "_unnamed") : fx_intern_n(ctx, out, k);
}

/* A candidate from a target: a function's own name ("_operator.mul" -> "mul"; "aten.relu_.default" -> "relu_", as make_fx and
 * torch.export name them), or the whole path of a module or attribute, or a method without the underscores of "__add__"; lower case
 * with "_" before capitals. */
static const char *candidate(fx_context *ctx, fx_opcode opcode, const char *target)
{
    const char *p = target;
    size_t n = strlen(p);
    if (opcode == FX_CALL_FUNCTION) {
        static const char *const spaces[] = {"torch.ops.aten.", "aten."};
        bool packet = false;
        for (size_t i = 0; i < 2 && !packet; i++)
            if (strncmp(p, spaces[i], strlen(spaces[i])) == 0) {
                p += strlen(spaces[i]);
                n = strcspn(p, ".");
                packet = true;
            }
        const char *dot = packet ? NULL : strrchr(p, '.');
        if (dot && dot[1]) {
            p = dot + 1;
            n = strlen(p);
        }
    } else if (n >= 2 && strncmp(p, "__", 2) == 0 && strncmp(p + n - 2, "__", 2) == 0) {
        p += 2;
        n = n < 4 ? 0 : n - 4;
    }
    if (n > 2000)
        n = 2000;
    char small[256], *out = 2 * n < sizeof small ? small : fx_arena_alloc(ctx->arena, 2 * n + 1);
    size_t k = 0;
    for (size_t i = 0; i < n; i++) {
        bool capital = p[i] >= 'A' && p[i] <= 'Z';
        if (capital && i > 0 && p[i - 1] >= 'a' && p[i - 1] <= 'z')
            out[k++] = '_';
        out[k++] = capital ? (char)(p[i] - 'A' + 'a') : p[i];
    }
    out[k] = '\0';
    return identifier(ctx, out);
}

/* ---- unique names --------------------------------------------------------------------------------------------------------- */

/* "base_num", interned. The most common formatting there is, so not by printf. */
static const char *numbered_name(fx_context *ctx, const char *base, uintptr_t num, bool *fresh)
{
    char buf[256], *p = buf + sizeof buf;
    size_t n = strlen(base);
    *fresh = false;
    if (n > sizeof buf - 24)
        return fx_intern_f(ctx, "%s_%zu", base, (size_t)num);
    do
        *--p = (char)('0' + num % 10);
    while (num /= 10);
    *--p = '_';
    p -= n;
    memcpy(p, base, n);
    return fx_intern_fresh(ctx, p, (size_t)(buf + sizeof buf - p), fresh);
}

/* FX's create_name: the candidate (an interned identifier) if it is free, else its base with the next number. A number of more than
 * nine digits is part of the base (FX counts on from any). */
static fx_name unique(fx_graph *g, const char *name, bool reserved)
{
    size_t n = strlen(name), end = n;
    while (end > 0 && is_digit(name[end - 1]))
        end--;
    uintptr_t num = 0;
    bool numbered = end < n && n - end <= 9 && end > 1 && name[end - 1] == '_';
    const char *base = numbered ? fx_intern_n(g->ctx, name, end - 1) : name;
    for (size_t i = end; numbered && i < n; i++)
        num = num * 10 + (uintptr_t)(name[i] - '0');
    bool taken = fx_map_get(&g->by_name, name) != NULL;
    if (!numbered || taken) {
        num = (uintptr_t)fx_map_get(&g->name_counts, base);
        taken = taken || reserved;
    }
    while (taken) {
        bool fresh; /* a string nobody had before is no node's name */
        name = numbered_name(g->ctx, base, ++num, &fresh);
        taken = !fresh && fx_map_get(&g->by_name, name) != NULL;
    }
    return (fx_name){name, base, num};
}

fx_name fx_name_make(fx_graph *g, fx_opcode opcode, const char *target, fx_target_facts *info, const char *given, bool keep)
{
    const char *name;
    bool reserved;
    if (given) {
        name = identifier(g->ctx, given);
        reserved = keep ? fx_is_python_keyword(name) : is_reserved(name);
    } else if (opcode != FX_CALL_FUNCTION) {
        name = candidate(g->ctx, opcode, target);
        reserved = is_reserved(name);
    } else {
        if (!info->base) {
            info->base = candidate(g->ctx, FX_CALL_FUNCTION, target);
            info->reserved = is_reserved(info->base);
        }
        name = info->base;
        reserved = info->reserved;
    }
    fx_name made = unique(g, name, reserved);
    fx_map_reserve(g->arena, &g->by_name, 1);
    fx_map_reserve(g->arena, &g->name_counts, 1);
    return made;
}

void fx_name_take(fx_graph *g, const fx_name *name, fx_node *n)
{
    n->name = n->loc.node = name->name;
    fx_map_put(g->arena, &g->by_name, name->name, n);
    if (name->num || fx_map_get(&g->name_counts, name->base))
        fx_map_put(g->arena, &g->name_counts, name->base, (void *)name->num);
}
