/* lower/fill.c: packs weights. Selection only notes which; when all are known they are packed by several threads, panel by panel: rows are read once,
 * and scaled, checked against the file's checksum and packed while they are near the processor.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#define _DEFAULT_SOURCE /* madvise */
#include <stdatomic.h>
#include <sys/mman.h>
#include <time.h>

#include "lower/select.h"
#include "runtime/cuda/conv_share.h"

#include "runtime/cuda/conv_wino.h"

#include "runtime/cuda/wino_weights.h"

/* Panels of one piece of the rows: what a thread does at a time. Its checksum is part of that of the piece's storage. */
typedef struct unit {
    const fx_fill *fill;
    int64_t panel, panels, row, rows;
    fx_storage *check;            /* NULL: nothing to check */
    uint32_t crc;
} unit;

typedef struct work {
    const fx_build *b;
    unit *units;
    size_t n;
    atomic_size_t next;
    size_t scratch_size;          /* floats a thread */
    float *scratch;
    float *end;                   /* of all packed weights */
    atomic_bool small_pages;
} work;

enum { UNIT = 1 << 19, THREAD_WORTH = 1 << 21 }; /* bytes */

static size_t panel_size(const fx_build *b, const fx_fill *f)
{
    return (size_t)b->tile.nr * (size_t)f->rows.width;
}

static int64_t panels_per_group(const fx_build *b, const fx_fill *f)
{
    return (f->group_rows + b->tile.nr - 1) / b->tile.nr;
}

/* Rows in front of a panel. */
static int64_t row_of(const fx_build *b, const fx_fill *f, int64_t panel)
{
    int64_t a_group = panels_per_group(b, f);
    return panel / a_group * f->group_rows + panel % a_group * b->tile.nr;
}

/* Where the rows of the panels before this one end. */
static int64_t rows_to(const fx_build *b, const fx_fill *f, int64_t panel)
{
    int64_t end = row_of(b, f, panel - 1) + b->tile.nr, group = ((panel - 1) / panels_per_group(b, f) + 1) * f->group_rows;
    return end < group ? end : group;
}

/* The runtime packs; it is told of a weight that has these rows alone. */
static void pack_panel(const fx_build *b, const fx_fill *f, int64_t panel, float *scratch)
{
    int64_t row = row_of(b, f, panel), n = rows_to(b, f, panel + 1) - row;
    const float *rows = fx_weight_rows_at(&f->rows, row, n);
    fxrt_gemm_desc d = {.n = n, .k = f->rows.width, .w_k = 1, .w_n = f->rows.width};
    if (f->rows.turned && f->form == FX_FILL_GEMM) {
        rows = (const float *)fx_tensor_peek(&f->rows.pieces[0].t) + row;
        d.w_k = f->rows.turned;
        d.w_n = 1;
    } else if (!rows) {
        fx_weight_rows_make(&f->rows, row, n, scratch);
        rows = scratch;
    }
    float *to = f->packed + (size_t)panel * panel_size(b, f);
    if (f->form == FX_FILL_GEMM) {
        fxrt_gemm_pack(&d, &b->tile, rows, to);
    } else if (f->form == FX_FILL_WINO) {
        fxrt_cuda_wino_weights(&f->conv, row, n, rows, f->packed);
    } else {
        fxrt_conv2d_desc c = f->conv;
        c.groups = 1;
        c.oc = (int32_t)n;
        fxrt_conv2d_pack(&c, &b->tile, rows, to);
    }
}

#ifdef MADV_POPULATE_WRITE
static void advise(void *from, void *to, int advice)
{
    const uintptr_t page = 4096, start = ((uintptr_t)from + page - 1) / page * page, end = (uintptr_t)to / page * page;
    if (start < end)
        madvise((void *)start, end - start, advice); /* a wish: refusal does no harm */
}

static double processor_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

/* Whole pages that are about to be written come at once: a fault for each takes longer than what it brings. Large ones, if they do not take long: in a
 * virtual machine free memory in large pieces is often the host's, and ten times slower to get than small pages that were in use lately. */
static void begin_pages(work *w, char *from, size_t size)
{
    enum { LARGE_PAGE = 1 << 21, SLOW_MS = 2 };
    const double start = processor_ms();
    advise(from, from + size, MADV_POPULATE_WRITE);
    if (processor_ms() - start > SLOW_MS * (1 + size / LARGE_PAGE) && !atomic_exchange(&w->small_pages, true))
        advise(from + size, w->end, MADV_NOHUGEPAGE);
}

/* Small pages may become large ones by and by. */
static void end_pages(work *w, void *from)
{
    if (w->small_pages)
        advise(from, w->end, MADV_HUGEPAGE);
}
#else
static void begin_pages(work *w, char *from, size_t size)
{
    (void)w;
    (void)from;
    (void)size;
}

static void end_pages(work *w, void *from)
{
    (void)w;
    (void)from;
}
#endif

static void run(void *user, int thread)
{
    work *w = user;
    for (size_t i; (i = atomic_fetch_add(&w->next, 1)) < w->n;) {
        unit *u = &w->units[i];
        const fx_fill *f = u->fill;
        if (u->check) {
            const fx_row_piece *p = f->rows.pieces;
            int64_t row = u->row;
            for (; row >= p->rows; p++)
                row -= p->rows;
            const char *data = fx_tensor_peek(&p->t);
            size_t width = (size_t)f->rows.width * sizeof(float);
            u->crc = fx_crc32(0, data + (size_t)row * width, (size_t)u->rows * width);
        }
        if (!f->packed)
            continue;
        if (f->form != FX_FILL_WINO)
            begin_pages(w, (char *)(f->packed + (size_t)u->panel * panel_size(w->b, f)), (size_t)u->panels * panel_size(w->b, f) * sizeof(float));
        for (int64_t k = 0; k < u->panels; k++)
            pack_panel(w->b, f, u->panel + k, w->scratch + (size_t)thread * w->scratch_size);
    }
}

/* Whether the piece is all of a storage that was not checked yet. */
static bool is_unchecked(const fx_weight_rows *r, const fx_row_piece *p)
{
    const fx_storage *st = p->t.storage;
    return st && !st->data && fx_tensor_peek(&p->t) == st->unchecked && st->nbytes == (size_t)(p->rows * r->width) * sizeof(float);
}

/* Pieces that are cut at panels' ends are checked by the way, others now; see check_turned for those of turned rows. */
static fx_status settle_pieces(fx_build *b, const fx_fill *f)
{
    int64_t end = 0;
    if (f->rows.turned)
        return FX_OK;
    for (int i = 0; i < f->rows.n_pieces; i++) {
        fx_row_piece *p = &f->rows.pieces[i];
        bool starts = end % b->tile.nr == 0;
        end += p->rows;
        bool ends = end % b->tile.nr == 0 || end == f->rows.n;
        if (!is_unchecked(&f->rows, p) || (f->rows.n_pieces > 1 && !(starts && ends)))
            FX_TRY(fx_tensor_touch(b->ctx, &p->t));
    }
    return FX_OK;
}

/* Cuts a fill into units that no piece's end is in, if pieces end with panels. */
static void cut(work *w, const fx_fill *f)
{
    const fx_build *b = w->b;
    int64_t panels = f->rows.n / f->group_rows * panels_per_group(b, f), most = (int64_t)(UNIT / (panel_size(b, f) * sizeof(float))), piece = 0;
    const fx_row_piece *p = f->rows.pieces;
    for (int64_t at = 0; at < panels;) {
        int64_t row = row_of(b, f, at), n = 1;
        while (row >= piece + p->rows)
            piece += (p++)->rows;
        while (n < most && at + n < panels && rows_to(b, f, at + n + 1) <= piece + p->rows)
            n++;
        unit *u = w->units ? &w->units[w->n] : &(unit){0};
        *u = (unit){.fill = f, .panel = at, .panels = n, .row = row, .rows = rows_to(b, f, at + n) - row};
        u->check = !f->rows.turned && p->t.storage && !p->t.storage->data ? p->t.storage : NULL;
        w->n++;
        at += n;
    }
}

/* Checksums of parts become those of storages, in order. */
static fx_status check(const work *w)
{
    for (size_t i = 0; i < w->n;) {
        const unit *u = &w->units[i++];
        if (!u->check)
            continue;
        const fx_fill *f = u->fill;
        uint32_t crc = u->crc;
        for (; i < w->n && w->units[i].fill == f && w->units[i].check == u->check; i++)
            crc = fx_crc32_join(crc, w->units[i].crc, (size_t)(w->units[i].rows * f->rows.width) * sizeof(float));
        FX_TRY(u->check->check(u->check, crc));
    }
    return FX_OK;
}

static bool is_narrow(const fx_build *b, const fx_fill *f)
{
    return f->buf >= 0 && b->p->bufs[f->buf].dtype != FX_F32;
}

/* Buffers of 16 bits get their elements when their panels are there. */
static void narrow(void *user, int thread)
{
    work *w = user;
    (void)thread;
    for (size_t i; (i = atomic_fetch_add(&w->next, 1)) < w->n;)
        fx_select_packed_end(w->b, w->units[i].fill->buf);
}

static void narrow_all(fx_build *b, int threads)
{
    work w = {.b = b};
    for (const fx_fill *f = b->fills; f; f = f->next)
        w.n += is_narrow(b, f);
    if (!w.n)
        return;
    w.units = FX_NEW_ARRAY(b->scratch, unit, w.n);
    w.n = 0;
    for (const fx_fill *f = b->fills; f; f = f->next)
        if (is_narrow(b, f))
            w.units[w.n++].fill = f;
    fx_in_parallel(threads, narrow, &w);
}

fx_status fx_build_fill(fx_build *b)
{
    work w = {.b = b};
    size_t all = 0, packed = 0;
    for (const fx_fill *f = b->fills; f; f = f->next) {
        size_t size = f->buf < 0 ? 0 : panel_size(b, f);
        FX_TRY(settle_pieces(b, f));
        w.scratch_size = size > w.scratch_size ? size : w.scratch_size;
        all += (size_t)(f->rows.n * f->rows.width);
        packed += f->buf < 0 ? 0 : (size_t)b->p->bufs[f->buf].numel.value;
    }
    if (!all)
        return FX_OK;
    /* In one piece, which the system can give in large pages: ResNet-50 runs 4 % faster so. */
    float *at = fx_select_floats(b, packed), *begin = at;
    w.end = at + packed;
    for (fx_fill *f = b->fills; f; f = f->next) {
        if (f->buf < 0)
            continue;
        b->p->bufs[f->buf].data = f->packed = at;
        at += b->p->bufs[f->buf].numel.value;
    }
    for (int i = 0; i < 2; i++) { /* counted, then made */
        if (i)
            w.units = FX_NEW_ARRAY(b->scratch, unit, w.n);
        w.n = 0;
        for (const fx_fill *f = b->fills; f; f = f->next)
            cut(&w, f);
    }
    int threads = (int)(all * sizeof(float) / THREAD_WORTH) + 1, most = fx_processors();
    threads = threads < b->threads ? threads : b->threads;
    threads = threads < most ? threads : most;
    w.scratch = FX_NEW_ARRAY(b->scratch, float, w.scratch_size * (size_t)threads);
    fx_in_parallel(threads, run, &w);
    end_pages(&w, begin);
    narrow_all(b, threads);
    return check(&w);
}

static void add(fx_build *b, fx_fill *f)
{
    *b->last_fill = f;
    b->last_fill = &f->next;
}

fx_status fx_build_constant_in_place(fx_build *b, const fx_tensor *t, const void **data)
{
    fx_fill *f = FX_NEW(b->scratch, fx_fill);
    *data = NULL;
    if (t->dtype != FX_F32 || t->rank < 1 || !t->storage || t->storage->data || t->storage->nbytes < UNIT ||
        t->storage->nbytes != (size_t)fx_tensor_numel(t) * sizeof(float) || !fx_tensor_peek(t) || !fx_tensor_is_contiguous(t))
        return FX_OK;
    FX_TRY(fx_weight_rows_of(b->ctx, b->scratch, t, &f->rows));
    f->group_rows = f->rows.n;
    f->buf = -1;
    *data = fx_tensor_peek(t);
    add(b, f);
    return FX_OK;
}

/* Turned rows are not read in the order of memory: who checks it reads it as it lies, if it is all of the storage; else it is touched now. */
static fx_status check_turned(fx_build *b, fx_fill *f)
{
    const void *data = NULL;
    if (!f->rows.turned)
        return FX_OK;
    fx_tensor *t = &f->rows.pieces[0].t, lies = *t;
    for (int i = 0; i < 2; i++) {
        lies.sizes[i] = t->sizes[1 - i];
        lies.strides[i] = t->strides[1 - i];
    }
    FX_TRY(fx_build_constant_in_place(b, &lies, &data));
    return data ? FX_OK : fx_tensor_touch(b->ctx, t);
}

fx_status fx_select_packed_later(fx_build *b, const fx_node *user, fx_node *weight, fx_dtype type, fx_fill_form form, const fxrt_conv2d_desc *conv,
                                 const char *name, const char *note, int *id)
{
    fx_fill *f = FX_NEW(b->scratch, fx_fill);
    FX_TRY(fx_build_constant_rows(b, user, weight, "weight", &f->rows));
    FX_TRY(check_turned(b, f));
    f->group_rows = f->rows.n;
    f->form = form;
    if (conv) {
        f->conv = *conv;
        f->group_rows = conv->oc;
    }
    int64_t panels = f->group_rows ? f->rows.n / f->group_rows * panels_per_group(b, f) : 0;
    fx_dim numel = fx_dim_of(form == FX_FILL_WINO ? (int64_t)fxrt_cuda_wino_weights_size(conv) : panels * (int64_t)panel_size(b, f));
    f->buf = *id = fx_program_buf(b->p, FX_BUF_WEIGHT, name, type, 1, &numel);
    b->p->bufs[*id].note = note;
    if (numel.value)
        add(b, f);
    else
        b->p->bufs[*id].data = FX_NEW(b->p->arena, float);
    return FX_OK;
}
