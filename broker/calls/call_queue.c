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
#include <arpa/inet.h>

#include "broker/base/client_limits.h"
#include "broker/calls/caller_state.h"
#include "proto/ascii.h"
#include "proto/http/idn.h"
#include "proto/http/websub.h"
#include "proto/swar.h"

/* Of a host and its port: a name is never longer (RFC 1035 section 2.3.4). */
#define AUTHORITY_MAX 290
#define KEY_MAX       300

/* Lanes that are kept for the next calls. */
#define SPARE_MAX 1024

/* Room */

/* The most of one owner, and of all together. */
struct limit {
    unsigned own, all;
};

/* True if one more of a kind may be held. All but the sound calls together
 * leave a quarter. A limit of three or less is for whoever comes first. */
static bool
has_room(struct limit limit, const struct call_count *all,
         const struct call_count *own, bool is_client, enum kind kind)
{
    static const unsigned parts[KINDS] = {
        [SOUND] = 1,
        [SUSPECT] = 2,
        [UNPROVEN] = 4,
    };
    unsigned share = limit.own > parts[kind] ? limit.own / parts[kind] : 1;
    unsigned pool = limit.all > 1 ? limit.all - (limit.all + 3) / 4 : 1;
    unsigned unsound = all->n - all->of[SOUND];

    if (all->n >= limit.all || own->n >= limit.own || own->of[kind] >= share ||
        (kind != SOUND && unsound >= pool))
        return false;
    if (!is_client || limit.all < 4)
        return true;
    return client_leaves_room(own->n, limit.all - all->n - 1) &&
           (kind == SOUND ||
            client_leaves_room(own->n - own->of[SOUND], pool - unsound - 1));
}

/* Places */

/* No host has these bytes: they end a host, or a decoder makes another host of
 * them. */
#define NO_HOST_BYTES "!\"#$\'()*,/:;<=>?@[\\]^`{|}%"

static bool
is_host(struct slice host)
{
    struct in6_addr six;

    if (slice_starts(host, "["))
        return address_read_bracketed(host, &six);
    for (size_t i = 0; i < host.size; i++) {
        char c = host.data[i];

        /* Almost all bytes are these: each delivery comes here. */
        if (ascii_is_alnum(c) || c == '.')
            continue;
        if ((unsigned char)c >= 0x80 || strchr(NO_HOST_BYTES, c))
            return false;
    }
    return host.size > 0;
}

/* Writes "host:port" of a URL, an address in one spelling (W-161), a name in
 * lower case, and as it is looked up. False: it may not be called, as malicious
 * URLs may not (W-163). */
static bool
write_key(struct buf *key, const char *url)
{
    bool is_https = !strncasecmp(url, "https://", 8);
    const char *from = url + (is_https ? 8 : 7);
    size_t size = strcspn(from, "/?#");
    struct slice host, port;
    char memory[KEY_MAX];
    struct buf given;

    if (!is_https && strncasecmp(url, "http://", 7))
        return false;
    if (size == 0 || size > AUTHORITY_MAX || memchr(from, '@', size) ||
        memchr(from, '\\', size))
        return false;
    buf_init_fixed(&given, memory, sizeof(memory));
    websub_authority(&given, slice_of(url));
    if (given.failed || slice_ends(buf_slice(&given), ":0")) /* a bad port */
        return false;
    host = port = buf_slice(&given);
    while (host.data[--host.size] != ':')
        ;
    slice_skip(&port, host.size);
    if (slice_starts(host, "["))
        buf_add_slice(key, host);
    else if (!idn_add_ascii(key, host))
        return false;
    host = buf_slice(key);
    buf_add_slice(key, port);
    return !key->failed && is_host(host);
}

static void
init_lists(struct place *place)
{
    list_init(&place->kept);
    for (unsigned kind = 0; kind < KINDS; kind++) {
        list_init(&place->waiting[kind]);
        list_init(&place->turns[kind]);
    }
}

/* Finds the place with that key, or makes it, in `parent` and of `host`. */
static struct place *
place_of(struct call_queue *q, struct map *map, uint64_t hash, struct slice key,
         struct place *parent, struct place *host)
{
    struct place *place;

    map_each_same (place, map, hash, node) {
        if (slice_equal(place->key, key))
            return place;
    }
    if (map == &q->lanes)
        place = list_take(&q->spare, offsetof(struct place, kept));
    if (place)
        q->n_spare--;
    else
        place = memory_new(1, sizeof(*place) + key.size + 1);
    memcpy(place + 1, key.data, key.size);
    place->key = (struct slice){(const char *)(place + 1), key.size};
    place->parent = parent;
    place->host = host;
    if (parent)
        parent->n_users++;
    if (host)
        host->n_users++;
    init_lists(place);
    place->queue = q;
    place->map = map;
    map_add(map, &place->node, hash);
    return place;
}

/* Bytes that no URL has which goes out (W-163). */
static uint64_t
find_bad(uint64_t v)
{
    return swar_below(v, '!') | swar_equal(v, 0x7f);
}

/* How a URL begins that leads to a host: with this scheme and authority. */
struct spelling {
    struct map_node node;
    struct place *host;
    size_t size;
    char text[];
};

static void
forget_spelling(struct place *host)
{
    if (!host->spelling)
        return;
    map_remove(&host->queue->spellings, &host->spelling->node);
    free(host->spelling);
}

static void
set_spelling(struct place *host, struct slice text, uint64_t hash)
{
    struct spelling *s = memory_new(1, sizeof(*s) + text.size);

    forget_spelling(host);
    host->spelling = s;
    s->host = host;
    s->size = text.size;
    memcpy(s->text, text.data, text.size);
    map_add(&host->queue->spellings, &s->node, hash);
}

/* Returns the host of a URL. NULL: it is none that can be called. Each delivery
 * comes here: it costs 3,000 instructions to parse a URL, and 500 to find the
 * host by its spelling, which a host has from its second call on. */
static struct place *
host_of(struct call_queue *q, const char *url)
{
    const char *authority = strstr(url, "://");
    struct slice text = {url, 0};
    char memory[KEY_MAX];
    struct spelling *s;
    struct place *host;
    struct buf key;
    uint64_t hash;

    if (!authority || !swar_none(slice_of(url), find_bad, 'x'))
        return NULL;
    authority += strlen("://");
    text.size = (size_t)(authority - url) + strcspn(authority, "/?#");
    hash = map_hash(&q->spellings, text);
    map_each_same (s, &q->spellings, hash, node) {
        if (slice_equal((struct slice){s->text, s->size}, text))
            return s->host;
    }
    buf_init_fixed(&key, memory, sizeof(memory));
    if (!write_key(&key, url))
        return NULL;
    host = place_of(q, &q->hosts, map_hash(&q->hosts, buf_slice(&key)),
                    buf_slice(&key), NULL, NULL);
    if (host->n_users > 0)
        set_spelling(host, text, hash);
    return host;
}

struct place *
call_queue_host(struct call_queue *q, const char *url)
{
    struct place *host = host_of(q, url);

    if (host)
        host->n_users++;
    return host;
}

/* The queue itself is in no map, and stays. */
void
place_leave(struct place *place)
{
    struct call_queue *q = place ? place->queue : NULL;

    if (!place || --place->n_users > 0 || !place->map)
        return;
    forget_spelling(place);
    map_remove(place->map, &place->node);
    place_leave(place->parent);
    place_leave(place->host);
    if (place->map == &q->lanes && q->n_spare < SPARE_MAX) {
        q->n_spare++;
        list_prepend(&q->spare, &place->kept);
    } else {
        free(place);
    }
}

/* Turns */

/* Puts a lane and its owner into the rings of a kind that they belong to, after
 * each change. */
static void
set_turns(struct place *lane, enum kind kind)
{
    for (struct place *p = lane; p->parent; p = p->parent)
        if (list_is_empty(&p->waiting[kind]))
            list_remove(&p->turns[kind]);
        else if (list_is_empty(&p->turns[kind]))
            list_append(&p->parent->waiting[kind], &p->turns[kind]);
}

/* Returns the lane whose turn it is in the ring of a kind; NULL: none. It
 * passes over an owner or a lane only if that holds a call, or its host is
 * full. To a host all clients together have an eighth more than one. */
static struct place *
due_of_kind(const struct call_queue *q, enum kind kind)
{
    static const struct call_count none;
    struct limit in_all = {q->connections, q->connections};
    struct place *owner, *lane;

    if (list_is_empty(&q->all.waiting[kind]) ||
        !has_room(in_all, &q->all.n_held, &none, false, kind))
        return NULL;
    list_walk (owner, &q->all.waiting[kind], turns[kind]) {
        unsigned own = q->host_connections;
        struct limit at_host = {own, owner->client ? own + (own + 6) / 7 : own};

        if (!has_room(in_all, &q->all.n_held, &owner->n_held, owner->client,
                      kind))
            continue;
        list_walk (lane, &owner->waiting[kind], turns[kind]) {
            if (has_room(at_host, &lane->host->n_held, &lane->n_held,
                         owner->client, kind))
                return lane;
        }
    }
    return NULL;
}

/* The same of all kinds, beginning with q->next. */
static struct place *
due_lane(const struct call_queue *q, enum kind *kind)
{
    struct place *lane = NULL;

    for (unsigned i = 0; !lane && i < KINDS; i++) {
        *kind = (q->next + i) % KINDS;
        lane = due_of_kind(q, *kind);
    }
    return lane;
}

static void
add_held(struct call_count *count, enum kind kind, int n)
{
    count->n += (unsigned)n;
    count->of[kind] += (unsigned)n;
}

/* Counts a call that begins to be held, or ends. */
static void
count_held(const struct call *call, int n)
{
    add_held(&call_host(call)->n_held, call->own.kind, n);
    for (struct place *p = call->own.lane; p; p = p->parent)
        add_held(&p->n_held, call->own.kind, n);
}

/* The call is in no lane any more. */
static void
leave_lane(struct call *call)
{
    struct place *lane = call->own.lane;

    list_remove(&call->own.node);
    call->own.state = CALL_IDLE;
    call->own.lane = NULL;
    set_turns(lane, call->own.kind);
    place_leave(lane);
}

/* The queue */

void
call_queue_init(struct call_queue *q, unsigned connections,
                unsigned host_connections)
{
    q->connections = connections ? connections : 1;
    q->host_connections = host_connections ? host_connections : 1;
    list_init(&q->held);
    list_init(&q->spare);
    init_lists(&q->all);
}

/* Of addresses, which nobody outside chooses. */
static uint64_t
hash_of(const void *a, const void *b)
{
    return ((uintptr_t)a + 3 * (uintptr_t)b) * UINT64_C(0x9e3779b97f4a7c15) >>
           32;
}

bool
call_queue_add(struct call_queue *q, struct call *call)
{
    const struct slice client = {(const char *)&call->owner,
                                 sizeof(call->owner)};
    struct place *ends[2], *lane; /* of the owner and the host */

    ends[1] = host_of(q, call->url);
    if (!ends[1])
        return false;
    ends[0] = place_of(q, &q->owners, hash_of(call->owner, NULL), client,
                       &q->all, NULL);
    ends[0]->client = call->owner;
    lane = place_of(q, &q->lanes, hash_of(ends[0], ends[1]),
                    (struct slice){(const char *)ends, sizeof(ends)}, ends[0],
                    ends[1]);
    lane->n_users++;
    call->own.lane = lane;
    call->own.kind = call->is_unproven  ? UNPROVEN
                     : call->is_suspect ? SUSPECT
                                        : SOUND;
    call->own.state = CALL_WAITING;
    list_append(&lane->waiting[call->own.kind], &call->own.node);
    q->n_waiting++;
    set_turns(lane, call->own.kind);
    return true;
}

void
call_queue_remove(struct call_queue *q, struct call *call)
{
    q->n_waiting--;
    leave_lane(call);
}

bool
call_queue_is_due(const struct call_queue *q)
{
    return due_lane(q, &(enum kind){SOUND});
}

struct call *
call_queue_take(struct call_queue *q)
{
    enum kind kind;
    struct place *lane = due_lane(q, &kind);
    struct call *call;

    if (!lane)
        return NULL;
    q->next = (kind + 1) % KINDS;

    call = list_entry(list_first(&lane->waiting[kind]), struct call, own.node);
    list_remove(&lane->turns[kind]);
    list_remove(&lane->parent->turns[kind]);
    list_put(&q->held, &call->own.node);
    call->own.state = CALL_HELD;
    q->n_waiting--;
    count_held(call, 1);
    set_turns(lane, kind);
    return call;
}

void
call_queue_release(struct call *call)
{
    count_held(call, -1);
    leave_lane(call);
}

/* While none is held, each has room. */
void
call_queue_clear(struct call_queue *q)
{
    struct place *lane;
    struct call *call;

    while ((call = call_queue_take(q)))
        call_queue_release(call);
    list_drain (lane, &q->spare, kept)
        free(lane);
    q->n_spare = 0;
    map_fini(&q->lanes);
    map_fini(&q->owners);
    map_fini(&q->hosts);
    map_fini(&q->spellings);
}
