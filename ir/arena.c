/* ir/arena.c: contexts, memory by lifetime, and unwinding when memory runs out.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#define _DEFAULT_SOURCE /* madvise */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "ir/context.h"

/* Under AddressSanitizer everything not handed out is poisoned, with a gap between neighbours, so that an overrun inside
 * an arena is found as it would be in malloc's memory. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FX_ASAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define FX_ASAN 1
#endif
#ifdef FX_ASAN
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#define ASAN_UNPOISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#endif

/* Chunks double up to LAST_CHUNK; those of a large arena go on, an eighth of it each from 16 MB on, so that the system can give it large pages. */
enum { ALIGN = 16, FIRST_CHUNK = 4096, LAST_CHUNK = 1 << 16, LARGE = 1 << 24, HUGE_CHUNK = 1 << 25, HUGE_PAGE = 1 << 21, MANY_PAGES = 1 << 22,
       CACHE_LINE = 64 };

typedef struct chunk {
    struct chunk *next;
    size_t size; /* of the data behind this header */
} chunk;

/* A piece that can be given back alone. */
typedef struct block {
    struct block *prev, *next;
    size_t size;
    size_t unused; /* what is behind this header is aligned */
} block;

struct fx_arena {
    fx_context *ctx;
    fx_arena *prev, *next;
    uint64_t serial;
    chunk *chunks;
    block *blocks;
    char *at, *end; /* free part of the chunk in use */
    size_t chunk_size; /* of the next chunk */
    size_t bytes;
};

_Static_assert(sizeof(chunk) % ALIGN == 0 && sizeof(block) % ALIGN == 0, "the data behind a header must be aligned");

/* A graph of a million nodes spans 80,000 small pages, weights of a model 30,000: a walk would wait for their translations. Smaller pieces are better
 * cleared page by page, just before they are used. */
static void ask_large_pages(char *p, size_t size)
{
#ifdef MADV_HUGEPAGE
    if (p && size >= MANY_PAGES) {
        char *start = (char *)(((uintptr_t)p + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE);
        madvise(start, (size_t)(p + size - start) / HUGE_PAGE * HUGE_PAGE, MADV_HUGEPAGE); /* a wish: refusal does no harm */
    }
#else
    (void)p;
    (void)size;
#endif
}

static void *system_alloc(void *user, size_t size)
{
    (void)user;
    char *p = calloc(1, size);
    ask_large_pages(p, size);
    return p;
}

void *fx_aligned_alloc(size_t size)
{
    size_t align = size >= MANY_PAGES ? HUGE_PAGE : CACHE_LINE;
    if (size > PTRDIFF_MAX - HUGE_PAGE)
        return NULL;
    size = (size + (size == 0) + align - 1) / align * align;
    char *p = aligned_alloc(align, size);
    ask_large_pages(p, size);
    return p;
}

static void system_free(void *user, void *p)
{
    (void)user;
    free(p);
}

fx_context *fx_context_create(void)
{
    return fx_context_create_with(system_alloc, system_free, NULL);
}

static fx_status make_arenas(void *arg)
{
    fx_context *ctx = arg;
    ctx->arena = fx_arena_create(ctx);
    ctx->diag_arena = fx_arena_create(ctx);
    ctx->empty_tuple = fx_arg_seq(ctx, FX_ARG_TUPLE, 0, NULL);
    ctx->empty_dict = fx_arg_dict(ctx, 0, NULL, NULL);
    return FX_OK;
}

fx_context *fx_context_create_with(void *(*alloc)(void *user, size_t size), void (*dealloc)(void *user, void *p),
                                   void *user)
{
    fx_context *ctx = alloc(user, sizeof *ctx);
    if (!ctx)
        return NULL;
    ctx->alloc = alloc;
    ctx->dealloc = dealloc;
    ctx->user = user;
    if (fx_protect(ctx, make_arenas, ctx) != FX_OK) {
        fx_context_free(ctx);
        return NULL;
    }
    return ctx;
}

static void run_deferred(fx_context *ctx, fx_deferred **list)
{
    while (*list) {
        fx_deferred *d = *list;
        *list = d->next;
        d->close(d->arg);
        d->next = ctx->free_deferred;
        ctx->free_deferred = d;
    }
}

void fx_context_free(fx_context *ctx)
{
    if (!ctx)
        return;
    run_deferred(ctx, &ctx->deferred);
    while (ctx->storages)
        fx_storage_free(ctx->storages);
    while (ctx->arenas)
        fx_arena_free(ctx->arenas);
    if (ctx->lease) {
        atomic_store(&ctx->lease->over, true);
        fx_lease_end(ctx->lease);
    }
    ctx->dealloc(ctx->user, ctx);
}

/* ---- memory that leaves its context ------------------------------------------------------------------- */

fx_lease *fx_context_lease(fx_context *ctx)
{
    if (!ctx->lease) {
        fx_lease *l = ctx->alloc(ctx->user, sizeof *l);
        if (!l)
            fx_out_of_memory(ctx);
        l->dealloc = ctx->dealloc;
        l->user = ctx->user;
        atomic_init(&l->holders, 1);
        atomic_init(&l->over, false);
        ctx->lease = l;
    }
    atomic_fetch_add(&ctx->lease->holders, 1);
    return ctx->lease;
}

void fx_lease_end(fx_lease *l)
{
    if (l && atomic_fetch_sub(&l->holders, 1) == 1)
        l->dealloc(l->user, l);
}

bool fx_lease_over(const fx_lease *l)
{
    return atomic_load_explicit(&l->over, memory_order_acquire);
}

uint64_t fx_context_serial(const fx_context *ctx)
{
    return ctx->serial;
}

fx_context *fx_context_create_like(fx_context *ctx)
{
    fx_context *other = ctx->alloc(ctx->user, sizeof *other);
    if (!other)
        return NULL;
    other->alloc = ctx->alloc;
    other->dealloc = ctx->dealloc;
    other->user = ctx->user;
    other->apart = ctx->apart;
    return other;
}

void fx_context_move(fx_context *from, uint64_t since, fx_context *to)
{
    while (from->arenas && from->arenas->serial >= since) {
        fx_arena *a = from->arenas;
        from->arenas = a->next;
        if (a->next)
            a->next->prev = NULL;
        a->ctx = to;
        a->next = to->arenas;
        if (a->next)
            a->next->prev = a;
        to->arenas = a;
    }
    while (from->storages && from->storages->serial >= since) {
        fx_storage *s = from->storages;
        from->storages = s->next;
        if (s->next)
            s->next->prev = NULL;
        s->ctx = to;
        s->next = to->storages;
        if (s->next)
            s->next->prev = s;
        to->storages = s;
    }
}

fx_arena *fx_context_arena(fx_context *ctx)
{
    return ctx->arena;
}

void fx_context_keep(fx_context *ctx, const fx_arena *arena)
{
    for (fx_arena *a = ctx->arenas, *next; a; a = next) {
        next = a->next;
        if (a != arena)
            fx_arena_free(a);
    }
}

/* ---- out of memory --------------------------------------------------------------------------------- */

fx_status fx_protect(fx_context *ctx, fx_status (*fn)(void *arg), void *arg)
{
    fx_frame frame = {.outer = ctx->frame};
    volatile fx_status status;
    ctx->frame = &frame;
    if (setjmp(frame.jump) == 0)
        status = fn(arg);
    else
        status = ctx->oom.status;
    /* Closing may itself run out of memory; it then comes back to the line above, where the rest is closed. */
    run_deferred(ctx, &frame.deferred);
    ctx->frame = frame.outer;
    return status;
}

static _Noreturn void unwind(fx_context *ctx, fx_status status, const char *message)
{
    ctx->oom = (fx_diag){.severity = FX_ERROR, .status = status, .message = message};
    ctx->out_of_memory = true;
    if (!ctx->frame)
        abort(); /* an entry point without fx_protect: there is no caller left that could be told */
    longjmp(ctx->frame->jump, 1);
}

_Noreturn void fx_out_of_memory(fx_context *ctx)
{
    unwind(ctx, FX_ERR_NOMEM, "out of memory");
}

void fx_poll(fx_context *ctx)
{
    if (ctx->stop && ctx->frame && ctx->stop(ctx->stop_user))
        unwind(ctx, FX_ERR_CANCELLED, "cancelled");
}

void fx_context_set_interrupt(fx_context *ctx, bool (*stop)(void *user), void *user)
{
    ctx->stop = stop;
    ctx->stop_user = user;
}

void fx_defer(fx_context *ctx, void (*close)(void *arg), void *arg)
{
    fx_deferred *d = ctx->free_deferred;
    if (d) {
        ctx->free_deferred = d->next;
    } else {
        /* Not fx_arena_alloc: when there is no memory for the record, arg must be closed before unwinding. */
        enum { BATCH = 16 };
        chunk *c = ctx->alloc(ctx->user, sizeof *c + BATCH * sizeof *d);
        if (!c) {
            close(arg);
            fx_out_of_memory(ctx);
        }
        c->next = ctx->arena->chunks;
        c->size = BATCH * sizeof *d;
        ctx->arena->chunks = c;
        ctx->arena->bytes += sizeof *c + c->size;
        d = (fx_deferred *)(c + 1);
        for (int i = 1; i < BATCH; i++) {
            d[i].next = ctx->free_deferred;
            ctx->free_deferred = &d[i];
        }
    }
    fx_deferred **list = ctx->frame ? &ctx->frame->deferred : &ctx->deferred;
    *d = (fx_deferred){close, arg, *list};
    *list = d;
}

/* ---- arenas ---------------------------------------------------------------------------------------- */

fx_arena *fx_arena_create(fx_context *ctx)
{
    fx_arena *a = ctx->alloc(ctx->user, sizeof *a);
    if (!a)
        fx_out_of_memory(ctx);
    a->ctx = ctx;
    a->chunk_size = FIRST_CHUNK;
    a->bytes = sizeof *a;
    a->serial = ctx->serial++;
    a->next = ctx->arenas;
    if (a->next)
        a->next->prev = a;
    ctx->arenas = a;
    return a;
}

static void close_arena(void *arena)
{
    fx_arena_free(arena);
}

fx_arena *fx_arena_scratch(fx_context *ctx)
{
    fx_arena *a = fx_arena_create(ctx);
    fx_defer(ctx, close_arena, a);
    return a;
}

void fx_arena_reset(fx_arena *arena)
{
    fx_context *ctx = arena->ctx;
    for (chunk *c = arena->chunks, *next; c; c = next) {
        next = c->next;
        ASAN_UNPOISON_MEMORY_REGION(c + 1, c->size);
        ctx->dealloc(ctx->user, c);
    }
    while (arena->blocks)
        fx_arena_unblock(arena, arena->blocks + 1);
    arena->chunks = NULL;
    arena->at = arena->end = NULL;
    arena->chunk_size = FIRST_CHUNK;
    arena->bytes = sizeof *arena;
}

void fx_arena_free(fx_arena *arena)
{
    if (!arena)
        return;
    fx_context *ctx = arena->ctx;
    fx_arena_reset(arena);
    if (arena->prev)
        arena->prev->next = arena->next;
    else
        ctx->arenas = arena->next;
    if (arena->next)
        arena->next->prev = arena->prev;
    ctx->dealloc(ctx->user, arena);
}

/* A chunk for an allocation of `need` bytes: one of its own when large, so that the rest of the current chunk is not lost. */
static void *from_new_chunk(fx_arena *a, size_t need)
{
    fx_context *ctx = a->ctx;
    fx_poll(ctx);
    bool own = need > a->chunk_size / 4 || ctx->apart;
    size_t size = own ? need : a->chunk_size;
    chunk *c = ctx->alloc(ctx->user, sizeof *c + size);
    if (!c)
        fx_out_of_memory(ctx);
    c->size = size;
    c->next = a->chunks;
    a->chunks = c;
    a->bytes += sizeof *c + size;
    char *data = (char *)(c + 1);
    ASAN_POISON_MEMORY_REGION(data, size);
    if (!own) {
        a->at = data + need;
        a->end = data + size;
    }
    if (a->chunk_size < LAST_CHUNK || (a->bytes >= LARGE && a->chunk_size < a->bytes / 8 && a->chunk_size < HUGE_CHUNK))
        a->chunk_size *= 2;
    return data;
}

void *fx_arena_alloc(fx_arena *arena, size_t size)
{
    if (size > PTRDIFF_MAX - 4096)
        fx_out_of_memory(arena->ctx);
    size_t need = (size + (size == 0) + ALIGN - 1) / ALIGN * ALIGN;
#ifdef FX_ASAN
    need += ALIGN;
#endif
    void *p;
    if (need <= (size_t)(arena->end - arena->at)) {
        p = arena->at;
        arena->at += need;
    } else {
        p = from_new_chunk(arena, need);
    }
    ASAN_UNPOISON_MEMORY_REGION(p, size);
    return p;
}

void *fx_arena_block(fx_arena *arena, size_t count, size_t size)
{
    fx_context *ctx = arena->ctx;
    if (count > (PTRDIFF_MAX - 4096) / size)
        fx_out_of_memory(ctx);
    block *b = ctx->alloc(ctx->user, sizeof *b + count * size);
    if (!b)
        fx_out_of_memory(ctx);
    b->size = count * size;
    b->next = arena->blocks;
    if (b->next)
        b->next->prev = b;
    arena->blocks = b;
    arena->bytes += sizeof *b + b->size;
    return b + 1;
}

void fx_arena_unblock(fx_arena *arena, void *p)
{
    if (!p)
        return;
    block *b = (block *)p - 1;
    if (b->prev)
        b->prev->next = b->next;
    else
        arena->blocks = b->next;
    if (b->next)
        b->next->prev = b->prev;
    arena->bytes -= sizeof *b + b->size;
    arena->ctx->dealloc(arena->ctx->user, b);
}

void *fx_arena_array(fx_arena *arena, size_t count, size_t size)
{
    if (size != 0 && count > SIZE_MAX / size)
        fx_out_of_memory(arena->ctx);
    return fx_arena_alloc(arena, count * size);
}

void *fx_arena_dup(fx_arena *arena, const void *data, size_t size)
{
    void *p = fx_arena_alloc(arena, size);
    if (size)
        memcpy(p, data, size);
    return p;
}

char *fx_arena_vprintf(fx_arena *arena, const char *fmt, va_list ap)
{
    va_list again;
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    if (n < 0) { /* only where a text exceeds INT_MAX */
        va_end(again);
        fx_out_of_memory(arena->ctx);
    }
    char *s = fx_arena_alloc(arena, (size_t)n + 1);
    vsnprintf(s, (size_t)n + 1, fmt, again);
    va_end(again);
    return s;
}

char *fx_arena_printf(fx_arena *arena, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    char *s = fx_arena_vprintf(arena, fmt, ap);
    va_end(ap);
    return s;
}

size_t fx_arena_bytes(const fx_arena *arena)
{
    return arena->bytes;
}

void *fx_arena_grow(fx_arena *arena, void *p, size_t n, size_t *cap, size_t size)
{
    if (n < *cap)
        return p;
    size_t want = *cap < 4 ? 8 : *cap * 2;
    void *q = fx_arena_array(arena, want, size);
    if (n)
        memcpy(q, p, n * size);
    *cap = want;
    return q;
}
