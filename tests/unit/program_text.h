/* tests/unit/program_text.h: texts of loop programs: damaged, parsed, verified.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#ifndef FXCC_UNIT_PROGRAM_TEXT_H
#define FXCC_UNIT_PROGRAM_TEXT_H

#include "ir/program.h"
#include "tests/unit/fixture.h"

#define HEAD(name)                                                                                                      \
    "program \"" name "\"\ntarget name=\"generic\" cflags=\"\" lanes=1 fma=false mr=4 nr=4 l1=32768 l2=262144 pointer_bits=64 " \
    "isa=\"generic\"\n"

/* Rows of a table by index, a local array, a softmax, whose sizes are symbols. One index has a term that falls away: it does not print back. */
#define ENCODER \
    HEAD("enc") \
    "symbol batch in [1, 6]\n" \
    "symbol seq in [2, inf]\n" \
    "limit -batch*seq + 2147483647 \"batch*seq must be at most 2147483647: kernels count in 32 bits\"\n" \
    "sizes arena=0 weights=64 live=0 hash=0x0000000000000000\n" \
    "slot [12*batch*seq]\n" \
    "slot [4*batch, 12*batch*seq] above 0\n" \
    "buffer ids : input 0 i64[batch, seq]\n" \
    "buffer table : weight f32[5, 3] values={0.0, 1.0, 2.0, 10.0, 11.0, 12.0, 20.0, 21.0, 22.0, 30.0, 31.0, 32.0, 40.0, 41.0, 42.0}\n" \
    "buffer rows : arena f32[batch, seq, 3] slot=0\n" \
    "buffer soft : arena f32[batch, seq, 3] slot=1\n" \
    "buffer y : output 0 f32[batch, 3]\n" \
    "buffer acc : local f32[3]\n" \
    "input ids \"ids\" = ids i64[batch, seq]\n" \
    "output y \"y\" = y f32[batch, 3]\n" \
    "\n" \
    "step embed {\n" \
    "    for v0 in batch parallel \"n\" {\n" \
    "        for v1 in seq {\n" \
    "            local t0 = ids[(seq)*v0 + v1]\n" \
    "            check t0 in 5 \"index into the 5 rows of table\" {\n" \
    "                for v2 in 3 vector {\n" \
    "                    rows[3*t0 - 3*t0 + (3*seq)*v0 + 3*v1 + v2] = table[3*t0 + v2]\n" \
    "                }\n" \
    "            }\n" \
    "        }\n" \
    "    }\n" \
    "}\n" \
    "\n" \
    "step soft {\n" \
    "    call softmax soft(x=rows, y=soft) {outer=(batch*seq), n=3, inner=1, unused=0.0}\n" \
    "}\n" \
    "\n" \
    "step sum {\n" \
    "    for v0 in batch parallel {\n" \
    "        array acc\n" \
    "        for v1 in 3 unrolled {\n" \
    "            acc[v1] = 0.0:f32\n" \
    "        }\n" \
    "        for v2 in seq {\n" \
    "            for v3 in 3 {\n" \
    "                acc[v3] = add.f32(acc[v3], mul.f32(soft[(3*seq)*v0 + 3*v2 + v3], cast.f32(index.i64(v2 + (-seq + 1)))))\n" \
    "            }\n" \
    "        }\n" \
    "        for v4 in 3 {\n" \
    "            y[3*v0 + v4] = acc[v4]\n" \
    "        }\n" \
    "    }\n" \
    "}\n"

/* Convolutions of GPUs alone: one of what is scaled, shifted and passed through ReLU as it is read, one that scales its result and adds x to it. */
#define GPU_CONVOLUTIONS \
    "program \"gpu\"\ntarget name=\"cuda\" cflags=\"\" lanes=1 fma=true mr=1 nr=1 l1=65536 l2=4194304 pointer_bits=64 isa=\"cuda\" sm=75 threads=256\n" \
    "sizes arena=128 weights=324 live=128 hash=0x0000000000000000\n" \
    "buffer x : input 0 f32[1, 4, 4, 2]\n" \
    "buffer y : output 0 f32[1, 4, 4, 2]\n" \
    "buffer a : arena f32[1, 4, 4, 2] offset=0\n" \
    "buffer w : weight f32[4] values={1.0, 2.0, 3.0, 4.0}\n" \
    "buffer scale : weight f32[2] offset=64 values={1.0, -1.0}\n" \
    "buffer shift : weight f32[2] offset=128 values={-1.0, 0.5}\n" \
    "buffer gain : weight f32[2] offset=192 values={2.0, 0.25}\n" \
    "buffer half : weight f16[2] offset=256 values={1.0, 1.0}\n" \
    "buffer far : weight f32[1] offset=320 values={1.0}\n" \
    "input x \"x\" = x f32[1, 4, 4, 2]\n" \
    "output y \"y\" = y f32[1, 4, 4, 2]\n" \
    "\n" \
    "step before {\n" \
    "    call conv2d_pre before(x=x, w=w, b=null, r=null, scale=scale, shift=shift, y=a, ws=null) {" GPU_CONVOLUTION "act=0, act_a=0.0, act_b=0.0}\n" \
    "}\n" \
    "\n" \
    "step after {\n" \
    "    call conv2d_post after(x=a, w=w, b=null, r=x, gain=gain, y=y, ws=null) {" GPU_CONVOLUTION "act=1, act_a=0.0, act_b=0.0}\n" \
    "}\n"
#define GPU_CONVOLUTION \
    "n=1, ih=4, iw=4, ic=2, oh=4, ow=4, oc=2, groups=1, kh=1, kw=1, sh=1, sw=1, ph=0, pw=0, dh=1, dw=1, xs_n=32, xs_h=8, xs_w=2, ys_n=32, ys_h=8, ys_w=2, " \
    "rs_n=32, rs_h=8, rs_w=2, "

/* A convolution whose sums of 2,048 terms four blocks make in parts. */
#define SPLIT_CONVOLUTION \
    "program \"gpu\"\ntarget name=\"cuda\" cflags=\"\" lanes=1 fma=true mr=1 nr=1 l1=65536 l2=4194304 pointer_bits=64 isa=\"cuda\" sm=75 threads=256\n" \
    "sizes arena=16384 weights=16384 counters=64 live=16384 hash=0x0000000000000000\n" \
    "buffer x : input 0 f32[1, 4, 4, 2048]\n" \
    "buffer y : output 0 f32[1, 4, 4, 2]\n" \
    "buffer w : weight f32[4096] hash=0x0000000000000001\n" \
    "buffer room : arena f32[4096] workspace\n" \
    "buffer counts : counter i32[1]\n" \
    "input x \"x\" = x f32[1, 4, 4, 2048]\n" \
    "output y \"y\" = y f32[1, 4, 4, 2]\n" \
    "\n" \
    "step s {\n" SPLIT_CALL("room") "}\n"
#define SPLIT_CALL(ws) \
    "    call conv2d one(x=x, w=w, b=null, r=null, y=y, ws=" ws ", counts=counts) {n=1, ih=4, iw=4, ic=2048, oh=4, ow=4, oc=2, groups=1, kh=1, kw=1, sh=1, sw=1, " \
    "ph=0, pw=0, dh=1, dw=1, xs_n=32768, xs_h=8192, xs_w=2048, ys_n=32, ys_h=8, ys_w=2, rs_n=0, rs_h=0, rs_w=0, act=0, act_a=0.0, act_b=0.0}\n"

/* Parses and verifies; the messages, a line each. */
static inline fx_status verify_text(const char *text, bool planned, fx_text *messages, fx_program **p)
{
    fx_text_init(messages, fx_context_arena(ctx));
    fx_puts(messages, "");
    fx_diag_clear(ctx);
    fx_status st = fx_program_parse(ctx, "test", text, strlen(text), p);
    if (st == FX_OK)
        st = fx_program_verify(*p, planned, "after test");
    for (size_t i = 0; i < fx_diag_count(ctx); i++) {
        fx_puts(messages, fx_diag_get(ctx, i)->message);
        fx_puts(messages, "\n");
    }
    return st;
}

static inline char *replaced(const char *text, const char *from, const char *to)
{
    const char *at = strstr(text, from);
    ck_assert_msg(at != NULL, "the program has no '%s'", from);
    return fx_arena_printf(fx_context_arena(ctx), "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
}

#endif
