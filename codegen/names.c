/* codegen/names.c: identifiers, comments and string literals from the names of a model.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "codegen/names.h"

#include <stdlib.h>
#include <string.h>

/* Words an identifier must not be, sorted (strcmp order): keywords of C and C++, macros that compilers and the included
 * headers define, functions and types of the C library, builtins of gcc and clang with their usual suffixes. */
static const char *const reserved[] = {
    "BUFSIZ", "CHAR_BIT", "CLOCKS_PER_SEC", "CMPLX", "DOMAIN", "EOF", "EXIT_FAILURE", "EXIT_SUCCESS", "FALSE",
    "FLT_EVAL_METHOD", "FP_CONTRACT", "HUGE", "HUGE_VAL", "HUGE_VALF", "HUGE_VALL", "I", "INFINITY", "LONG_MAX",
    "NAN", "NDEBUG", "NULL", "OVERFLOW", "PLOSS", "RAND_MAX", "SING", "SIZE_MAX", "TLOSS", "TRUE", "UNDERFLOW",
    "abort", "abs", "accept", "access", "acos", "acosf", "acosh", "acoshf", "acoshl", "acosl", "alignas",
    "aligned_alloc", "alignof", "alloca", "and", "and_eq", "arm", "asctime", "asin", "asinf", "asinh", "asinhf",
    "asinhl", "asinl", "asm", "assert", "atan", "atan2", "atan2f", "atan2l", "atanf", "atanh", "atanhf", "atanhl",
    "atanl", "atexit", "atof", "atoi", "atol", "atoll", "auto", "bcmp", "bcopy", "bitand", "bitor", "bool", "break",
    "bsearch", "bzero", "cabs", "cabsf", "cabsl", "cacos", "cacosf", "cacosh", "cacoshf", "cacoshl", "cacosl",
    "calloc", "carg", "cargf", "cargl", "case", "casin", "casinf", "casinh", "casinhf", "casinhl", "casinl",
    "catan", "catanf", "catanh", "catanhf", "catanhl", "catanl", "catch", "cbrt", "cbrtf", "cbrtl", "ccos", "ccosf",
    "ccosh", "ccoshf", "ccoshl", "ccosl", "ceil", "ceilf", "ceill", "cexp", "cexpf", "cexpl", "char", "char16_t",
    "char32_t", "char8_t", "cimag", "cimagf", "cimagl", "class", "clearerr", "clock", "clog", "clog10", "clog10f",
    "clog10l", "clogf", "clogl", "co_await", "co_return", "co_yield", "compl", "complex", "concept", "conj",
    "conjf", "conjl", "const", "const_cast", "consteval", "constexpr", "constinit", "continue", "copysign",
    "copysignf", "copysignl", "cos", "cosf", "cosh", "coshf", "coshl", "cosl", "cpow", "cpowf", "cpowl", "cproj",
    "cprojf", "cprojl", "creal", "crealf", "creall", "csin", "csinf", "csinh", "csinhf", "csinhl", "csinl", "csqrt",
    "csqrtf", "csqrtl", "ctan", "ctanf", "ctanh", "ctanhf", "ctanhl", "ctanl", "ctime", "daddl", "dcgettext",
    "decltype", "default", "delete", "dgettext", "difftime", "div", "do", "double", "drem", "dremf", "dreml",
    "dynamic_cast", "elif", "else", "endif", "enum", "environ", "erf", "erfc", "erfcf", "erfcl", "erff", "erfl",
    "errno", "execl", "execle", "execlp", "execv", "execve", "execvp", "exit", "exp", "exp10", "exp10f", "exp10l",
    "exp2", "exp2f", "exp2l", "expf", "expl", "explicit", "explicit_bzero", "expm1", "expm1f", "expm1l", "export",
    "extern", "fabs", "fabsf", "fabsl", "false", "fclose", "fdim", "fdimf", "fdiml", "feclearexcept", "fegetexcept",
    "feof", "feraiseexcept", "ferror", "fetestexcept", "fflush", "ffs", "ffsl", "ffsll", "fgetc", "fgetpos",
    "fgets", "final", "finite", "finitef", "finitel", "float", "float_t", "floor", "floorf", "floorl", "fma",
    "fmaf", "fmal", "fmax", "fmaxf", "fmaxl", "fmin", "fminf", "fminl", "fmod", "fmodf", "fmodl", "fopen", "for",
    "fork", "fpclassify", "fprintf", "fprintf_unlocked", "fputc", "fputc_unlocked", "fputs", "fputs_unlocked",
    "fread", "free", "freopen", "frexp", "frexpf", "frexpl", "friend", "fscanf", "fseek", "fsetpos", "ftell",
    "fwrite", "fwrite_unlocked", "gamma", "gamma_r", "gammaf", "gammaf_r", "gammal", "gammal_r", "getc", "getchar",
    "getenv", "gets", "gettext", "gmtime", "goto", "hypot", "hypotf", "hypotl", "i386", "if", "ilogb", "ilogbf",
    "ilogbl", "imaxabs", "imaxdiv", "import", "index", "inline", "int", "int16_t", "int32_t", "int64_t", "int8_t",
    "intmax_t", "intptr_t", "isalnum", "isalpha", "isascii", "isblank", "iscntrl", "isdigit", "isfinite", "isgraph",
    "isgreater", "isgreaterequal", "isinf", "isinff", "isinfl", "isless", "islessequal", "islessgreater", "islower",
    "isnan", "isnanf", "isnanl", "isnormal", "isprint", "ispunct", "isspace", "isunordered", "isupper", "iswalnum",
    "iswalpha", "iswblank", "iswcntrl", "iswdigit", "iswgraph", "iswlower", "iswprint", "iswpunct", "iswspace",
    "iswupper", "iswxdigit", "isxdigit", "j0", "j0f", "j0l", "j1", "j1f", "j1l", "jn", "jnf", "jnl", "labs",
    "ldexp", "ldexpf", "ldexpl", "ldiv", "lgamma", "lgamma_r", "lgammaf", "lgammaf_r", "lgammal", "lgammal_r",
    "linux", "llabs", "lldiv", "llrint", "llrintf", "llrintl", "llround", "llroundf", "llroundl", "localtime",
    "log", "log10", "log10f", "log10l", "log1p", "log1pf", "log1pl", "log2", "log2f", "log2l", "logb", "logbf",
    "logbl", "logf", "logl", "long", "longjmp", "lrint", "lrintf", "lrintl", "lround", "lroundf", "lroundl", "main",
    "malloc", "matherr", "max_align_t", "mblen", "mbstowcs", "mbtowc", "memccpy", "memchr", "memcmp", "memcpy",
    "memmove", "mempcpy", "memset", "mktime", "modf", "modff", "modfl", "module", "mutable", "namespace", "nan",
    "nanf", "nanl", "nearbyint", "nearbyintf", "nearbyintl", "new", "nextafter", "nextafterf", "nextafterl",
    "nexttoward", "nexttowardf", "nexttowardl", "noexcept", "noreturn", "not", "not_eq", "nullptr", "offsetof",
    "operator", "or", "or_eq", "override", "perror", "posix_memalign", "pow", "pow10", "pow10f", "pow10l", "powf",
    "powl", "printf", "printf_unlocked", "private", "protected", "ptrdiff_t", "public", "putc", "putchar", "puts",
    "qsort", "raise", "rand", "read", "realloc", "register", "reinterpret_cast", "remainder", "remainderf",
    "remainderl", "remove", "remquo", "remquof", "remquol", "rename", "requires", "restrict", "return", "rewind",
    "rindex", "rint", "rintf", "rintl", "round", "roundeven", "roundevenf", "roundevenl", "roundf", "roundl",
    "scalb", "scalbf", "scalbl", "scalbln", "scalblnf", "scalblnl", "scalbn", "scalbnf", "scalbnl", "scanf",
    "select", "setbuf", "setjmp", "setvbuf", "short", "signal", "signbit", "signbitf", "signbitl", "signed",
    "signgam", "significand", "significandf", "significandl", "sin", "sincos", "sincosf", "sincosl", "sinf", "sinh",
    "sinhf", "sinhl", "sinl", "size_t", "sizeof", "snprintf", "sprintf", "sqrt", "sqrtf", "sqrtl", "srand",
    "sscanf", "ssize_t", "static", "static_assert", "static_cast", "stderr", "stdin", "stdout", "stpcpy", "stpncpy",
    "strcasecmp", "strcat", "strchr", "strcmp", "strcoll", "strcpy", "strcspn", "strdup", "strerror", "strfmon",
    "strftime", "strlen", "strncasecmp", "strncat", "strncmp", "strncpy", "strndup", "strnlen", "strpbrk",
    "strrchr", "strsep", "strspn", "strstr", "strtod", "strtof", "strtok", "strtol", "strtold", "strtoll",
    "strtoul", "strtoull", "struct", "strxfrm", "swab", "switch", "system", "tan", "tanf", "tanh", "tanhf", "tanhl",
    "tanl", "template", "tgamma", "tgammaf", "tgammal", "this", "thread_local", "throw", "time", "tmpfile",
    "tmpnam", "toascii", "tolower", "toupper", "towlower", "towupper", "true", "trunc", "truncf", "truncl", "try",
    "typedef", "typeid", "typename", "typeof", "typeof_unqual", "uint16_t", "uint32_t", "uint64_t", "uint8_t",
    "uintmax_t", "uintptr_t", "ungetc", "union", "unix", "unsigned", "using", "va_arg", "va_copy", "va_end",
    "va_list", "va_start", "vfprintf", "vfscanf", "virtual", "void", "volatile", "vprintf", "vscanf", "vsnprintf",
    "vsprintf", "vsscanf", "wchar_t", "wcstombs", "wctomb", "while", "wint_t", "write", "xor", "xor_eq", "y0",
    "y0f", "y0l", "y1", "y1f", "y1l", "yn", "ynf", "ynl",
};

/* Headers that the emitted files include, or that those include; sorted. */
static const char *const headers[] = {
    "_ansi", "alloca", "arm_neon", "assert", "complex", "cpuid", "ctype", "elf", "emmintrin", "endian", "errno",
    "fcntl", "features", "fenv", "float", "immintrin", "inttypes", "iso646", "limits", "link", "locale", "malloc",
    "math", "memory", "mm_malloc", "mmintrin", "newlib", "omp", "picolibc", "pthread", "reent", "sched", "setjmp",
    "signal", "stdalign", "stdarg", "stdatomic", "stdbool", "stddef", "stdint", "stdio", "stdlib", "stdnoreturn",
    "string", "strings", "tgmath", "threads", "time", "uchar", "unistd", "values", "wchar", "wctype", "xlocale",
    "xmmintrin",
};

static int by_text(const void *a, const void *b)
{
    return strcmp(a, *(const char *const *)b);
}

bool fx_header_reserved(const char *s)
{
    return bsearch(s, headers, sizeof headers / sizeof headers[0], sizeof headers[0], by_text) != NULL;
}

static bool starts(const char *s, const char *with)
{
    return strncmp(s, with, strlen(with)) == 0;
}

static bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
static bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* Macros of stdint.h, inttypes.h, float.h and math.h come in families: INT32_MAX, UINT8_C, FLT_EPSILON, M_PI, FP_NAN. Rather
 * than listing them, all-capital names with such a start are left to them. */
static bool is_macro_family(const char *s)
{
    static const char *const family[] = {"INT", "UINT", "PTRDIFF_", "SIG_", "SIZE_", "WCHAR_", "WINT_", "FLT_", "DBL_",
                                         "LDBL_", "M_", "FP_", "PRI", "SCN", "MATH_", "CHAR_", "LC_", "SEEK_", "OMP_"};
    for (const char *c = s; *c; c++)
        if (is_lower(*c))
            return false;
    for (size_t i = 0; i < sizeof family / sizeof family[0]; i++)
        if (starts(s, family[i]))
            return true;
    return false;
}

/* Intrinsics of arm_neon.h look like vaddq_f32. */
static bool is_intrinsic(const char *s)
{
    const char *u = strrchr(s, '_');
    return s[0] == 'v' && u && (u[1] == 'f' || u[1] == 's' || u[1] == 'u' || u[1] == 'p') && is_digit(u[2]);
}

bool fx_ident_reserved(const char *s)
{
    size_t n = strlen(s);
    if (s[0] == '_' || strstr(s, "__"))
        return true;
    if (n >= 2 && strcmp(s + n - 2, "_t") == 0)
        return true; /* POSIX, arm_neon.h and later C standards */
    if (starts(s, "fxrt") || starts(s, "FXRT") || starts(s, "fxcc") || starts(s, "FXCC"))
        return true;
    if (is_macro_family(s) || is_intrinsic(s))
        return true;
    return bsearch(s, reserved, sizeof reserved / sizeof reserved[0], sizeof reserved[0], by_text) != NULL;
}

void fx_ident(char out[FX_IDENT_MAX + 1], const char *text, int max, const char *fallback)
{
    int n = 0;
    bool gap = false; /* characters that cannot stand: one underscore for a run of them, none at the ends */
    if (max > FX_IDENT_MAX)
        max = FX_IDENT_MAX;
    for (const char *c = text ? text : ""; *c && n < max; c++) {
        if (!is_upper(*c) && !is_lower(*c) && !is_digit(*c)) {
            gap = true;
            continue;
        }
        if (n == 0 && is_digit(*c) && n < max)
            out[n++] = 'n';
        if (gap && n > 0 && n < max)
            out[n++] = '_';
        gap = false;
        if (n < max)
            out[n++] = *c;
    }
    while (n > 0 && out[n - 1] == '_')
        n--;
    out[n] = 0;
    if (n == 0) {
        n = (int)strlen(fallback);
        if (n > max)
            n = max;
        memcpy(out, fallback, (size_t)n);
        out[n] = 0;
    }
    if (fx_ident_reserved(out)) { /* "exp" -> "exp_v", "FLT_MAX" -> "v_FLT_MAX" ... whichever is free of rules */
        char trial[FX_IDENT_MAX + 1];
        int keep = n > max - 2 ? max - 2 : n;
        while (keep > 0 && out[keep - 1] == '_')
            keep--;
        snprintf(trial, sizeof trial, "%.*s_v", keep, out);
        if (fx_ident_reserved(trial))
            snprintf(trial, sizeof trial, "m_%.*s", keep, out);
        if (fx_ident_reserved(trial)) /* "x_t": neither end helps alone */
            snprintf(trial, sizeof trial, "m_%.*s", keep > 2 ? keep - 2 : 0, out);
        memcpy(out, trial, sizeof trial);
    }
}

/* ---- sets of names ---- */

static size_t hash_text(const char *s)
{
    uint64_t h = 14695981039346656037u;
    for (; *s; s++)
        h = (h ^ (unsigned char)*s) * 1099511628211u;
    return (size_t)(h ^ h >> 32);
}

void fx_names_init(fx_names *s, fx_arena *arena, const fx_names *outer)
{
    *s = (fx_names){.arena = arena, .outer = outer};
}

static const char *find(const fx_names *s, const char *name)
{
    if (!s->cap)
        return NULL;
    for (size_t i = hash_text(name) & (s->cap - 1); s->slot[i]; i = (i + 1) & (s->cap - 1))
        if (strcmp(s->slot[i], name) == 0)
            return s->slot[i];
    return NULL;
}

bool fx_names_has(const fx_names *s, const char *name)
{
    for (; s; s = s->outer)
        if (find(s, name))
            return true;
    return false;
}

static void put_slot(const char **slot, size_t cap, const char *name)
{
    size_t i = hash_text(name) & (cap - 1);
    while (slot[i])
        i = (i + 1) & (cap - 1);
    slot[i] = name;
}

const char *fx_names_take(fx_names *s, const char *name)
{
    const char *there = find(s, name);
    if (there)
        return there;
    if (2 * (s->n + 1) > s->cap) {
        size_t cap = s->cap ? 2 * s->cap : 32;
        const char **slot = FX_NEW_ARRAY(s->arena, const char *, cap);
        for (size_t i = 0; i < s->cap; i++)
            if (s->slot[i])
                put_slot(slot, cap, s->slot[i]);
        s->slot = slot;
        s->cap = cap;
    }
    name = fx_arena_dup(s->arena, name, strlen(name) + 1);
    put_slot(s->slot, s->cap, name);
    s->n++;
    return name;
}

const char *fx_names_make(fx_names *s, const char *want, int max, const char *fallback)
{
    char id[FX_IDENT_MAX + 1], trial[FX_IDENT_MAX + 16];
    fx_ident(id, want, max, fallback);
    strcpy(trial, id);
    for (unsigned long i = 2; fx_names_has(s, trial) || fx_ident_reserved(trial); i++) {
        char number[16];
        int n = (int)strlen(id);
        /* "conv" -> "conv2", but "conv1" -> "conv1_2" */
        int len = snprintf(number, sizeof number, n && is_digit(id[n - 1]) ? "_%lu" : "%lu", i);
        int keep = n + len > max ? max - len : n;
        while (keep > 0 && (id[keep - 1] == '_' || (keep < n && is_digit(id[keep - 1]))))
            keep--;
        snprintf(trial, sizeof trial, "%.*s%s", keep, id, number);
    }
    return fx_names_take(s, trial);
}

/* ---- comments and strings ---- */

/* Decodes one UTF-8 character; an invalid byte counts as itself. */
static unsigned next_char(const char **s)
{
    const unsigned char *p = (const unsigned char *)*s;
    int n = p[0] < 0x80 ? 0 : p[0] >= 0xf0 && p[0] < 0xf5 ? 3 : p[0] >= 0xe0 ? (p[0] < 0xf0 ? 2 : 0) : p[0] >= 0xc2 ? 1 : 0;
    unsigned c = n == 0 ? p[0] : n == 1 ? p[0] & 0x1fu : n == 2 ? p[0] & 0xfu : p[0] & 7u;
    for (int i = 1; i <= n; i++) {
        if ((p[i] & 0xc0) != 0x80) {
            c = p[0];
            n = 0;
            break;
        }
        c = c << 6 | (p[i] & 0x3fu);
    }
    *s += n + 1;
    return c;
}

void fx_put_comment(fx_text *t, const char *s, size_t max)
{
    size_t n = 0;
    char last = ' ';
    if (!s)
        return;
    while (*s && n < max) {
        unsigned c = next_char(&s);
        char one[2] = {(char)c, 0};
        if (c >= 0x80) {
            char u[16];
            n += (size_t)snprintf(u, sizeof u, "<U+%04X>", c);
            fx_puts(t, u);
            last = '>';
            continue;
        }
        if (c < 0x20 || c == 0x7f)
            one[0] = ' ';
        else if (c == '\\')
            one[0] = '/';
        if (one[0] == ' ' && last == ' ') /* runs of blanks, and those at the start */
            continue;
        if ((last == '*' && one[0] == '/') || (last == '/' && (one[0] == '*' || one[0] == '/')) || (last == '?' && one[0] == '?')) {
            fx_puts(t, " ");
            n++;
        }
        fx_puts(t, one);
        last = one[0];
        n++;
    }
    if (*s)
        fx_puts(t, " ...");
    else if (last == '*' || last == '/') /* what follows might complete it */
        fx_puts(t, " ");
}

void fx_put_c_string(fx_text *t, const char *s, size_t max)
{
    fx_puts(t, "\"");
    for (size_t n = 0; s && s[n] && n < max; n++) {
        unsigned char c = (unsigned char)s[n];
        if (c < 0x20 || c >= 0x7f || c == '"' || c == '\\' || c == '?' || c == '%')
            fx_printf(t, "\\%03o", c);
        else
            fx_putn(t, s + n, 1);
    }
    fx_puts(t, "\"");
}

const char *fx_upper(fx_arena *arena, const char *s)
{
    char *u = fx_arena_dup(arena, s, strlen(s) + 1);
    for (char *c = u; *c; c++)
        if (is_lower(*c))
            *c = (char)(*c - 'a' + 'A');
    return u;
}
