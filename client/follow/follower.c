/*
 * follower.c - the life of a follower, its states and its pauses.
 */
#include "client/follow/follower.h"

#include <stdarg.h>
#include <stdlib.h>

#include "base/clock.h"
#include "client/lib/pause.h"

/* A broker that ends loses all its clients at once: they return spread over so
 * many milliseconds. */
#define PAUSE_FAREWELL 1000

/* Milliseconds of silence, until a heartbeat states the broker's interval. */
#define IDLE_DEFAULT 60000

/* States */

static void
drop_exchanges(struct td_follower *f)
{
    discovery_free(f->discovery);
    fetch_free(f->page);
    history_free(f->history);
    baseline_free(f->baseline);
    f->discovery = NULL;
    f->page = NULL;
    f->history = NULL;
    f->baseline = NULL;
    f->held.page = f->held.history = f->held.baseline = false;
}

static void
drop_under_way(struct td_follower *f)
{
    drop_exchanges(f);
    f->has_page = false;
    f->has_lists_end = false;
    buf_fini(&f->body);
    batch_clear(&f->batch);
    f->has_batch = false;
}

static void
drop_live(struct td_follower *f)
{
    live_free(f->live);
    f->live = NULL;
    f->held.live = false;
    f->has_end = false;
    buf_fini(&f->kept);
}

/*
 * The only place where the state changes. It frees what the new state does not
 * need, even in a callback of it.
 *
 *                    +----------+
 *       open ------> | SEEKING  | <-----------------------------+
 *                    +----------+                               |
 *                      |  |   |  wants a baseline   +---------+ |
 *           +----------+  |   +-------------------> |REBASING | |
 *           v             v             +---------- +---------+ |
 *      +---------+     +------+ <-------+                ^      |
 *      | POLLING |     | LIVE | <---> FILLING            |      |
 *      +---------+     +------+    hole    |             |      |
 *         |  ^            |                v             |      |
 *         |  |            +------------> gone -----------+------+ sought anew
 *         v  |            v
 *      +---------+  lost, over, busy, lists read: after a pause it goes on
 *      | RESTING |  with the next step (follower_go)
 *      +---------+
 *
 *      from each: ENDED
 */
void
follower_enter(struct td_follower *f, enum follower_state state)
{
    if (state != FOLLOWER_FILLING && state != FOLLOWER_LIVE)
        drop_live(f);
    drop_under_way(f);
    timer_stop(f->timer);
    f->is_due = false;
    f->is_waiting = false;
    f->state = state;
}

void
follower_hold(struct td_follower *f)
{
    bool is_live_held = f->is_paused || f->state == FOLLOWER_FILLING;

    if (f->live && f->held.live != is_live_held) {
        f->held.live = is_live_held;
        (is_live_held ? live_pause : live_resume)(f->live);
    } else if (f->page && f->held.page != f->is_paused) {
        f->held.page = f->is_paused;
        (f->is_paused ? fetch_pause : fetch_resume)(f->page);
    } else if (f->history && f->held.history != f->is_paused) {
        f->held.history = f->is_paused;
        (f->is_paused ? history_pause : history_resume)(f->history);
    } else if (f->baseline && f->held.baseline != f->is_paused) {
        f->held.baseline = f->is_paused;
        (f->is_paused ? baseline_pause : baseline_resume)(f->baseline);
    }
}

static void
on_timer(void *user)
{
    struct td_follower *f = user;

    if (f->is_paused)
        f->is_due = true;
    else if (f->state == FOLLOWER_RESTING)
        follower_go(f);
    else if (f->state == FOLLOWER_FILLING && !f->page && !f->history)
        holes_go_on(f);
    else if (f->state == FOLLOWER_POLLING && survey_is_due(f) && !f->baseline)
        survey_go_on(f);
    else if (f->state == FOLLOWER_POLLING && !f->history && !f->baseline)
        poll_go_on(f);
    else if (f->state == FOLLOWER_REBASING && !f->baseline)
        rebase_go_on(f);
    else
        follower_hold(f);
}

bool
follower_go(struct td_follower *f)
{
    if (!f->is_sought)
        return seek_begin(f);
    if (f->wants_baseline)
        return rebase_begin(f);
    return connect_begin(f);
}

bool
follower_rest(struct td_follower *f, uint64_t ms)
{
    follower_enter(f, FOLLOWER_RESTING);
    timer_start(f->timer, ms);
    return false;
}

bool
follower_tell(struct td_follower *f, const char *why, unsigned ms)
{
    bool is_gone = false;

    if (!f->wish.on_trouble)
        return true;
    f->is_gone = &is_gone;
    f->wish.on_trouble(why, ms, f->user);
    return follower_is_here(f, is_gone);
}

bool
follower_is_patient(struct td_follower *f, const struct problem *why,
                    unsigned *ms)
{
    int64_t since_ms = clock_steady_ms() - f->new_ms;
    struct problem told = *why; /* a copy: the exchange may be freed */

    if (!f->wish.until_caught_up ||
        pause_within(f->wish.patience_ms, since_ms, told.retry_after_s, ms))
        return true;
    if (told.retry_after_s)
        problem(&told, STATUS_UNREACHABLE,
                "%.800s; it is to be asked again in %u s", why->text,
                told.retry_after_s);
    else
        problem_prefix(&told, STATUS_UNREACHABLE,
                       "nothing new came for %.1f s: ", since_ms / 1000.0);
    return follower_end(f, &told);
}

bool
follower_trouble(struct td_follower *f, const struct problem *why)
{
    struct problem told = *why; /* a copy: the exchange may be freed */
    bool is_farewell =
        f->has_farewell && (f->n_heard || f->pause_ms < PAUSE_FAREWELL);
    unsigned ms;

    if (f->n_heard)
        f->pause_ms = PAUSE_FIRST;
    ms = pause_asked(&f->pause_ms, FOLLOWER_PAUSE_LAST, told.retry_after_s);
    if (is_farewell && !told.retry_after_s)
        ms = pause_chance(PAUSE_FAREWELL);
    if (!follower_is_patient(f, &told, &ms))
        return false;
    f->n_heard = 0;
    f->has_farewell = false;
    follower_rest(f, ms); /* first: on_trouble may close it */
    follower_tell(f, told.text, ms);
    return false;
}

/* The place */

bool
follower_place(const struct td_follower *f, struct source_position *place)
{
    if (f->order.is_placed)
        *place = (struct source_position){.at = f->order.at};
    else if (f->has_moment)
        *place = f->moment;
    return f->order.is_placed || f->has_moment;
}

void
follower_stand(struct td_follower *f, const struct source_position *place)
{
    f->has_moment = place->is_time;
    if (place->is_time) {
        f->moment = *place;
        f->order.is_placed = false;
        f->order.has_digest = false;
        f->order.at = (struct position){.seq = 0};
    } else {
        message_sequence_set(&f->order, &place->at);
    }
}

/* Beginning and end */

static void
close_running(void *owner)
{
    follower_free(owner);
}

enum status
follower_new(struct td_client *client, const char *url,
             const struct td_follow_options *options, td_message_fn *on_message,
             void *user, follower_end_fn *on_end, void *end_user,
             struct td_follower **follower, struct problem *why)
{
    struct td_follower *f = calloc(1, sizeof(*f));
    enum status rc;

    if (!f)
        return problem_memory(why);
    f->client = client;
    f->running = (struct running){.close = close_running, .owner = f};
    f->on_message = on_message;
    f->user = user;
    f->on_end = on_end;
    f->end_user = end_user;
    f->pause_ms = PAUSE_FIRST;
    f->new_ms = clock_steady_ms();
    buf_init(&f->kept, LIVE_MESSAGE_MAX);
    buf_init(&f->body, 0);
    batch_init(&f->batch, options ? options->form : TD_JSON);

    rc = follow_options_read(&f->wish, url, options, why);
    f->idle_ms = f->wish.idle_ms ? f->wish.idle_ms : IDLE_DEFAULT;
    f->order.is_filtered = f->wish.filter.text_size > 0;
    if (f->wish.has_place)
        follower_stand(f, &f->wish.place);
    if (!rc && broker_message_init(&f->message, f->wish.form))
        rc = problem_memory(why);
    if (!rc && !(f->timer = timer_new(client->loop, on_timer, f)))
        rc = problem_memory(why);
    if (rc) {
        follower_free(f);
        return rc;
    }
    client_runs(client, &f->running);
    *follower = f;
    follower_rest(f, 0);
    return STATUS_OK;
}

/* Frees the memory that messages point into. */
static void
release_follower(struct td_follower *f)
{
    offered_fini(&f->offered);
    listing_close(f->listing);
    broker_message_fini(&f->message);
    batch_fini(&f->batch);
    buf_fini(&f->kept);
    buf_fini(&f->body);
    follow_options_fini(&f->wish);
    free(f);
}

/* A callback that runs may still read its message: then release comes later. */
void
follower_free(struct td_follower *f)
{
    client_leaves(f->client, &f->running);
    push_close(f);
    drop_live(f);
    drop_exchanges(f);
    timer_free(f->timer);
    if (f->is_gone)
        *f->is_gone = true;
    else
        release_follower(f);
}

bool
follower_is_here(struct td_follower *f, bool is_gone)
{
    if (is_gone)
        release_follower(f);
    else
        f->is_gone = NULL;
    return !is_gone;
}

bool
follower_end(struct td_follower *f, const struct problem *why)
{
    struct problem told = *why;

    follower_enter(f, FOLLOWER_ENDED);
    client_idles(f->client, &f->running, true);
    push_close(f);
    f->on_end(&told, f->end_user);
    return false;
}

bool
follower_fail(struct td_follower *f, enum status rc, const char *format, ...)
{
    struct problem why = {.rc = rc};
    va_list args;

    va_start(args, format);
    problem_vset(&why, rc, format, args);
    va_end(args);
    return follower_end(f, &why);
}
