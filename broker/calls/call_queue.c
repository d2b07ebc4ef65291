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
#include "broker/calls/caller_state.h"
#include "proto/buf.h"
#include "proto/http/websub.h"
#include "proto/memory.h"

/* Of a host and its port: a name is never longer (RFC 1035 section 2.3.4). */
#define AUTHORITY_MAX 290
#define KEY_MAX       300

/* Hosts */

/* The most that a limit allows for a kind. */
static unsigned
share_of(unsigned limit, enum kind kind)
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
    if (n_held >= limit || n_held_of[kind] >= share_of(limit, kind))
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
    return !key->failed;
}

static struct host *
find_host(struct call_queue *q, struct slice key, uint64_t hash)
{
    struct host *host;

    map_each_same (host, &q->hosts, hash, node) {
        if (slice_is(key, host->key))
            return host;
    }
    return NULL;
}

/* Finds the host, or makes it. */
static struct host *
host_of(struct call_queue *q, struct slice key)
{
    uint64_t hash = map_hash(&q->hosts, key);
    struct host *host = find_host(q, key, hash);

    if (host)
        return host;
    host = memory_new(1, sizeof(*host) + key.size + 1);
    memcpy(host->key, key.data, key.size);
    list_init(&host->kept);
    for (unsigned kind = 0; kind < KINDS; kind++) {
        list_init(&host->waiting[kind]);
        list_init(&host->turns[kind]);
    }
    map_add(&q->hosts, &host->node, hash);
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
drop_if_unused(struct call_queue *q, struct host *host)
{
    if (host->n_held > 0 || host->n_plain > 0 || first_waiting(host))
        return;
    map_remove(&q->hosts, &host->node);
    free(host);
}

static bool
has_room(const struct call_queue *q, const struct host *host, enum kind kind)
{
    return is_within(q->host_connections, host->n_held, host->n_held_of, kind);
}

/* Puts a host into the rings that it belongs to, after each change. */
static void
place_host(struct call_queue *q, struct host *host)
{
    for (unsigned kind = 0; kind < KINDS; kind++) {
        if (list_is_empty(&host->waiting[kind]) || !has_room(q, host, kind))
            list_remove(&host->turns[kind]);
        else if (list_is_empty(&host->turns[kind]))
            list_append(&q->rings[kind], &host->turns[kind]);
    }
    drop_if_unused(q, host);
}

static enum kind
kind_of(const struct call *call)
{
    return (enum kind)call->own.kind;
}

static bool
is_kind_due(const struct call_queue *q, enum kind kind)
{
    return !list_is_empty(&q->rings[kind]) &&
           is_within(q->connections, q->n_held, q->n_held_of, kind);
}

/* Returns the kind whose turn it is, beginning with q->next; KINDS: none. */
static enum kind
due_kind(const struct call_queue *q)
{
    for (unsigned i = 0; i < KINDS; i++) {
        enum kind kind = (q->next + i) % KINDS;

        if (is_kind_due(q, kind))
            return kind;
    }
    return KINDS;
}

/* The queue */

void
call_queue_init(struct call_queue *q, unsigned connections,
                unsigned host_connections)
{
    q->connections = connections ? connections : 1;
    q->host_connections = host_connections ? host_connections : 1;
    list_init(&q->held);
    for (unsigned kind = 0; kind < KINDS; kind++)
        list_init(&q->rings[kind]);
}

bool
call_queue_add(struct call_queue *q, struct call *call)
{
    char memory[KEY_MAX];
    struct host *host;
    struct buf key;

    buf_init_fixed(&key, memory, sizeof(memory));
    if (!write_key(&key, call->url))
        return false;
    host = host_of(q, buf_slice(&key));
    call->own.host = host;
    call->own.kind = call->is_unproven  ? UNPROVEN
                     : call->is_suspect ? SUSPECT
                                        : SOUND;
    call->own.state = CALL_WAITING;
    list_append(&host->waiting[kind_of(call)], &call->own.node);
    q->n_waiting++;
    place_host(q, host);
    return true;
}

void
call_queue_remove(struct call_queue *q, struct call *call)
{
    struct host *host = call->own.host;

    list_remove(&call->own.node);
    call->own.state = CALL_IDLE;
    call->own.host = NULL;
    q->n_waiting--;
    place_host(q, host);
}

bool
call_queue_is_due(const struct call_queue *q)
{
    return due_kind(q) != KINDS;
}

struct call *
call_queue_take(struct call_queue *q)
{
    enum kind kind = due_kind(q);
    struct host *host;
    struct call *call;

    if (kind == KINDS)
        return NULL;
    q->next = (kind + 1) % KINDS;

    host = list_entry(list_first(&q->rings[kind]), struct host, turns[kind]);
    call = list_entry(list_first(&host->waiting[kind]), struct call, own.node);
    list_remove(&host->turns[kind]);
    list_put(&q->held, &call->own.node);
    call->own.state = CALL_HELD;
    q->n_waiting--;
    q->n_held++;
    q->n_held_of[kind]++;
    host->n_held++;
    host->n_held_of[kind]++;
    place_host(q, host);
    return call;
}

void
call_queue_release(struct call_queue *q, struct call *call)
{
    struct host *host = call->own.host;
    enum kind kind = kind_of(call);

    list_remove(&call->own.node);
    call->own.state = CALL_IDLE;
    call->own.host = NULL;
    q->n_held--;
    q->n_held_of[kind]--;
    host->n_held--;
    host->n_held_of[kind]--;
    place_host(q, host);
}

void
call_queue_leave_host(struct call_queue *q, struct host *host)
{
    host->n_plain--;
    drop_if_unused(q, host);
}

void
call_queue_clear(struct call_queue *q)
{
    struct map_node *after;
    struct host *host;
    struct list *call;

    map_each (host, after, &q->hosts, node) {
        host->n_held++; /* keeps it until its last call is out */
        while ((call = first_waiting(host)))
            call_queue_remove(q, list_entry(call, struct call, own.node));
        host->n_held--;
        drop_if_unused(q, host);
    }
    map_fini(&q->hosts);
}
