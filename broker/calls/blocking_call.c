#include "broker/calls/blocking_call.h"

#include <pthread.h>
#include <time.h>

#include "base/clock.h"
#include "base/thread.h"

/* Between two questions whether it was stopped. */
#define ASK_US ((int64_t)1000000)

struct blocking {
    struct blocking_options options;
    struct caller *caller;
    struct call call;
    struct task begin, go_on; /* posted to the caller */
    bool is_cut;              /* the caller has been stopped */
    bool is_lent;             /* the waiting thread has the piece */

    pthread_mutex_t mutex;
    pthread_cond_t changed;

    /* Under the mutex. */
    struct buf *answer; /* NULL: in pieces */
    struct buf piece;
    bool has_piece;
    bool is_over;
};

/* The caller's thread */

static void
on_done(struct call *call)
{
    struct blocking *b = list_entry(call, struct blocking, call);
    struct slice *kept =
        call->method == CALL_HEAD ? &call->last_modified : &call->etag;
    size_t size;

    pthread_mutex_lock(&b->mutex);
    buf_clear(&b->piece);
    buf_add_slice(b->answer ? b->answer : &b->piece, call->answer);
    size = b->piece.size;
    buf_add_slice(&b->piece, *kept);
    call->answer = (struct slice){b->piece.data, size};
    *kept = slice_from(buf_slice(&b->piece), size);
    b->is_over = true;
    pthread_cond_signal(&b->changed);
    pthread_mutex_unlock(&b->mutex);
}

static enum call_turn
on_piece(struct call *call, struct buf *piece)
{
    struct blocking *b = list_entry(call, struct blocking, call);
    struct buf taken = *piece;

    pthread_mutex_lock(&b->mutex);
    if (b->answer) {
        buf_add_slice(b->answer, buf_slice(piece));
    } else {
        *piece = b->piece;
        b->piece = taken;
        b->has_piece = true;
        pthread_cond_signal(&b->changed);
    }
    pthread_mutex_unlock(&b->mutex);
    return b->answer ? CALL_READY : CALL_LATER;
}

static void
begin(struct task *task)
{
    struct blocking *b = list_entry(task, struct blocking, begin);

    caller_start(b->caller, &b->call);
}

static void
go_on(struct task *task)
{
    struct blocking *b = list_entry(task, struct blocking, go_on);

    caller_go(b->caller, &b->call, true);
}

/* The waiting thread */

/* Cuts the call, and all later ones. */
static void
cut(struct blocking *b)
{
    caller_stop(b->caller);
    b->is_cut = true;
    b->call.failure = CALL_BROKEN;
    b->is_over = true;
}

/* Waits until there is a piece, or the call is over. */
static void
await(struct blocking *b)
{
    const struct blocking_options *o = &b->options;

    pthread_mutex_lock(&b->mutex);
    while (!b->has_piece && !b->is_over) {
        int64_t end_us = clock_steady_us() + ASK_US;
        struct timespec at = {end_us / 1000000, end_us % 1000000 * 1000};

        pthread_cond_timedwait(&b->changed, &b->mutex, &at);
        if (b->has_piece || b->is_over || !o->is_stopped)
            continue;
        pthread_mutex_unlock(&b->mutex);
        if (o->is_stopped(o->user))
            cut(b);
        pthread_mutex_lock(&b->mutex);
    }
    pthread_mutex_unlock(&b->mutex);
}

static void
start(struct blocking *b, const struct call *wish, struct buf *answer)
{
    b->call = *wish;
    b->call.done = on_done;
    b->call.take = on_piece;
    if (answer)
        b->call.max_taken = answer->max - answer->size;
    b->answer = answer;
    b->has_piece = b->is_lent = b->is_over = false;
    if (b->is_cut)
        cut(b);
    else
        caller_post(b->caller, &b->begin);
}

const struct call *
blocking_run(struct blocking *b, const struct call *wish, struct buf *answer)
{
    start(b, wish, answer);
    await(b);
    return &b->call;
}

const struct call *
blocking_begin(struct blocking *b, const struct call *wish)
{
    start(b, wish, NULL);
    return &b->call;
}

bool
blocking_next(struct blocking *b, struct slice *piece)
{
    if (b->is_lent) {
        pthread_mutex_lock(&b->mutex);
        b->has_piece = false;
        pthread_mutex_unlock(&b->mutex);
        caller_post(b->caller, &b->go_on);
    }
    await(b);
    b->is_lent = b->has_piece;
    *piece = b->is_lent ? buf_slice(&b->piece) : (struct slice){NULL, 0};
    return b->is_lent;
}

/* Life */

enum status
blocking_open(struct blocking **opened, const struct blocking_options *options,
              struct problem *why)
{
    struct blocking *b = memory_new(1, sizeof(*b));
    struct caller_options calls = {.name = "calls",
                                   .calls_anywhere = true,
                                   .unix_socket = options->unix_socket,
                                   .connections = 1,
                                   .host_connections = 1};
    enum status rc;

    *opened = NULL;
    b->options = *options;
    b->begin.run = begin;
    b->go_on.run = go_on;
    b->piece.max = CALL_PIECE_MAX;
    thread_init_changed(&b->changed);
    pthread_mutex_init(&b->mutex, NULL);
    rc = caller_open(&b->caller, &calls, why);
    if (rc)
        blocking_close(b);
    else
        *opened = b;
    return rc;
}

void
blocking_close(struct blocking *b)
{
    if (!b)
        return;
    caller_close(b->caller);
    pthread_cond_destroy(&b->changed);
    pthread_mutex_destroy(&b->mutex);
    buf_fini(&b->piece);
    free(b);
}
