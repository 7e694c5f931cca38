/* Graphs by stream capture: work given to a capturing stream becomes a node, events carry the order between streams, and a launch puts a copy
 * of the nodes among the pending work.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "internal.h"

#include <algorithm>
#include <map>

namespace fxcu {
struct capture {
    std::vector<node_ref> nodes;
    stream_state *origin;
    cudaStreamCaptureMode mode;
    bool broken;
};
} // namespace fxcu
struct CUgraph_st {
    std::vector<fxcu::node_ref> nodes;
};
struct CUgraphExec_st {
    std::vector<fxcu::node_ref> nodes, last; /* last: of the latest launch; launches of one graph do not overlap */
};

namespace fxcu {

static std::vector<capture *> captures;
static std::vector<cudaGraph_t> graphs;
static std::vector<cudaGraphExec_t> execs;

template <class T> static bool among(const std::vector<T> &all, T one) { return std::find(all.begin(), all.end(), one) != all.end(); }

cudaError_t invalidate(capture *in, cudaError_t code, const char *why) {
    in->broken = true;
    return error(code, "capture: %s", why);
}

cudaError_t refuse_in_capture(const char *call) {
    for (capture *c : captures) {
        if (c->mode != cudaStreamCaptureModeRelaxed) {
            return invalidate(c, cudaErrorStreamCaptureUnsupported,
                              format("%s is not permitted while a stream is being captured", call).c_str());
        }
    }
    return cudaSuccess;
}

cudaError_t add_captured(stream_state *s, std::function<void()> run) {
    if (s->in->broken) {
        return error(cudaErrorStreamCaptureInvalidated, "capture: an error before has spoilt it");
    }
    node_ref n = std::make_shared<node>();
    n->run = std::move(run);
    n->after = s->captured;
    s->captured = {n};
    s->in->nodes.push_back(n);
    return cudaSuccess;
}

static void leave_capture(capture *c) {
    forget_capture(c);
    captures.erase(std::find(captures.begin(), captures.end(), c));
    delete c;
}

void stream_gone(stream_state *s) {
    if (s->in && s->in->origin == s) {
        leave_capture(s->in);
    } else if (s->in) {
        s->in->broken = true;
    }
}

size_t live_graphs() { return graphs.size() + execs.size() + captures.size(); }

void free_graphs() {
    while (!captures.empty()) {
        leave_capture(captures.back());
    }
    for (cudaGraph_t g : graphs) {
        delete g;
    }
    for (cudaGraphExec_t x : execs) {
        delete x;
    }
    graphs.clear();
    execs.clear();
}

/* Whether every node comes before one of the last ones. */
static bool all_reached(const std::vector<node_ref> &nodes, const std::vector<node_ref> &last) {
    std::map<const node *, bool> reached;
    for (const node_ref &n : last) {
        reached[n.get()] = true;
    }
    for (size_t i = nodes.size(); i-- > 0;) { /* a node is given after those it waits for */
        if (!reached[nodes[i].get()]) {
            return false;
        }
        for (const node_ref &before : nodes[i]->after) {
            reached[before.get()] = true;
        }
    }
    return true;
}

/* A copy of nodes, of which those that wait for none wait for first; the new ones that none waits for go to last. */
static std::vector<node_ref> copy_nodes(const std::vector<node_ref> &nodes, const std::vector<node_ref> &first, std::vector<node_ref> *last) {
    std::map<const node *, node_ref> made;
    std::map<const node *, bool> waited_for;
    std::vector<node_ref> copies;
    for (const node_ref &n : nodes) {
        node_ref copy = std::make_shared<node>();
        copy->run = n->run;
        for (const node_ref &before : n->after) {
            copy->after.push_back(made[before.get()]);
            waited_for[before.get()] = true;
        }
        if (n->after.empty()) {
            copy->after = first;
        }
        made[n.get()] = copy;
        copies.push_back(copy);
    }
    last->clear();
    for (const node_ref &n : nodes) {
        if (!waited_for[n.get()]) {
            last->push_back(made[n.get()]);
        }
    }
    return copies;
}

} // namespace fxcu

using namespace fxcu;

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
    entry e;
    stream_state *s = state(stream);
    if (e.failed || s == nullptr) {
        return e.failed ? e.failed : check_stream(stream);
    }
    if (s == state(nullptr)) {
        return error(cudaErrorStreamCaptureUnsupported, "cudaStreamBeginCapture: the default stream cannot be captured");
    }
    if (s->in) {
        return error(cudaErrorInvalidValue, "cudaStreamBeginCapture: the stream is being captured already");
    }
    capture *c = new capture{{}, s, mode, false};
    captures.push_back(c);
    s->in = c;
    s->captured.clear();
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph) {
    entry e;
    stream_state *s = state(stream);
    *graph = nullptr;
    if (e.failed || s == nullptr) {
        return e.failed ? e.failed : check_stream(stream);
    }
    if (!s->in) {
        return error(cudaErrorInvalidValue, "cudaStreamEndCapture: the stream is not being captured");
    }
    if (s->in->origin != s) {
        return invalidate(s->in, cudaErrorStreamCaptureUnmatched, "it began in another stream than the one it ends in");
    }
    capture *c = s->in;
    const bool joined = all_reached(c->nodes, s->captured), broken = c->broken;
    if (joined && !broken) {
        *graph = new CUgraph_st{c->nodes};
        graphs.push_back(*graph);
    }
    const size_t many = c->nodes.size();
    leave_capture(c);
    if (broken) {
        return error(cudaErrorStreamCaptureInvalidated, "capture: an error before has spoilt it");
    }
    return joined ? cudaSuccess
                  : error(cudaErrorStreamCaptureUnjoined, "capture: of %zu pieces of work, some are on streams that were not joined", many);
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus *status) {
    entry e;
    stream_state *s = state(stream);
    if (s == nullptr) {
        return check_stream(stream);
    }
    *status = !s->in ? cudaStreamCaptureStatusNone : s->in->broken ? cudaStreamCaptureStatusInvalidated : cudaStreamCaptureStatusActive;
    return e.failed;
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count) {
    entry e;
    if (!among(graphs, graph) || nodes != nullptr) {
        return error(cudaErrorInvalidValue, "cudaGraphGetNodes: %s", nodes ? "only counts here" : "no graph");
    }
    *count = graph->nodes.size();
    return e.failed;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long) {
    entry e;
    if (e.failed || !among(graphs, graph)) {
        return e.failed ? e.failed : error(cudaErrorInvalidValue, "cudaGraphInstantiate: no graph");
    }
    std::vector<node_ref> last;
    *exec = new CUgraphExec_st{copy_nodes(graph->nodes, {}, &last), {}};
    execs.push_back(*exec);
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags) {
    return cudaGraphInstantiate(exec, graph, flags);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
    entry e;
    stream_state *s = state(stream);
    if (e.failed || s == nullptr) {
        return e.failed ? e.failed : check_stream(stream);
    }
    if (!among(execs, exec)) {
        return error(cudaErrorInvalidValue, "cudaGraphLaunch: no graph made by cudaGraphInstantiate");
    }
    if (s->in) {
        return invalidate(s->in, cudaErrorNotSupported, "a graph within a graph is not supported here");
    }
    if (exec->nodes.empty()) {
        return cudaSuccess;
    }
    const std::vector<node_ref> before = exec->last;
    cudaError_t failed = enqueue(stream, [] {}); /* the legacy stream's rules hold for the whole graph by this node and the one below */
    std::vector<node_ref> first = s->last;
    first.insert(first.end(), before.begin(), before.end());
    const std::vector<node_ref> copies = copy_nodes(exec->nodes, first, &exec->last);
    s->last = exec->last;
    for (const node_ref &n : copies) {
        begin_node(n);
    }
    if (failed == cudaSuccess) {
        failed = enqueue(stream, [] {});
    }
    return failed;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    entry e;
    if (!among(graphs, graph)) {
        return error(cudaErrorInvalidValue, "cudaGraphDestroy: no graph");
    }
    graphs.erase(std::find(graphs.begin(), graphs.end(), graph));
    delete graph;
    return e.failed;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
    entry e;
    if (!among(execs, exec)) {
        return error(cudaErrorInvalidValue, "cudaGraphExecDestroy: no graph made by cudaGraphInstantiate");
    }
    execs.erase(std::find(execs.begin(), execs.end(), exec));
    delete exec;
    return e.failed;
}
