/* ir/parse.c: .fx text to graphs. The grammar is that of print.c; docs are there. Names, numbers and nesting are checked, so that
 * any bytes give a graph or messages with line and column. What a graph means is verify.c's to judge.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "ir/parse.h"

/* ---- nodes ---------------------------------------------------------------------------------------------------------------------- */

/* "# module, frame, entry, file", read from the text itself since parts are bare. */
static fx_status parse_loc(fx_parser *p, fx_loc *loc)
{
    fx_lexer *lx = &p->lx;
    const char **parts[4] = {&loc->module, &loc->frame, &loc->entry, &loc->file};
    if (!fx_lex_is(lx, "#"))
        return lx->status;
    const char *s = lx->at, *eol = s < lx->end ? memchr(s, '\n', (size_t)(lx->end - s)) : NULL;
    if (!eol)
        eol = lx->end;
    for (int i = 0;; i++) {
        while (s < eol && *s == ' ')
            s++;
        const char *text, *after;
        if (s < eol && *s == '"') {
            text = fx_parse_quoted(p->ctx, s, eol, &after);
            if (!text)
                return fx_lex_error(lx, "behind '#': expected a string that ends on its line");
        } else {
            after = s < eol ? memchr(s, ',', (size_t)(eol - s)) : NULL;
            if (!after)
                after = eol;
            text = after - s == 1 && *s == '-' ? NULL : fx_intern_n(p->ctx, s, (size_t)(after - s));
        }
        if (i == 4)
            return fx_lex_error(lx, "behind '#': expected at most module, frame, entry and file");
        *parts[i] = text;
        s = after;
        if (s >= eol)
            break;
        if (*s != ',')
            return fx_lex_error(lx, "behind '#': expected ',' between module, frame, entry and file");
        s++;
    }
    lx->at = eol;
    fx_lex_next(lx);
    return lx->status;
}

/* `meta {"key": value}`: users' notes. */
static fx_status parse_meta(fx_parser *p, fx_meta **out)
{
    fx_lexer *lx = &p->lx;
    const fx_arg *notes;
    if (!fx_lex_accept(lx, "meta"))
        return lx->status;
    if (!fx_lex_is(lx, "{"))
        return fx_lex_fail(lx, "'{'");
    FX_TRY(fx_parse_constant(p, "a note", &notes));
    for (int i = 0; i < notes->n; i++, out = &(*out)->next) {
        *out = FX_NEW(p->g->arena, fx_meta);
        (*out)->key = notes->keys[i];
        (*out)->value = notes->items[i];
    }
    return lx->status;
}

/* A node as far as it is read. */
typedef struct node_line {
    fx_opcode opcode;
    const char *name, *target;
    const fx_type *type;
    const fx_arg *args, *kwargs;
} node_line;

/* Behind the arguments: notes and location. */
static fx_status finish_node(fx_parser *p, const node_line *l)
{
    fx_lexer *lx = &p->lx;
    fx_loc loc = {.file = p->g->file, .entry = p->entry};
    fx_meta *meta = NULL;
    size_t n_operands = p->n_operands;
    FX_TRY(parse_meta(p, &meta));
    FX_TRY(parse_loc(p, &loc));
    fx_node *n = fx_node_new(p->g, l->opcode, l->target, l->args, l->kwargs, (int)n_operands, p->operands, l->name);
    n->type = l->type;
    n->meta = meta;
    loc.node = n->name;
    n->loc = loc;
    if (n->name != l->name)
        return fx_lex_error(lx, "the line above: a node cannot be named '%.60s', as it is a word of Python's", l->name);
    return fx_lex_line_end(lx);
}

static fx_status parse_node_line(fx_parser *p, node_line *l)
{
    fx_lexer *lx = &p->lx;
    if (fx_lex_accept(lx, ":"))
        FX_TRY(fx_parse_type(p, &l->type));
    FX_TRY(fx_lex_expect(lx, "="));
    int opcode = 0;
    while (opcode <= FX_OUTPUT && !fx_lex_is(lx, fx_opcode_name((fx_opcode)opcode)))
        opcode++;
    if (opcode > FX_OUTPUT)
        return fx_lex_fail(lx, "placeholder, get_attr, call_function, call_method, call_module or output");
    l->opcode = (fx_opcode)opcode;
    fx_lex_next(lx);
    FX_TRY(fx_lex_expect(lx, "["));
    FX_TRY(fx_lex_name(lx, "a target", &l->target));
    FX_TRY(fx_lex_expect(lx, "]"));
    if (fx_lex_is(lx, "(") || (opcode != FX_PLACEHOLDER && opcode != FX_GET_ATTR))
        FX_TRY(fx_parse_call_args(p, &l->args, &l->kwargs));
    return finish_node(p, l);
}

static fx_status parse_node(fx_parser *p)
{
    fx_lexer *lx = &p->lx, before = *lx;
    node_line l = {0};
    p->n_operands = 0;
    FX_TRY(fx_lex_name(lx, "a node's name", &l.name));
    if (!fx_is_word(l.name, false)) {
        *lx = before;
        return fx_lex_fail(lx, "a name of letters, digits and '_'");
    }
    if (fx_graph_find_node(p->g, l.name)) {
        *lx = before;
        return fx_lex_error(lx, "the node '%.60s' is there twice", l.name);
    }
    fx_status status = parse_node_line(p, &l);
    /* A stand-in, so that lines that use the node do not complain as well. */
    if (status != FX_OK && !fx_graph_find_node(p->g, l.name))
        fx_node_new(p->g, FX_PLACEHOLDER, l.name, NULL, NULL, 0, NULL, l.name);
    return status;
}

static fx_status parse_output(fx_parser *p)
{
    node_line l = {.opcode = FX_OUTPUT, .name = fx_intern(p->ctx, "output"), .target = "output"};
    p->n_operands = 0;
    FX_TRY(fx_parse_call_args(p, &l.args, &l.kwargs));
    if (fx_lex_accept(&p->lx, ":"))
        FX_TRY(fx_parse_type(p, &l.type));
    if (fx_graph_find_node(p->g, l.name))
        return fx_lex_error(&p->lx, "the node 'output' is there twice");
    return finish_node(p, &l);
}

/* ---- the whole --------------------------------------------------------------------------------------------------------------------- */

/* Behind "graph" or "subgraph N": name, stage, file, entry. */
static fx_status parse_header(fx_parser *p)
{
    fx_lexer *lx = &p->lx;
    const char *name;
    FX_TRY(fx_lex_name(lx, "the graph's name", &name));
    p->g = fx_graph_new(p->ctx, name);
    p->g->stage = FX_STAGE_IMPORTED;
    p->entry = NULL;
    for (int i = 0; i <= FX_STAGE_CORE; i++) {
        if (fx_lex_accept(lx, fx_stage_name((fx_stage)i))) {
            p->g->stage = (fx_stage)i;
            break;
        }
    }
    if (fx_lex_accept(lx, "file"))
        FX_TRY(fx_lex_string(lx, "the model's file", &p->g->file));
    if (fx_lex_accept(lx, "entry"))
        FX_TRY(fx_lex_string(lx, "the archive's entry", &p->entry));
    return lx->status;
}

static fx_status parse_symbol(fx_parser *p)
{
    fx_lexer *lx = &p->lx;
    fx_sym_range r = {.min = INT64_MIN, .max = INT64_MAX};
    FX_TRY(fx_lex_name(lx, "a symbol", &r.name));
    FX_TRY(fx_lex_expect(lx, "in"));
    FX_TRY(fx_lex_expect(lx, "["));
    fx_lexer ahead = *lx;
    if (fx_lex_accept(&ahead, "-") && fx_lex_accept(&ahead, "inf"))
        *lx = ahead;
    else
        FX_TRY(fx_lex_int(lx, &r.min));
    FX_TRY(fx_lex_expect(lx, ","));
    if (!fx_lex_accept(lx, "inf"))
        FX_TRY(fx_lex_int(lx, &r.max));
    FX_TRY(fx_lex_expect(lx, "]"));
    if (r.min > r.max)
        return fx_lex_error(lx, "the range of '%.40s' is empty", r.name);
    FX_PUSH(p->g->arena, p->g->symbols, p->g->n_symbols, p->g->cap_symbols) = r;
    return fx_lex_line_end(lx);
}

/* `module PATH : CLASS(setting=value) body N meta {..}`. An empty path is the root. */
static fx_status parse_module(fx_parser *p)
{
    fx_lexer *lx = &p->lx;
    const char *path;
    const fx_arg *by_position;
    FX_TRY(fx_lex_name(lx, "a module's path", &path));
    FX_TRY(fx_parse_path(p, path));
    fx_module *m = *path ? fx_module_make(p->g, path) : p->g->root;
    if (fx_lex_accept(lx, ":")) {
        FX_TRY(fx_lex_name(lx, "a class", &m->class_name));
        if (fx_lex_is(lx, "(")) {
            p->n_operands = 0;
            FX_TRY(fx_parse_call_args(p, &by_position, &m->config));
            if (by_position->n > 0 || p->n_operands > 0)
                return fx_lex_error(lx, "the settings of a module are constants by keyword");
        }
    }
    if (fx_lex_accept(lx, "body"))
        FX_TRY(fx_parse_subgraph_number(p, &m->body));
    FX_TRY(parse_meta(p, &m->meta));
    return fx_lex_line_end(lx);
}

static fx_status parse_tree(fx_parser *p, const fx_arg **tree)
{
    FX_TRY(fx_parse_constant(p, "a tree of inputs or outputs", tree));
    return fx_lex_line_end(&p->lx);
}

static fx_status parse_line(fx_parser *p)
{
    fx_lexer *lx = &p->lx;
    if (fx_lex_accept(lx, "%"))
        return parse_node(p);
    if (fx_lex_accept(lx, "symbol"))
        return parse_symbol(p);
    if (fx_lex_accept(lx, "module"))
        return parse_module(p);
    if (fx_lex_accept(lx, "parameter"))
        return fx_parse_attr(p, true);
    if (fx_lex_accept(lx, "buffer"))
        return fx_parse_attr(p, false);
    if (fx_lex_accept(lx, "inputs"))
        return parse_tree(p, &p->g->in_tree);
    if (fx_lex_accept(lx, "outputs"))
        return parse_tree(p, &p->g->out_tree);
    if (fx_lex_accept(lx, "output"))
        return parse_output(p);
    return fx_lex_fail(lx, "a line that begins with %%, symbol, module, parameter, buffer, inputs, outputs, output or subgraph");
}

/* `subgraph N "name" stage {`: its lines follow up to `}`. Subgraphs stand in the whole's text only, each before what uses it. */
static fx_status begin_subgraph(fx_parser *p)
{
    fx_lexer *lx = &p->lx;
    fx_lexer before = *lx;
    int64_t number;
    FX_TRY(fx_lex_int(lx, &number));
    if (number < 0 || (uint64_t)number != p->n_subgraphs) {
        *lx = before;
        return fx_lex_error(lx, "expected subgraph %zu, got %lld", p->n_subgraphs, (long long)number);
    }
    FX_TRY(parse_header(p));
    FX_TRY(fx_lex_expect(lx, "{"));
    return fx_lex_line_end(lx);
}

/* The whole text. A line that cannot be read is reported and the next one is tried, up to MOST mistakes. */
static fx_status parse_text(fx_parser *p)
{
    enum { MOST = 20 };
    fx_lexer *lx = &p->lx;
    FX_TRY(fx_lex_expect(lx, "graph"));
    FX_TRY(parse_header(p));
    FX_TRY(fx_lex_line_end(lx));
    fx_graph *whole = p->whole = p->g;
    const char *whole_entry = p->entry;
    bool inside = false;
    int mistakes = 0;
    while (lx->kind != FX_T_END || lx->status != FX_OK) {
        lx->depth = 0;
        if (lx->status != FX_OK) {
            if (++mistakes == MOST)
                return FX_ERR_FORMAT;
            fx_lex_recover(lx);
        } else if (!inside && fx_lex_accept(lx, "subgraph")) {
            inside = true;
            begin_subgraph(p);
            if (p->g == whole) /* there is no name even */
                p->g = fx_graph_new(p->ctx, "");
        } else if (inside && fx_lex_accept(lx, "}")) {
            inside = false;
            FX_PUSH(p->tmp, p->subgraphs, p->n_subgraphs, p->cap_subgraphs) =
                (fx_subgraph){p->g, p->sub_depth + 1, p->sub_nodes + p->g->n_nodes};
            p->sub_depth = 0;
            p->sub_nodes = 0;
            p->g = whole;
            p->entry = whole_entry;
            fx_lex_line_end(lx);
        } else {
            parse_line(p);
        }
    }
    if (inside)
        return fx_lex_fail(lx, "'}'");
    return mistakes ? FX_ERR_FORMAT : FX_OK;
}

typedef struct parse_args {
    fx_context *ctx;
    const char *file, *text;
    size_t size;
    fx_graph **out;
} parse_args;

static fx_status parse(void *arg)
{
    parse_args *a = arg;
    fx_parser p = {.ctx = a->ctx, .tmp = fx_arena_create(a->ctx)};
    fx_lex_init(&p.lx, a->ctx, a->file, a->text, a->size, true, true);
    fx_status status = parse_text(&p);
    fx_arena_free(p.tmp);
    if (status == FX_OK)
        *a->out = p.g;
    return status;
}

fx_status fx_graph_parse(fx_context *ctx, const char *file, const char *text, size_t size, fx_graph **out)
{
    parse_args a = {ctx, file, text, size, out};
    return fx_protect(ctx, parse, &a);
}

/* ---- what a hand-written text leaves out ------------------------------------------------------------------------------------------- */

static bool is_complex(const fx_type *t)
{
    return t && t->kind == FX_TYPE_TENSOR && (t->dtype == FX_C64 || t->dtype == FX_C128);
}

/* Whether inference has a say: complex numbers only pass through graphs, and symbolic sizes may be spelled in other ways. */
static bool is_inferred(const fx_node *n)
{
    bool complex = is_complex(n->type);
    for (int i = 0; i < n->n_operands; i++)
        complex |= is_complex(n->operands[i].def->type);
    return !complex && (!n->type || (n->type->kind == FX_TYPE_TENSOR && fx_type_is_static(n->type)));
}

static fx_status complete(fx_graph *g);

/* Graphs of modules are written by hand too. Their nesting was limited when they were read. */
static fx_status complete_modules(const fx_module *m)
{
    if (m->body)
        FX_TRY(complete(m->body));
    for (size_t i = 0; i < m->n_children; i++)
        FX_TRY(complete_modules(m->children[i]));
    return FX_OK;
}

static fx_status complete(fx_graph *g)
{
    FX_TRY(complete_modules(g->root));
    FX_FOR_NODES(g, n) {
        const fx_type *given = n->type;
        if (g->stage == FX_STAGE_CAPTURED && n->opcode != FX_PLACEHOLDER && n->opcode != FX_GET_ATTR)
            continue; /* passes/legalize.c normalises and infers */
        if (n->opcode == FX_CALL_FUNCTION && n->op) {
            FX_TRY(fx_node_normalize(n));
            n->type = given;
        }
        if (n->opcode == FX_OUTPUT || (n->opcode == FX_CALL_FUNCTION && !n->op) || !is_inferred(n))
            continue;
        FX_TRY(fx_node_infer(n));
        if (given)
            n->type = given;
    }
    return fx_graph_verify(g, g->stage, "reading");
}

static fx_status complete_whole(void *arg)
{
    return complete(arg);
}

fx_status fx_graph_complete(fx_graph *g)
{
    return fx_protect(g->ctx, complete_whole, g);
}
