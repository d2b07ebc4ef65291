/*
 * Calls that are under way: libcurl.
 *
 * A multi handle keeps all its connections in a table of few buckets, so with
 * thousands of them each call pays for the others. Therefore there are up to
 * 64, chosen by host (measured with 2,000 callbacks: 20 instead of 40 us a
 * call). Each is made when first used, because it has two descriptors of its
 * own.
 *
 * libcurl requests the time of its next call, and the descriptors to watch
 * (call_sockets.c).
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "broker/base/diag.h"
#include "broker/calls/caller_state.h"

/* Calls at once for which one more shard is worth its memory, 40 KiB. */
#define CALLS_OF_SHARD 16

/* Kept connections per connection that may be under way. */
#define KEPT_TIMES 4

/* Descriptors */

static unsigned
shards_for(unsigned connections)
{
    unsigned n = 1;

    while (n < SHARDS_MAX && n * CALLS_OF_SHARD < connections)
        n *= 2;
    return n;
}

/* The connections that are kept in all: at most a quarter of all descriptors.
 */
static size_t
kept_of(const struct caller_options *options)
{
    rlim_t kept = (rlim_t)KEPT_TIMES * options->connections;
    struct rlimit files;

    if (!getrlimit(RLIMIT_NOFILE, &files) && kept > files.rlim_cur / 4)
        kept = files.rlim_cur / 4;
    return (size_t)kept;
}

/* Time */

static void
set_due(struct shard *shard)
{
    if (list_is_empty(&shard->due))
        list_append(&shard->caller->transport.due, &shard->due);
}

static void
on_alarm(struct alarm *alarm)
{
    set_due(list_entry(alarm, struct shard, alarm));
}

static int
on_time(CURLM *multi, long wait_ms, void *user)
{
    struct shard *shard = user;

    (void)multi;
    loop_clear_alarm(shard->caller->loop, &shard->alarm);
    if (wait_ms == 0)
        set_due(shard);
    else if (wait_ms > 0)
        loop_set_alarm(shard->caller->loop, &shard->alarm,
                       clock_steady_us() + (int64_t)wait_ms * 1000);
    return 0;
}

/* Shards */

static bool
shard_open(struct caller *caller, struct shard *shard)
{
    CURLM *multi = curl_multi_init();

    if (!multi)
        return false;
    if (curl_multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, call_sockets_watch) ||
        curl_multi_setopt(multi, CURLMOPT_SOCKETDATA, shard) ||
        curl_multi_setopt(multi, CURLMOPT_TIMERFUNCTION, on_time) ||
        curl_multi_setopt(multi, CURLMOPT_TIMERDATA, shard) ||
        curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS,
                          caller->transport.kept_of_shard)) {
        curl_multi_cleanup(multi);
        return false;
    }
    shard->alarm.ring = on_alarm;
    shard->multi = multi;
    return true;
}

/* Calls */

/* Releases the transfer of a call that is over, or never began. */
static void
put_back_transfer(struct caller *caller, struct call_transfer *t)
{
    if (t->fd >= 0)
        close(t->fd);
    call_transfer_clear(t);
    list_prepend(&caller->transport.spare, &t->node);
}

static struct call_transfer *
take_spare(struct caller *caller)
{
    struct call_transfer *t = list_take(&caller->transport.spare,
                                        offsetof(struct call_transfer, node));

    return t ? t : call_transfer_new(caller);
}

static void on_stall(struct alarm *alarm);

static void
watch_stall(struct caller *caller, struct call_transfer *t)
{
    t->heard_us = t->call->own.began_us;
    t->stall.ring = on_stall;
    if (t->call->stall_us)
        loop_set_alarm(caller->loop, &t->stall,
                       t->heard_us + t->call->stall_us);
}

bool
call_transport_begin(struct caller *caller, struct call *call, bool connects)
{
    struct call_transport *g = &caller->transport;
    const struct place *host = call_host(call);
    struct shard *shard = &g->shards[host->node.hash & (g->n_shards - 1)];
    struct call_transfer *t = NULL;

    if (shard->multi || shard_open(caller, shard))
        t = take_spare(caller);
    if (!t) {
        call_fail(call, CALL_MEMORY, NO_MEMORY);
        return false;
    }
    if (!call_transfer_set(t, call, connects)) {
        put_back_transfer(caller, t);
        return false;
    }
    t->shard = shard;
    if (curl_multi_add_handle(shard->multi, t->easy)) {
        call_fail(call, CALL_MEMORY, NO_MEMORY);
        put_back_transfer(caller, t);
        return false;
    }
    call->own.handle = t;
    watch_stall(caller, t);
    return true;
}

void
call_transport_stop(struct caller *caller, struct call *call)
{
    struct call_transport *g = &caller->transport;
    struct call_transfer *t = call->own.handle;

    if (!t->is_over)
        curl_multi_remove_handle(t->shard->multi, t->easy);
    if (g->handed == t)
        g->handed = NULL;
    loop_clear_alarm(caller->loop, &t->stall);
    list_remove(&t->node);
    call->own.handle = NULL;
    put_back_transfer(caller, t);
}

/* Pieces and the end */

/* Takes a connection that libcurl has opened for a plain call. libcurl closes
 * its own descriptor. */
static CURLcode
take_connection(struct call_transfer *t)
{
    curl_socket_t fd = CURL_SOCKET_BAD;

    if (curl_easy_getinfo(t->easy, CURLINFO_ACTIVESOCKET, &fd) ||
        fd == CURL_SOCKET_BAD)
        return CURLE_COULDNT_CONNECT;
    t->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    t->is_short = t->fd < 0;
    return t->is_short ? CURLE_COULDNT_CONNECT : CURLE_OK;
}

/* The user gets the end after the last piece. */
static void
finish_transfer(struct caller *caller, struct call_transfer *t, CURLcode result)
{
    if (t->connects && !result)
        result = take_connection(t);
    /* The next call may use its connection. */
    curl_multi_remove_handle(t->shard->multi, t->easy);
    loop_clear_alarm(caller->loop, &t->stall);
    t->is_over = true;
    t->result = result;
    if (!t->is_with_user)
        call_transfer_set_to_report(t);
}

static void
on_stall(struct alarm *alarm)
{
    struct call_transfer *t = list_entry(alarm, struct call_transfer, stall);
    int64_t now_us = clock_steady_us();

    /* The user has not taken the last piece yet. */
    if (t->is_with_user || !list_is_empty(&t->node))
        t->heard_us = now_us;
    if (t->heard_us + t->call->stall_us > now_us) {
        loop_set_alarm(t->caller->loop, alarm, t->heard_us + t->call->stall_us);
        return;
    }
    t->is_stalled = true;
    finish_transfer(t->caller, t, CURLE_OPERATION_TIMEDOUT);
}

static void
report_end(struct caller *caller, struct call_transfer *t)
{
    struct call *call = t->call;
    int fd = t->fd;

    call->own.handle = NULL;
    if (fd >= 0) {
        t->fd = -1;
        put_back_transfer(caller, t);
        caller->transport.on_connected(caller, call, fd);
        return;
    }
    call_transfer_report(t);
    call_queue_release(call);
    call->done(call); /* which may free or start it; it lends from t */
    put_back_transfer(caller, t);
}

void
call_transport_taken(struct caller *caller, struct call *call)
{
    struct call_transfer *t = call->own.handle;

    if (!t->is_with_user)
        return;
    if (!call_transfer_go_on(t))
        finish_transfer(caller, t, t->result);
    else if (t->is_over)
        call_transfer_set_to_report(t);
}

static void
hand_over_piece(struct caller *caller, struct call_transfer *t)
{
    struct call_transport *g = &caller->transport;
    struct call *call = t->call;
    enum call_turn turn;

    t->is_with_user = true; /* the user may call caller_go at once */
    g->handed = t;
    turn = call->take(call, &t->answer);
    if (!g->handed)
        return; /* cancelled, perhaps freed */
    g->handed = NULL;
    if (turn == CALL_READY)
        call_transport_taken(caller, call);
    else if (turn == CALL_NOT) {
        call_transport_stop(caller, call);
        call_queue_release(call);
    }
}

static void
report_transfers(struct caller *caller)
{
    struct list to_report;
    struct call_transfer *t;

    list_init(&to_report);
    list_move(&to_report, &caller->transport.to_report);
    list_drain (t, &to_report, node) {
        if (call_transfer_has_piece(t))
            hand_over_piece(caller, t);
        else if (t->is_over)
            report_end(caller, t);
    }
}

/* Ends the calls that libcurl has finished. */
static void
finish_transfers(struct caller *caller)
{
    struct list touched;
    struct shard *shard;

    list_init(&touched);
    list_move(&touched, &caller->transport.touched);
    list_drain (shard, &touched, touched) {
        CURLMsg *msg = NULL;
        int n_left = 0;

        while ((msg = curl_multi_info_read(shard->multi, &n_left))) {
            CURLcode result = msg->data.result;
            char *transfer = NULL;

            /* The message is gone with the handle. */
            curl_easy_getinfo(msg->easy_handle, CURLINFO_PRIVATE, &transfer);
            finish_transfer(caller, (struct call_transfer *)(void *)transfer,
                            result);
        }
    }
}

void
call_transport_report(struct caller *caller)
{
    finish_transfers(caller);
    report_transfers(caller);
}

void
call_transport_drive(struct caller *caller)
{
    struct list due;
    struct shard *shard;

    list_init(&due);
    list_move(&due, &caller->transport.due);
    list_drain (shard, &due, due) {
        int running = 0;

        curl_multi_socket_action(shard->multi, CURL_SOCKET_TIMEOUT, 0,
                                 &running);
        shard_touch(shard);
    }
}

bool
call_transport_is_due(const struct call_transport *g)
{
    return !list_is_empty(&g->due) || !list_is_empty(&g->touched) ||
           !list_is_empty(&g->to_report);
}

/* Life */

enum status
call_transport_init(struct caller *caller, struct problem *why)
{
    struct call_transport *g = &caller->transport;
    const struct curl_version_info_data *version = NULL;

    list_init(&g->due);
    list_init(&g->touched);
    list_init(&g->spare);
    list_init(&g->to_report);
    if (curl_global_init(CURL_GLOBAL_DEFAULT))
        return problem(why, STATUS_IO, "libcurl cannot be used");
    g->has_curl = true;
    version = curl_version_info(CURLVERSION_NOW);
    if (!(version->features & CURL_VERSION_ASYNCHDNS))
        return problem(why, STATUS_UNSUPPORTED,
                       "libcurl %s was built without a resolver that does not "
                       "block",
                       version->version);

    g->n_shards = shards_for(caller->options.connections);
    g->kept = kept_of(&caller->options);
    g->kept_of_shard =
        (long)(g->kept / g->n_shards + caller->options.host_connections);
    for (unsigned i = 0; i < g->n_shards; i++) {
        g->shards[i].caller = caller;
        list_init(&g->shards[i].due);
        list_init(&g->shards[i].touched);
    }
    call_trust_init(&g->trust, version);
    return STATUS_OK;
}

void
call_transport_fini(struct caller *caller)
{
    struct call_transport *g = &caller->transport;
    struct call_transfer *transfer;

    list_drain (transfer, &g->spare, node)
        call_transfer_free(transfer);
    for (unsigned i = 0; i < g->n_shards; i++) {
        if (g->shards[i].multi)
            curl_multi_cleanup(g->shards[i].multi); /* closes its connections */
    }
    call_sockets_fini(g);
}

void
call_transport_free(struct caller *caller)
{
    struct call_transport *g = &caller->transport;

    call_trust_fini(&g->trust);
    if (g->has_curl)
        curl_global_cleanup();
}
