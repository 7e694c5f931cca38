/* Streams: a piece of work is a node that comes after others, and any order that keeps this is legal. Work is done when somebody waits for it,
 * or by chance before; which of several pieces that are ready goes first is the schedule's to say, so that a missing event shows. Part of fxcc,
 * under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "internal.h"

#include <algorithm>
#include <chrono>

struct CUstream_st : fxcu::stream_state {};
struct CUevent_st : fxcu::event_state {
    std::shared_ptr<double> at = std::make_shared<double>(0.0); /* when it was reached, in seconds */
};

namespace fxcu {

static CUstream_st legacy; /* the default stream: other streams, but non-blocking ones, come before and after it */
static std::vector<cudaStream_t> streams;
static std::vector<cudaEvent_t> events;
static std::vector<node_ref> pending; /* in the order in which they were given */

stream_state *state(cudaStream_t stream) {
    if (stream == nullptr || stream == cudaStreamLegacy) {
        return &legacy;
    }
    return std::find(streams.begin(), streams.end(), stream) == streams.end() ? nullptr : stream;
}
static cudaEvent_t find(cudaEvent_t event) { return std::find(events.begin(), events.end(), event) == events.end() ? nullptr : event; }

std::vector<stream_state *> all_streams() {
    std::vector<stream_state *> all(streams.begin(), streams.end());
    all.push_back(&legacy);
    return all;
}

cudaError_t check_stream(cudaStream_t stream) {
    return state(stream) ? cudaSuccess : error(cudaErrorInvalidResourceHandle, "%p is no stream", static_cast<void *>(stream));
}

/* ---- doing work ---- */

static bool is_ready(const node_ref &n) {
    return std::all_of(n->after.begin(), n->after.end(), [](const node_ref &a) { return a->done; });
}

void drop_pending() {
    for (node_ref &n : pending) {
        n->done = true;
        n->after.clear();
    }
    pending.clear();
}

/* Does one piece of work that is ready. */
static void step() {
    std::vector<size_t> ready;
    for (size_t i = 0; i < pending.size(); i++) {
        if (is_ready(pending[i])) {
            ready.push_back(i);
        }
    }
    size_t which = ready.back();
    if (current_order == order::forward) {
        which = ready.front();
    } else if (current_order == order::random) {
        which = ready[random_number() % ready.size()];
    }
    const node_ref n = pending[which];
    pending.erase(pending.begin() + static_cast<long>(which));
    n->run();
    n->run = nullptr;
    n->done = true;
    n->after.clear();
    if (sticky_error()) {
        drop_pending();
    }
}

static cudaError_t wait_for(entry &e, const std::vector<node_ref> &nodes) {
    e.host_waited();
    for (const node_ref &n : nodes) {
        while (!n->done) {
            step();
        }
    }
    return sticky_error();
}

cudaError_t drain_all() {
    while (!pending.empty()) {
        step();
    }
    return sticky_error();
}

void begin_node(const node_ref &added) {
    if (sticky_error()) {
        added->done = true;
        return;
    }
    pending.push_back(added);
    if (current_order == order::forward) {
        drain_all();
    }
    while (current_order == order::random && !pending.empty() && random_number() % 2) {
        step();
    }
}

static void add_all(std::vector<node_ref> *to, const std::vector<node_ref> &more) {
    for (const node_ref &n : more) {
        if (!n->done && std::find(to->begin(), to->end(), n) == to->end()) {
            to->push_back(n);
        }
    }
}

/* The legacy stream's rule: its work comes after all that blocking streams were given, and theirs after it. */
static void join_legacy() {
    for (stream_state *s : all_streams()) {
        if (!(s->flags & cudaStreamNonBlocking)) {
            add_all(&legacy.last, s->last);
        }
    }
}
static void fork_legacy() {
    for (stream_state *s : all_streams()) {
        if (!(s->flags & cudaStreamNonBlocking)) {
            s->last = legacy.last;
        }
    }
}

cudaError_t enqueue(cudaStream_t stream, std::function<void()> run) {
    stream_state *s = state(stream);
    if (s == nullptr) {
        return check_stream(stream);
    }
    if (s->in) {
        return add_captured(s, std::move(run));
    }
    if (s == &legacy) {
        for (stream_state *other : all_streams()) {
            if (other->in && !(other->flags & cudaStreamNonBlocking)) {
                return invalidate(other->in, cudaErrorStreamCaptureImplicit,
                                  "work on the default stream while a blocking stream is being captured");
            }
        }
        join_legacy();
    }
    node_ref n = std::make_shared<node>();
    n->run = std::move(run);
    add_all(&n->after, s->last);
    s->last = {n};
    if (s == &legacy) {
        fork_legacy();
    }
    begin_node(n);
    return sticky_error();
}

size_t live_streams() { return streams.size() + events.size(); }

void free_streams() {
    for (cudaStream_t s : streams) {
        delete s;
    }
    for (cudaEvent_t e : events) {
        delete e;
    }
    streams.clear();
    events.clear();
    legacy = {};
}

static double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

void forget_capture(capture *ended) {
    for (stream_state *s : all_streams()) {
        if (s->in == ended) {
            s->in = nullptr;
            s->captured.clear();
        }
    }
    for (cudaEvent_t event : events) {
        if (event->in == ended) {
            event->in = nullptr;
            event->after.clear();
            event->of_ended_capture = true;
        }
    }
}

/* An event of a capture says nothing outside it. */
static cudaError_t refuse_ended(const event_state *event, const char *call) {
    return event->of_ended_capture ? error(cudaErrorCapturedEvent, "%s: the event was recorded last in a capture that has ended", call)
                                   : cudaSuccess;
}

/* Waiting for, or asking about, a stream or event that is being captured spoils the capture. */
static cudaError_t refuse_captured(capture *in, const char *call) {
    return in ? invalidate(in, cudaErrorStreamCaptureUnsupported, call) : cudaSuccess;
}

} // namespace fxcu

using namespace fxcu;

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags) {
    entry e;
    if (e.failed) {
        return e.failed;
    }
    if (fxcu::device.count < 1) {
        return device_error();
    }
    if (flags & ~cudaStreamNonBlocking) {
        return error(cudaErrorInvalidValue, "cudaStreamCreateWithFlags: flags 0x%x", flags);
    }
    *stream = new CUstream_st;
    (*stream)->flags = flags;
    (*stream)->device = current_device();
    if (!flags) {
        (*stream)->last = legacy.last;
    }
    streams.push_back(*stream);
    return cudaSuccess;
}
cudaError_t cudaStreamCreate(cudaStream_t *stream) { return cudaStreamCreateWithFlags(stream, cudaStreamDefault); }

cudaError_t cudaStreamDestroy(cudaStream_t stream) { /* what it was given is still done */
    entry e;
    if (stream == nullptr || state(stream) == nullptr || stream == cudaStreamLegacy) {
        return error(cudaErrorInvalidResourceHandle, "cudaStreamDestroy: %p is no stream", static_cast<void *>(stream));
    }
    stream_gone(stream);
    add_all(&legacy.last, stream->flags ? std::vector<node_ref>() : stream->last);
    streams.erase(std::find(streams.begin(), streams.end(), stream));
    delete stream;
    return e.failed;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    entry e;
    stream_state *s = state(stream);
    if (e.failed || s == nullptr) {
        return e.failed ? e.failed : check_stream(stream);
    }
    if (cudaError_t refused = refuse_captured(s->in, "cudaStreamSynchronize")) {
        return refused;
    }
    if (s == &legacy) {
        join_legacy();
    }
    const std::vector<node_ref> nodes = s->last;
    return wait_for(e, nodes);
}

static cudaError_t query(entry &e, const std::vector<node_ref> &nodes) {
    e.host_waited();
    for (const node_ref &n : nodes) {
        if (!n->done) {
            step(); /* so that a loop that asks comes to its end */
            return sticky_error() ? sticky_error() : cudaErrorNotReady;
        }
    }
    return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
    entry e;
    stream_state *s = state(stream);
    if (e.failed || s == nullptr) {
        return e.failed ? e.failed : check_stream(stream);
    }
    if (cudaError_t refused = refuse_captured(s->in, "cudaStreamQuery")) {
        return refused;
    }
    return query(e, std::vector<node_ref>(s->last));
}

cudaError_t cudaDeviceSynchronize() {
    entry e;
    if (e.failed) {
        return e.failed;
    }
    if (cudaError_t refused = refuse_in_capture("cudaDeviceSynchronize")) {
        return refused;
    }
    e.host_waited();
    return drain_all();
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *user) {
    entry e;
    if (e.failed || function == nullptr) {
        return e.failed ? e.failed : error(cudaErrorInvalidValue, "cudaLaunchHostFunc: no function");
    }
    return enqueue(stream, [function, user] {
        lock_device(); /* it is host code, too */
        function(user);
    });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned) {
    entry e;
    if (e.failed) {
        return e.failed;
    }
    if (fxcu::device.count < 1) {
        return device_error();
    }
    *event = new CUevent_st;
    events.push_back(*event);
    return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t *event) { return cudaEventCreateWithFlags(event, cudaEventDefault); }

static cudaError_t no_event(const char *call, cudaEvent_t event) {
    return error(cudaErrorInvalidResourceHandle, "%s: %p is no event", call, static_cast<void *>(event));
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
    entry e;
    if (find(event) == nullptr) {
        return no_event("cudaEventDestroy", event);
    }
    events.erase(std::find(events.begin(), events.end(), event));
    delete event;
    return e.failed;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    entry e;
    stream_state *s = state(stream);
    if (e.failed || s == nullptr || find(event) == nullptr) {
        return e.failed ? e.failed : s == nullptr ? check_stream(stream) : no_event("cudaEventRecord", event);
    }
    event->recorded = true;
    event->of_ended_capture = false;
    event->in = s->in;
    if (s->in) {
        event->after = s->captured;
        return cudaSuccess;
    }
    const cudaError_t failed = enqueue(stream, [at = event->at] { *at = now(); });
    event->after = s->last;
    return failed;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
    entry e;
    stream_state *s = state(stream);
    if (e.failed || s == nullptr || find(event) == nullptr) {
        return e.failed ? e.failed : s == nullptr ? check_stream(stream) : no_event("cudaStreamWaitEvent", event);
    }
    if (cudaError_t refused = refuse_ended(event, "cudaStreamWaitEvent")) {
        return refused;
    }
    if (!event->recorded) {
        return s->in
                   ? invalidate(s->in, cudaErrorStreamCaptureIsolation, "cudaStreamWaitEvent: the event has not been recorded in this capture")
                   : cudaSuccess;
    }
    if (event->in != s->in && s->in) {
        return invalidate(s->in, cudaErrorStreamCaptureIsolation, "cudaStreamWaitEvent: the event was recorded outside this capture");
    }
    if (event->in) { /* the stream is, or now comes to be, part of the capture */
        if (s == &legacy) {
            return invalidate(event->in, cudaErrorStreamCaptureImplicit, "cudaStreamWaitEvent: the default stream cannot be captured");
        }
        if (!s->in) {
            s->in = event->in;
            s->captured.clear();
        }
        add_all(&s->captured, event->after);
        return cudaSuccess;
    }
    add_all(&s->last, event->after);
    return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    entry e;
    if (e.failed || find(event) == nullptr) {
        return e.failed ? e.failed : no_event("cudaEventSynchronize", event);
    }
    if (cudaError_t refused = refuse_captured(event->in, "cudaEventSynchronize")) {
        return refused;
    }
    if (cudaError_t refused = refuse_ended(event, "cudaEventSynchronize")) {
        return refused;
    }
    const std::vector<node_ref> nodes = event->after;
    return wait_for(e, nodes);
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
    entry e;
    if (e.failed || find(event) == nullptr) {
        return e.failed ? e.failed : no_event("cudaEventQuery", event);
    }
    if (cudaError_t refused = refuse_captured(event->in, "cudaEventQuery")) {
        return refused;
    }
    if (cudaError_t refused = refuse_ended(event, "cudaEventQuery")) {
        return refused;
    }
    return query(e, std::vector<node_ref>(event->after));
}

cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t start, cudaEvent_t end) {
    entry e;
    if (e.failed || find(start) == nullptr || find(end) == nullptr) {
        return e.failed ? e.failed : no_event("cudaEventElapsedTime", find(start) == nullptr ? start : end);
    }
    if (!start->recorded || !end->recorded) {
        return error(cudaErrorInvalidResourceHandle, "cudaEventElapsedTime: an event has not been recorded");
    }
    for (cudaEvent_t event : {start, end}) {
        for (const node_ref &n : event->after) {
            if (!n->done) {
                return cudaErrorNotReady;
            }
        }
    }
    *milliseconds = static_cast<float>((*end->at - *start->at) * 1e3);
    return cudaSuccess;
}
