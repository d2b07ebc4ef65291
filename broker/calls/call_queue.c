/*
 * Gives calls their turns.
 *
 *     ring of a kind --> owner --> owner --> owner     each has calls that wait
 *                          |
 *                          +-- lane --> lane           its calls to one host
 *                                |
 *                                +-- waiting: call, call, call
 *
 * The rings take turns, the owners of a ring, and the lanes of an owner. The
 * first of an owner or a ring that has room gives one call, and goes to its
 * end. An owner gives suspects only while it holds less than half of them, and
 * unproven calls only while it holds less than a quarter; all owners together
 * leave a quarter to the sound calls.
 *
 * What an owner holds, it holds against itself: it leaves room for others
 * (client_leaves_room), of the connections in all and of those to a host. A
 * call that hangs costs its owner a place for as long as it hangs.
 */
#include "broker/base/client_limits.h"
#include "broker/calls/caller_state.h"
#include "proto/buf.h"
#include "proto/http/websub.h"
#include "proto/memory.h"

/* Of a host and its port: a name is never longer (RFC 1035 section 2.3.4). */
#define AUTHORITY_MAX 290
#define KEY_MAX       300

/* Hosts */

/* The most that an owner may hold of a kind. */
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

/* What one owner may hold, and all together. */
struct limit {
    unsigned own, all;
};

/* True if one more of a kind may be held. All but the sound calls together
 * leave a quarter. A limit of three or less is for whoever comes first. */
static bool
has_room(struct limit limit, const struct call_count *all,
         const struct call_count *own, bool is_client, enum kind kind)
{
    unsigned pool = limit.all > 1 ? limit.all - (limit.all + 3) / 4 : 1;
    unsigned unsound = all->n - all->of[SOUND];

    if (all->n >= limit.all || own->n >= limit.own ||
        own->of[kind] >= share_of(limit.own, kind) ||
        (kind != SOUND && unsound >= pool))
        return false;
    if (!is_client || limit.all < 4)
        return true;
    return client_leaves_room(own->n, limit.all - all->n - 1) &&
           (kind == SOUND ||
            client_leaves_room(own->n - own->of[SOUND], pool - unsound - 1));
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

/* Finds the host, or makes it. */
static struct host *
host_of(struct call_queue *q, struct slice key)
{
    uint64_t hash = map_hash(&q->hosts, key);
    struct host *host;

    map_each_same (host, &q->hosts, hash, node) {
        if (slice_is(key, host->key))
            return host;
    }
    host = memory_new(1, sizeof(*host) + key.size + 1);
    memcpy(host->key, key.data, key.size);
    list_init(&host->kept);
    map_add(&q->hosts, &host->node, hash);
    return host;
}

static void
drop_host(struct call_queue *q, struct host *host)
{
    if (host->n_lanes > 0 || host->n_plain > 0)
        return;
    map_remove(&q->hosts, &host->node);
    free(host);
}

/* Owners, and their lanes */

/* Of an address: its low bits do not differ. */
static uint64_t
hash_of(const void *address)
{
    return (uintptr_t)address >> 4;
}

static struct call_owner *
owner_of(struct call_queue *q, const struct client *client)
{
    struct call_owner *owner;

    map_each_same (owner, &q->owners, hash_of(client), node) {
        if (owner->client == client)
            return owner;
    }
    owner = memory_new(1, sizeof(*owner));
    owner->client = client;
    for (unsigned kind = 0; kind < KINDS; kind++) {
        list_init(&owner->lanes[kind]);
        list_init(&owner->turns[kind]);
    }
    map_add(&q->owners, &owner->node, hash_of(client));
    return owner;
}

static struct lane *
lane_of(struct call_queue *q, struct host *host, struct call_owner *owner)
{
    uint64_t hash = hash_of(host) ^ hash_of(owner) * 0x9e3779b97f4a7c15;
    struct lane *lane;

    map_each_same (lane, &q->lanes, hash, node) {
        if (lane->host == host && lane->owner == owner)
            return lane;
    }
    lane = memory_new(1, sizeof(*lane));
    lane->host = host;
    lane->owner = owner;
    for (unsigned kind = 0; kind < KINDS; kind++) {
        list_init(&lane->waiting[kind]);
        list_init(&lane->turns[kind]);
    }
    host->n_lanes++;
    owner->n_lanes++;
    map_add(&q->lanes, &lane->node, hash);
    return lane;
}

/* No call is left in it. */
static void
free_lane(struct call_queue *q, struct lane *lane)
{
    map_remove(&q->lanes, &lane->node);
    lane->host->n_lanes--;
    drop_host(q, lane->host);
    if (--lane->owner->n_lanes == 0) {
        map_remove(&q->owners, &lane->owner->node);
        free(lane->owner);
    }
    free(lane);
}

/* Puts `node` at the end of a ring, if it is in none and belongs there; else
 * takes it out if it does not. */
static void
place(struct list *ring, struct list *node, bool belongs)
{
    if (!belongs)
        list_remove(node);
    else if (list_is_empty(node))
        list_append(ring, node);
}

/* Puts a lane and its owner into the rings that they belong to, after each
 * change. */
static void
place_lane(struct call_queue *q, struct lane *lane)
{
    struct call_owner *owner = lane->owner;
    bool is_used = lane->n_held.n > 0;

    for (unsigned kind = 0; kind < KINDS; kind++) {
        bool waits = !list_is_empty(&lane->waiting[kind]);

        place(&owner->lanes[kind], &lane->turns[kind], waits);
        place(&q->rings[kind], &owner->turns[kind],
              !list_is_empty(&owner->lanes[kind]));
        is_used |= waits;
    }
    if (!is_used)
        free_lane(q, lane);
}

static enum kind
kind_of(const struct call *call)
{
    return (enum kind)call->own.kind;
}

/* Returns the lane whose turn it is in the ring of a kind; NULL: none. It
 * passes over an owner or a lane only if that holds a call, or its host is
 * full. To a host all clients together have an eighth more than one. */
static struct lane *
due_of_kind(const struct call_queue *q, enum kind kind)
{
    static const struct call_count none;
    struct limit in_all = {q->connections, q->connections};
    struct list *next, *after;
    struct call_owner *owner;
    struct lane *lane;

    if (!has_room(in_all, &q->n_held, &none, false, kind))
        return NULL;
    list_each (owner, next, &q->rings[kind], turns[kind]) {
        unsigned own = q->host_connections;
        struct limit at_host = {own, owner->client ? own + (own + 6) / 7 : own};

        if (!has_room(in_all, &q->n_held, &owner->n_held, owner->client, kind))
            continue;
        list_each (lane, after, &owner->lanes[kind], turns[kind]) {
            if (has_room(at_host, &lane->host->n_held, &lane->n_held,
                         owner->client, kind))
                return lane;
        }
    }
    return NULL;
}

/* The same of all kinds, beginning with q->next. */
static struct lane *
due_lane(const struct call_queue *q, enum kind *kind)
{
    struct lane *lane = NULL;

    for (unsigned i = 0; !lane && i < KINDS; i++) {
        *kind = (q->next + i) % KINDS;
        lane = due_of_kind(q, *kind);
    }
    return lane;
}

/* Counts a call that begins to be held, or ends. */
static void
count_held(struct call_queue *q, const struct call *call, int n)
{
    struct lane *lane = call->own.lane;
    struct call_count *const all[] = {&q->n_held, &lane->owner->n_held,
                                      &lane->host->n_held, &lane->n_held};

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        all[i]->n += (unsigned)n;
        all[i]->of[kind_of(call)] += (unsigned)n;
    }
}

/* The call is in no lane any more. */
static void
leave_lane(struct call_queue *q, struct call *call)
{
    struct lane *lane = call->own.lane;

    list_remove(&call->own.node);
    call->own.state = CALL_IDLE;
    call->own.host = NULL;
    call->own.lane = NULL;
    place_lane(q, lane);
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
    struct lane *lane;
    struct buf key;

    buf_init_fixed(&key, memory, sizeof(memory));
    if (!write_key(&key, call->url))
        return false;
    host = host_of(q, buf_slice(&key));
    lane = lane_of(q, host, owner_of(q, call->owner));
    call->own.host = host;
    call->own.lane = lane;
    call->own.kind = call->is_unproven  ? UNPROVEN
                     : call->is_suspect ? SUSPECT
                                        : SOUND;
    call->own.state = CALL_WAITING;
    list_append(&lane->waiting[kind_of(call)], &call->own.node);
    q->n_waiting++;
    place_lane(q, lane);
    return true;
}

void
call_queue_remove(struct call_queue *q, struct call *call)
{
    q->n_waiting--;
    leave_lane(q, call);
}

bool
call_queue_is_due(const struct call_queue *q)
{
    enum kind kind;

    return due_lane(q, &kind);
}

struct call *
call_queue_take(struct call_queue *q)
{
    enum kind kind;
    struct lane *lane = due_lane(q, &kind);
    struct call *call;

    if (!lane)
        return NULL;
    q->next = (kind + 1) % KINDS;

    call = list_entry(list_first(&lane->waiting[kind]), struct call, own.node);
    list_remove(&lane->turns[kind]);
    list_remove(&lane->owner->turns[kind]);
    list_put(&q->held, &call->own.node);
    call->own.state = CALL_HELD;
    q->n_waiting--;
    count_held(q, call, 1);
    place_lane(q, lane);
    return call;
}

void
call_queue_release(struct call_queue *q, struct call *call)
{
    count_held(q, call, -1);
    leave_lane(q, call);
}

void
call_queue_leave_host(struct call_queue *q, struct host *host)
{
    host->n_plain--;
    drop_host(q, host);
}

/* While none is held, each has room. */
void
call_queue_clear(struct call_queue *q)
{
    struct call *call;

    while ((call = call_queue_take(q)))
        call_queue_release(q, call);
    map_fini(&q->lanes);
    map_fini(&q->owners);
    map_fini(&q->hosts);
}
