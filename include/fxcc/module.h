/* fxcc/module.h: the tree of modules a graph's parameters, buffers and submodules hang on (torch.nn.Module's part in a GraphModule).
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * Paths are dotted: "layer1.0.conv1.weight"; "" is the root. Ownership and errors as in fxcc/graph.h. A change of the tree is seen by
 * the next run or compile of the graph. */
#ifndef FXCC_MODULE_H
#define FXCC_MODULE_H

#include "fxcc/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A module: class, configuration (what its constructor was given, by keyword), attributes, children. */
typedef struct fx_module fx_module;

/* FX's add_submodule: makes the module at path, and plain modules on the way. class_name: "torch.nn.Conv2d" ("torch.nn.modules.conv.Conv2d"
 * is the same class; settings of torch.nn's classes are checked), any other class, or NULL for a plain module. config: its n_config settings, "stride" = (2, 2); those left out have torch's defaults. A module that is there
 * already is replaced with all below it: a graph that calls it calls the new one from now on ("hot" replacement). Parameters are added by
 * fx_graph_set_parameter. NULL on failure. */
fx_module *fx_graph_add_submodule(fx_graph *graph, const char *path, const char *class_name, int n_config, const char *const *keys,
                                  const fx_value *config);
/* The module at path, or NULL. */
fx_module *fx_graph_get_submodule(const fx_graph *graph, const char *path);
/* Deletes a module and all below it. FX_ERR_ARGUMENT when there is none. Nodes that name it are errors of lint from then on. */
fx_status fx_graph_delete_submodule(fx_graph *graph, const char *path);
/* Deletes modules and attributes that no node names, directly or through a module above or below (FX keeps attributes); *deleted, how many
 * of both, may be NULL. */
fx_status fx_graph_delete_all_unused_submodules(fx_graph *graph, size_t *deleted);

const char *fx_module_class(const fx_module *m);                        /* "torch.nn.modules.conv.Conv2d", or NULL */
const char *fx_module_target(const fx_module *m);                       /* its path */
/* A setting, as given or torch's default; false when the class has none of that name. "training" is false unless given: graphs are of
 * models in eval mode. */
bool fx_module_setting(const fx_module *m, const char *key, fx_value *out);
fx_status fx_module_set_setting(fx_module *m, const char *key, fx_value v);
/* Users' notes on a module, as fx_node_set_meta. */
fx_status fx_module_set_meta(fx_module *m, const char *key, fx_value v);
bool fx_module_meta(const fx_module *m, const char *key, fx_value *out);

/* Walks the tree depth first in order of adding, the root first: call with NULL to begin; NULL at the end. */
fx_module *fx_graph_next_module(const fx_graph *graph, const fx_module *after);

/* Parameters and buffers. The tensor's elements are shared, not copied: it must have a storage of this context, or live as long. Setting
 * replaces what is there; modules on the way are made. */
fx_status fx_graph_set_parameter(fx_graph *graph, const char *path, const fx_tensor *t);
fx_status fx_graph_set_buffer(fx_graph *graph, const char *path, const fx_tensor *t, bool persistent);
/* The tensor at `to` under another path too: it is stored once, and writing one writes both. */
fx_status fx_graph_tie_parameter(fx_graph *graph, const char *path, const char *to);
fx_status fx_graph_delete_attr(fx_graph *graph, const char *path);
/* The tensor at path, elements valid (mapped and checked if need be); not to be written unless fx_graph_writable_tensor gave it. */
fx_status fx_graph_tensor(fx_graph *graph, const char *path, fx_tensor *out);
/* The same for writing: a storage that is read-only or shared with another graph is copied first; aliases within the graph follow. */
fx_status fx_graph_writable_tensor(fx_graph *graph, const char *path, fx_tensor *out);

/* One parameter or buffer. */
typedef struct fx_attr_info {
    const char *path;
    bool is_parameter, persistent;
    fx_dtype dtype;
    int rank;
    int64_t sizes[FX_MAX_RANK];
    const char *tied_to;      /* the first path with the same storage, or NULL */
} fx_attr_info;
/* i-th in order of adding; false past the last. */
bool fx_graph_attr_info(const fx_graph *graph, size_t i, fx_attr_info *out);
size_t fx_graph_attr_count(const fx_graph *graph);

#ifdef __cplusplus
}
#endif
#endif
