/* jit/cache.h: objects that were compiled before, in files.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * An entry is a file of the folder, named by the hash of its key; it holds the key itself, which is compared, so that two keys of one hash
 * do no harm. Processes may share a folder: entries appear whole, by renaming. What is damaged, foreign, of another version or of
 * another user (or one that others may write) is not there, and is written anew. Nothing here fails a compile. */
#ifndef FXCC_JIT_CACHE_H
#define FXCC_JIT_CACHE_H

#include "ir/ir.h"

/* $FXCC_CACHE, or fxcc/jit in $XDG_CACHE_HOME or ~/.cache; false: there shall be none ($FXCC_CACHE is empty, or there is no home). */
bool fx_cache_folder(char *path, size_t size);

typedef struct fx_cache_key {
    const void *data;
    size_t size;
} fx_cache_key;

/* The object of a key, in memory to be freed by free(); false: it is not there. Marks it as used now. */
bool fx_cache_get(const char *folder, const fx_cache_key *key, void **object, size_t *size);
/* Keeps an object; then the entries that were not used for longest go, until all are at most `most` bytes. False: it cannot be written. */
bool fx_cache_put(const char *folder, const fx_cache_key *key, const void *object, size_t size, uint64_t most);

/* How many entries there are, and their bytes; `clear` removes them. */
typedef struct fx_cache_info {
    uint64_t entries, bytes;
} fx_cache_info;
fx_cache_info fx_cache_look(const char *folder, bool clear);

#endif
