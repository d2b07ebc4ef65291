/*
 * Gives calls their turns.
 *
 *     ring of a kind --> host --> host --> host       each has one that waits,
 *                         |                           and room for it
 *                         +-- waiting: call, call, call
 *
 * The first host of a ring gives its first call, and goes to the end of the
 * ring. The rings take turns; that of the suspects only while they hold less
 * than half, that of the unproven only while they hold less than a quarter. So
 * however many of both hang, a quarter is left to the sound calls.
 */
#include <stdarg.h>
#include <stdio.h>

#include "base/clock.h"
#include "broker/calls/call_transport.h"
#include "proto/buf.h"
#include "proto/websub.h"

/* The most turns of a round: each may cost a body. */
#define TURNS_AT_ONCE 256

/* Of a host and its port: a name is never longer (RFC 1035 section 2.3.4). */
#define AUTHORITY_MAX 290
#define KEY_MAX       300

void
call_fail(struct call *call, enum call_failure failure, const char *format, ...)
{
    va_list args;

    call->failure = failure;
    va_start(args, format);
    vsnprintf(call->why, sizeof(call->why), format, args);
    va_end(args);
}

/* Hosts */

/* The most that a limit allows for a kind. */
static unsigned
share(unsigned limit, enum kind kind)
{
    static const unsigned parts[KINDS] = {
        [SOUND] = 1,
        [SUSPECT] = 2,
        [UNPROVEN] = 4,
    };

    return limit > parts[kind] ? limit / parts[kind] : 1;
}

/* True if one more of a kind may be held. With a limit of 2, the shares alone
 * would leave nothing to the sound calls. */
static bool
is_within(unsigned limit, unsigned n_held, const unsigned n_held_of[KINDS],
          enum kind kind)
{
    if (n_held >= limit || n_held_of[kind] >= share(limit, kind))
        return false;
    return kind == SOUND || limit == 1 || n_held - n_held_of[SOUND] < limit - 1;
}

static bool
has_bad_byte(const char *text, unsigned char least)
{
    for (; *text; text++)
        if ((unsigned char)*text < least || *text == 0x7f)
            return true;
    return false;
}

/* Writes "host:port" of a URL, an address in one spelling (W-161), a name in
 * lower case. false: it may not be called. libcurl checks the URL more closely;
 * this finds the host for the limits, and refuses malicious URLs (W-163). */
static bool
write_key(struct buf *key, const char *url)
{
    bool is_https = !strncasecmp(url, "https://", 8);
    const char *from = url + (is_https ? 8 : 7);
    size_t size = strcspn(from, "/?#");

    if ((!is_https && strncasecmp(url, "http://", 7)) || has_bad_byte(url, '!'))
        return false;
    if (size == 0 || size > AUTHORITY_MAX || memchr(from, '@', size) ||
        memchr(from, '\\', size))
        return false;
    websub_authority(key, slice_of(url));
    buf_add(key, "", 1);
    return !key->failed;
}

/* FNV-1a. A client that chooses colliding names only slows its own calls down,
 * by no more than the number of names. */
static uint32_t
hash_of(const char *key)
{
    uint32_t hash = 2166136261u;

    for (; *key; key++)
        hash = (hash ^ (unsigned char)*key) * 16777619u;
    return hash ^ hash >> 16;
}

static struct host *
host_of(struct turns *t, const char *key)
{
    uint32_t hash = hash_of(key);
    struct host **bucket = &t->hosts[hash % HOST_BUCKETS], *host = *bucket;

    while (host && (host->hash != hash || strcmp(host->key, key) != 0))
        host = host->next;
    if (host)
        return host;

    host = calloc(1, sizeof(*host) + strlen(key) + 1);
    if (!host)
        return NULL;
    host->hash = hash;
    strcpy(host->key, key);
    for (unsigned kind = 0; kind < KINDS; kind++) {
        list_init(&host->waiting[kind]);
        list_init(&host->turns[kind]);
    }
    host->next = *bucket;
    *bucket = host;
    return host;
}

static struct list *
first_waiting(const struct host *host)
{
    for (unsigned kind = 0; kind < KINDS; kind++)
        if (!list_is_empty(&host->waiting[kind]))
            return list_first(&host->waiting[kind]);
    return NULL;
}

static void
drop_if_unused(struct turns *t, struct host *host)
{
    struct host **at = &t->hosts[host->hash % HOST_BUCKETS];

    if (host->n_held > 0 || first_waiting(host))
        return;
    while (*at != host)
        at = &(*at)->next;
    *at = host->next;
    free(host);
}

static bool
has_room(const struct turns *t, const struct host *host, enum kind kind)
{
    return is_within(t->host_connections, host->n_held, host->n_held_of, kind);
}

/* Puts a host into the rings that it belongs to, after each change. */
static void
place(struct turns *t, struct host *host)
{
    for (unsigned kind = 0; kind < KINDS; kind++) {
        if (list_is_empty(&host->waiting[kind]) || !has_room(t, host, kind))
            list_remove(&host->turns[kind]);
        else if (list_is_empty(&host->turns[kind]))
            list_append(&t->rings[kind], &host->turns[kind]);
    }
    drop_if_unused(t, host);
}

/* Turns */

static enum kind
kind_of(const struct call *call)
{
    return (enum kind)call->kind;
}

static bool
is_due(const struct turns *t, enum kind kind)
{
    return !list_is_empty(&t->rings[kind]) &&
           is_within(t->connections, t->n_held, t->n_held_of, kind);
}

/* Returns the kind whose turn it is, beginning with t->next; KINDS: none. */
static enum kind
due_kind(const struct turns *t)
{
    for (unsigned i = 0; i < KINDS; i++) {
        enum kind kind = (t->next + i) % KINDS;

        if (is_due(t, kind))
            return kind;
    }
    return KINDS;
}

bool
turns_are_due(const struct turns *t)
{
    return due_kind(t) != KINDS || !list_is_empty(&t->failed);
}

/* Takes out the call whose turn it is; NULL: none. */
static struct call *
next_call(struct turns *t)
{
    enum kind kind = due_kind(t);
    struct host *host;
    struct call *call;

    if (kind == KINDS)
        return NULL;
    t->next = (kind + 1) % KINDS;

    host = list_entry(list_first(&t->rings[kind]), struct host, turns[kind]);
    call = list_entry(list_first(&host->waiting[kind]), struct call, node);
    list_remove(&host->turns[kind]);
    list_remove(&call->node);
    list_append(&t->held, &call->node);
    call->state = CALL_HELD;
    t->n_waiting--;
    t->n_held++;
    t->n_held_of[kind]++;
    host->n_held++;
    host->n_held_of[kind]++;
    place(t, host);
    return call;
}

void
turns_release(struct caller *caller, struct call *call)
{
    struct turns *t = &caller->turns;
    struct host *host = call->host;
    enum kind kind = kind_of(call);

    list_remove(&call->node);
    call->state = CALL_IDLE;
    call->host = NULL;
    t->n_held--;
    t->n_held_of[kind]--;
    host->n_held--;
    host->n_held_of[kind]--;
    place(t, host);
}

/* `done` is called at the end of the turn, never from within caller_start. */
static void
set_failed(struct turns *t, struct call *call)
{
    call->state = CALL_FAILED;
    list_append(&t->failed, &call->node);
}

static void
begin(struct caller *caller, struct call *call)
{
    if (call_transport_begin(caller, call)) {
        call->state = CALL_GOING;
        return;
    }
    turns_release(caller, call);
    set_failed(&caller->turns, call);
}

static void
go(struct caller *caller, struct call *call)
{
    struct turns *t = &caller->turns;
    enum call_turn turn = CALL_READY;

    call->began_us = clock_steady_us();
    if (call->prepare) {
        t->preparing = call;
        turn = call->prepare(call);
        if (!t->preparing)
            return; /* cancelled, perhaps freed */
        t->preparing = NULL;
    }
    if (turn == CALL_READY)
        begin(caller, call);
    else if (turn == CALL_NOT)
        turns_release(caller, call);
}

void
turns_give(struct caller *caller)
{
    struct call *call;

    for (unsigned i = 0;
         i < TURNS_AT_ONCE && (call = next_call(&caller->turns)); i++)
        go(caller, call);
}

void
turns_tell_failed(struct caller *caller)
{
    struct list failed, *node;

    list_init(&failed);
    list_move(&failed, &caller->turns.failed);
    while ((node = list_first(&failed))) {
        struct call *call = list_entry(node, struct call, node);

        list_remove(node);
        call->state = CALL_IDLE;
        call->done(call); /* which may free it */
    }
}

/* For users */

static void
clear_outcome(struct call *call)
{
    call->failure = CALL_BROKEN;
    call->status = 0;
    call->retry_after_us = 0;
    call->answer = (struct slice){NULL, 0};
    call->is_cut = false;
    call->content_type = call->etag = call->last_modified = call->links =
        call->answer;
    call->final_url = NULL;
    call->why[0] = '\0';
    call->took_us = 0;
}

void
caller_start(struct caller *caller, struct call *call)
{
    struct turns *t = &caller->turns;
    struct host *host = NULL;
    struct buf key;

    clear_outcome(call);
    list_init(&call->node);
    call->handle = NULL;
    call->host = NULL;
    call->state = CALL_IDLE;
    if (caller->is_cut)
        return;
    buf_init(&key, KEY_MAX);
    if (!write_key(&key, call->url))
        call_fail(call, CALL_REFUSED, "the URL is none that can be called");
    else if (!(host = host_of(t, key.data)))
        call_fail(call, CALL_MEMORY, NO_MEMORY);
    buf_fini(&key);
    if (!host) {
        set_failed(t, call);
        return;
    }
    call->host = host;
    call->kind = call->is_unproven  ? UNPROVEN
                 : call->is_suspect ? SUSPECT
                                    : SOUND;
    call->state = CALL_WAITING;
    list_append(&host->waiting[kind_of(call)], &call->node);
    t->n_waiting++;
    place(t, host);
}

static void
go_on(struct caller *caller, struct call *call, bool ready)
{
    call->began_us = clock_steady_us();
    if (ready)
        begin(caller, call);
    else
        turns_release(caller, call);
}

void
caller_go(struct caller *caller, struct call *call, bool ready)
{
    if (call->state == CALL_GOING && ready)
        call_transport_taken(caller, call);
    else if (call->state == CALL_GOING)
        caller_cancel(caller, call);
    else if (call->state == CALL_HELD)
        go_on(caller, call, ready); /* else it was cut */
}

void
caller_cancel(struct caller *caller, struct call *call)
{
    struct turns *t = &caller->turns;

    if (t->preparing == call)
        t->preparing = NULL;
    switch ((enum call_state)call->state) {
    case CALL_IDLE:
        break;
    case CALL_FAILED:
        list_remove(&call->node);
        call->state = CALL_IDLE;
        break;
    case CALL_WAITING: {
        struct host *host = call->host;

        list_remove(&call->node);
        call->state = CALL_IDLE;
        call->host = NULL;
        t->n_waiting--;
        place(t, host);
        break;
    }
    case CALL_GOING:
        call_transport_stop(caller, call);
        turns_release(caller, call);
        break;
    case CALL_HELD:
        turns_release(caller, call);
        break;
    }
}

void
caller_count(const struct caller *caller, unsigned *under_way,
             unsigned *waiting)
{
    *under_way = caller->turns.n_held;
    *waiting = caller->turns.n_waiting;
}

/* Life */

void
turns_init(struct turns *t, unsigned connections, unsigned host_connections)
{
    t->connections = connections ? connections : 1;
    t->host_connections = host_connections ? host_connections : 1;
    list_init(&t->held);
    list_init(&t->failed);
    for (unsigned kind = 0; kind < KINDS; kind++)
        list_init(&t->rings[kind]);
}

static void
cancel_all(struct caller *caller, struct list *calls)
{
    struct list *node;

    while ((node = list_first(calls)))
        caller_cancel(caller, list_entry(node, struct call, node));
}

void
turns_cut(struct caller *caller)
{
    struct turns *t = &caller->turns;

    cancel_all(caller, &t->failed);
    cancel_all(caller, &t->held);
    for (size_t i = 0; i < HOST_BUCKETS; i++) {
        /* A host is freed with its last call. */
        while (t->hosts[i])
            caller_cancel(caller, list_entry(first_waiting(t->hosts[i]),
                                             struct call, node));
    }
}
