#include "broker/base/client_limits.h"

#include <arpa/inet.h>
#include <search.h>

#include "base/clock.h"
#include "broker/base/diag.h"
#include "broker/base/metrics.h"
#include "proto/http/network_address.h"
#include "proto/resourcesync/digest.h"

/* How often the log mentions a client whose requests are refused again and
 * again. */
#define LOG_AGAIN_US 60000000

/* The offset of an IPv4 address in an IPv6 one (RFC 4291 section 2.5.5.2). */
#define MAPPED_BYTES 12

struct client {
    struct client_key key; /* first: the tree compares clients and keys */
    struct clients *clients;
    atomic_uint refs; /* the last reference is released under clients->mutex */

    _Atomic(bool) has_name; /* released by the thread that has written it */
    char name[41];          /* of an owner, cut */
    struct list charged;    /* in clients->charged, with a reference, or not */

    /* Relaxed, as those of all clients. */
    _Atomic(uint64_t) held[CLIENT_KINDS];
    _Atomic(int64_t) paid_us[CLIENT_RATES]; /* steady clock: then everything is
                                               paid */
    _Atomic(int64_t) logged_us;             /* on the steady clock; 0: never */

    struct client_queue queues[CLIENT_QUEUES];
};

static const struct {
    const char *name, *what, *each, *all;
    const char *limited, *unit;
    const char *busy;
} kinds[CLIENT_KINDS] = {

#define ROW(kind, ...) [CLIENT_##kind] = {__VA_ARGS__},
    CLIENT_ROWS(ROW)
#undef ROW
};

void
clients_table_print(FILE *to)
{
    fputs("| `limit` | counts | of one client | of all |\n"
          "| --- | --- | --- | --- |\n",
          to);
    for (int i = 0; i < CLIENT_KINDS; i++)
        fprintf(to, "| `%s` | %s | %s | %s |\n", kinds[i].name, kinds[i].what,
                kinds[i].each, kinds[i].all);
}

/* The table */

void
clients_init(struct clients *c, unsigned share)
{
    *c = (struct clients){.share = share};
    pthread_mutex_init(&c->mutex, NULL);
    list_init(&c->charged);
    for (int i = 0; i < CLIENT_KINDS; i++) {
        atomic_init(&c->each[i], CLIENT_NO_LIMIT);
        atomic_init(&c->all[i], CLIENT_NO_LIMIT);
    }
}

void
clients_fini(struct clients *c)
{
    struct client *client;

    list_drain (client, &c->charged, charged)
        client_unref(client);
    pthread_mutex_destroy(&c->mutex);
}

void
clients_limit_each(struct clients *c, enum client_kind kind, uint64_t most)
{
    store_relaxed(&c->each[kind], most);
}

void
clients_limit_all(struct clients *c, enum client_kind kind, uint64_t most)
{
    store_relaxed(&c->all[kind], most);
    store_relaxed(&c->each[kind],
                  c->share < 100
                      ? most / 100 * c->share + most % 100 * c->share / 100
                      : CLIENT_NO_LIMIT);
}

void
clients_limit_rate(struct clients *c, enum client_rate rate, uint64_t a_second)
{
    store_relaxed(&c->rates[rate], a_second);
}

uint64_t
clients_limit_of_each(const struct clients *c, enum client_kind kind)
{
    return load_relaxed(&c->each[kind]);
}

uint64_t
clients_held(const struct clients *c, enum client_kind kind)
{
    return load_relaxed(&c->held[kind]);
}

bool
clients_have_room(const struct clients *c, enum client_kind kind, uint64_t n)
{
    return load_relaxed(&c->held[kind]) + n <= load_relaxed(&c->all[kind]);
}

/* Clients */

static int
compare_clients(const void *a, const void *b)
{
    const struct client_key *x = a, *y = b;

    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    return memcmp(x->address, y->address, sizeof(x->address));
}

struct client *
client_of(struct clients *c, const struct client_key *key)
{
    struct client **found, *client;

    pthread_mutex_lock(&c->mutex);
    found = tfind(key, &c->tree, compare_clients);
    if (found) {
        client = *found;
    } else {
        client = memory_new(1, sizeof(*client));
        client->key = *key;
        client->clients = c;
        list_init(&client->charged);
        tsearch(client, &c->tree, compare_clients);
    }
    add_relaxed(&client->refs, 1);
    pthread_mutex_unlock(&c->mutex);
    return client;
}

struct client *
client_at(struct clients *c, const struct sockaddr *address)
{
    struct client_key key = {.kind = CLIENT_IS_ADDRESS};

    if (!address_bytes(address, key.address))
        return NULL;
    if (!address_is_mapped(key.address)) /* the network counts */
        memset(key.address + 8, 0, 8);
    return client_of(c, &key);
}

struct client *
client_of_user(struct clients *c, uid_t uid)
{
    struct client_key key = {.kind = CLIENT_IS_USER};

    memcpy(key.address, &uid, sizeof(uid));
    return client_of(c, &key);
}

struct client *
client_of_owner(struct clients *c, struct slice name)
{
    struct client_key key = {.kind = CLIENT_IS_OWNER};
    struct client *client;
    struct digest digest;

    digest_sha256(&digest, name);
    memcpy(key.address, digest.bytes, sizeof(key.address));
    client = client_of(c, &key);
    if (atomic_load_explicit(&client->has_name, memory_order_acquire))
        return client;
    pthread_mutex_lock(&c->mutex);
    if (!load_relaxed(&client->has_name)) {
        snprintf(client->name, sizeof(client->name), "%.*s", SLICE_ARG(name));
        atomic_store_explicit(&client->has_name, true, memory_order_release);
    }
    pthread_mutex_unlock(&c->mutex);
    return client;
}

struct client *
client_of_hub(struct clients *c)
{
    return client_of(c, &(struct client_key){.kind = CLIENT_IS_HUB});
}

struct client *
client_named(struct clients *c, const char *name)
{
    struct sockaddr_storage address;
    unsigned long uid;

    if (address_read(name, &address))
        return client_at(c, (const struct sockaddr *)&address);
    return sscanf(name, "uid %lu", &uid) == 1 ? client_of_user(c, (uid_t)uid)
                                              : client_of_hub(c);
}

struct slice
client_store(const struct client *client, char to[CLIENT_STORED_SIZE])
{
    if (!client)
        return (struct slice){NULL, 0};
    to[0] = (char)client->key.kind;
    memcpy(to + 1, client->key.address, sizeof(client->key.address));
    return (struct slice){to, CLIENT_STORED_SIZE};
}

struct client *
client_of_stored(struct clients *c, struct slice stored)
{
    struct client_key key;

    if (stored.size != CLIENT_STORED_SIZE)
        return NULL;
    memset(&key, 0, sizeof(key));
    key.kind = (unsigned char)stored.data[0];
    memcpy(key.address, stored.data + 1, sizeof(key.address));
    return client_of(c, &key);
}

struct client *
client_ref(struct client *client)
{
    if (client)
        add_relaxed(&client->refs, 1);
    return client;
}

struct clients *
clients_of(const struct client *client)
{
    return client->clients;
}

void
client_turns_init(struct client_turns *turns, unsigned kind)
{
    *turns = (struct client_turns){.kind = kind};
    list_init(&turns->clients);
}

/* A node that is zero is in no list, either. */
static bool
is_in_list(const struct list *node)
{
    return node->next && !list_is_empty(node);
}

static struct client_queue *
queue_of(struct client_turns *turns, struct client *client)
{
    return client ? &client->queues[turns->kind] : &turns->nobody;
}

void
client_turns_add(struct client_turns *turns, struct client *client,
                 struct list *node)
{
    struct client_queue *queue = queue_of(turns, client);

    if (is_in_list(node))
        return;
    if (!is_in_list(&queue->node)) {
        list_init(&queue->waiting);
        list_append(&turns->clients, &queue->node);
    }
    list_append(&queue->waiting, node);
}

bool
client_turns_drop(struct client_turns *turns, struct client *client,
                  struct list *node)
{
    struct client_queue *queue = queue_of(turns, client);

    if (!is_in_list(node))
        return false;
    list_remove(node);
    if (list_is_empty(&queue->waiting))
        list_remove(&queue->node);
    return true;
}

struct list *
client_turns_next(struct client_turns *turns)
{
    struct client_queue *queue =
        list_front(&turns->clients, offsetof(struct client_queue, node));
    struct list *next;

    if (!queue)
        return NULL;
    next = list_take(&queue->waiting, 0);
    list_remove(&queue->node);
    if (!list_is_empty(&queue->waiting))
        list_append(&turns->clients, &queue->node);
    return next;
}

/* Call with the mutex held. True: it was the last reference, and the client is
 * in the table no more. */
static bool
drop_reference(struct clients *c, struct client *client)
{
    /* Acquire: sees everything that other threads did before their
     * client_unref. */
    if (atomic_fetch_sub_explicit(&client->refs, 1, memory_order_acq_rel) != 1)
        return false;
    tdelete(client, &c->tree, compare_clients);
    return true;
}

/* The last reference is released under the mutex: a thread that finds a client
 * gets a reference before the client can be freed here. */
void
client_unref(struct client *client)
{
    struct clients *c = client ? client->clients : NULL;
    unsigned refs;

    if (!client)
        return;
    refs = load_relaxed(&client->refs);
    while (refs > 1)
        if (atomic_compare_exchange_weak_explicit(
                &client->refs, &refs, refs - 1, memory_order_release,
                memory_order_relaxed))
            return;
    pthread_mutex_lock(&c->mutex);
    if (!drop_reference(c, client))
        client = NULL;
    pthread_mutex_unlock(&c->mutex);
    free(client);
}

uint64_t
client_held(const struct client *client, enum client_kind kind)
{
    return client ? load_relaxed(&client->held[kind]) : 0;
}

void
client_name(const struct client *client, char to[CLIENT_NAME_SIZE])
{
    bool is_mapped;
    uid_t uid;

    to[0] = '\0';
    if (!client)
        return;
    if (client->key.kind == CLIENT_IS_HUB) {
        snprintf(to, CLIENT_NAME_SIZE, "hub");
        return;
    }
    if (client->key.kind == CLIENT_IS_OWNER) {
        /* Without a name its token has not come since the start. */
        snprintf(to, CLIENT_NAME_SIZE, "token %s",
                 atomic_load_explicit(&client->has_name, memory_order_acquire)
                     ? client->name
                     : "");
        return;
    }
    if (client->key.kind == CLIENT_IS_USER) {
        memcpy(&uid, client->key.address, sizeof(uid));
        snprintf(to, CLIENT_NAME_SIZE, "uid %lu", (unsigned long)uid);
        return;
    }
    is_mapped = address_is_mapped(client->key.address);
    inet_ntop(is_mapped ? AF_INET : AF_INET6,
              client->key.address + (is_mapped ? MAPPED_BYTES : 0), to,
              CLIENT_NAME_SIZE);
}

/* Taking */

static enum status
try_take(struct clients *c, struct client *client, enum client_kind kind,
         uint64_t n, uint64_t own)
{
    uint64_t before;

    if (client) {
        before = add_relaxed(&client->held[kind], n);
        if (before + n > load_relaxed(&c->each[kind]) && before != own) {
            subtract_relaxed(&client->held[kind], n);
            return STATUS_LIMITED;
        }
    }
    if (add_relaxed(&c->held[kind], n) + n <= load_relaxed(&c->all[kind]))
        return STATUS_OK;
    clients_give(c, client, kind, n);
    return STATUS_BUSY;
}

/* Logs a sentence about a client that is refused, not again and again. */
static void
log_refusal(struct client *client, const char *sentence, const char *limit)
{
    int64_t now_us = clock_steady_us();
    int64_t logged_us = atomic_load(&client->logged_us);
    char name[CLIENT_NAME_SIZE];

    if ((logged_us && now_us - logged_us < LOG_AGAIN_US) ||
        !atomic_compare_exchange_strong(&client->logged_us, &logged_us, now_us))
        return;
    client_name(client, name);
    DIAG(DIAG_WARNING, "net", sentence, diag_text("client", name),
         diag_text("limit", limit));
}

static enum status
report_refusal(struct client *client, enum client_kind kind, enum status rc,
               struct problem *why)
{
    if (rc == STATUS_BUSY)
        return problem(why, rc, "%s", kinds[kind].busy);
    if (rc != STATUS_LIMITED)
        return rc;
    problem_set(why, "your %s %s: %" PRIu64 "%s",
                client->key.kind == CLIENT_IS_OWNER ? "token" : "address",
                kinds[kind].limited, load_relaxed(&client->clients->each[kind]),
                kinds[kind].unit);
    metrics_add_label(METRIC_CLIENT_REFUSALS, kind, 1);
    log_refusal(client, "a client is refused more than its share",
                kinds[kind].name);
    return rc;
}

enum status
clients_take(struct clients *c, struct client *client, enum client_kind kind,
             uint64_t n, struct problem *why)
{
    return report_refusal(client, kind, try_take(c, client, kind, n, 0), why);
}

void
clients_give(struct clients *c, struct client *client, enum client_kind kind,
             uint64_t n)
{
    if (client)
        subtract_relaxed(&client->held[kind], n);
    subtract_relaxed(&c->held[kind], n);
}

void
clients_add(struct clients *c, struct client *client, enum client_kind kind,
            uint64_t n)
{
    if (client)
        add_relaxed(&client->held[kind], n);
    add_relaxed(&c->held[kind], n);
}

enum status
clients_check(struct clients *c, struct client *client, enum client_kind kind,
              uint64_t n, struct problem *why)
{
    enum status rc = STATUS_OK;

    if (client && client_held(client, kind) + n > load_relaxed(&c->each[kind]))
        rc = STATUS_LIMITED;
    else if (!clients_have_room(c, kind, n))
        rc = STATUS_BUSY;
    return report_refusal(client, kind, rc, why);
}

/* Rates */

static const char *const rate_names[CLIENT_RATES] = {
    [CLIENT_POST_RATE] = "posts a second",
    [CLIENT_BYTE_RATE] = "bytes of posts a second",
};

static int64_t
owed_us(const struct client *client, enum client_rate rate, int64_t now_us)
{
    int64_t paid_us = load_relaxed(&client->paid_us[rate]);

    return paid_us > now_us ? paid_us - now_us : 0;
}

enum status
clients_check_rates(struct clients *c, struct client *client,
                    struct client_charge *charge, struct problem *why)
{
    int64_t now_us = clock_steady_us();

    for (int i = 0; client && i < CLIENT_RATES; i++) {
        uint64_t a_second = load_relaxed(&c->rates[i]);
        int64_t owed = a_second ? owed_us(client, i, now_us) : 0;

        if (owed < CLIENT_BURST_S * (int64_t)1000000)
            continue;
        *charge = (struct client_charge){
            i, a_second, owed - CLIENT_BURST_S * (int64_t)1000000 + 1};
        metrics_add_label(METRIC_CLIENT_REFUSALS, CLIENT_KINDS + i, 1);
        log_refusal(client, "a client posts faster than it may", rate_names[i]);
        return problem(why, STATUS_LIMITED,
                       "you post faster than one client may: %" PRIu64 " %s",
                       a_second, rate_names[i]);
    }
    return STATUS_OK;
}

void
clients_charge(struct clients *c, struct client *client, enum client_rate rate,
               uint64_t n)
{
    uint64_t a_second = load_relaxed(&c->rates[rate]);
    int64_t now_us = clock_steady_us(), from_us, to_us;

    if (!client || !a_second)
        return;
    from_us = load_relaxed(&client->paid_us[rate]);
    do
        to_us = (from_us > now_us ? from_us : now_us) +
                (int64_t)(n * 1000000 / a_second);
    while (!atomic_compare_exchange_weak_explicit(
        &client->paid_us[rate], &from_us, to_us, memory_order_relaxed,
        memory_order_relaxed));
    if (from_us <= now_us) {
        /* Keeps the client in the table until it has paid. */
        pthread_mutex_lock(&c->mutex);
        if (list_is_empty(&client->charged)) {
            add_relaxed(&client->refs, 1);
            list_append(&c->charged, &client->charged);
        }
        pthread_mutex_unlock(&c->mutex);
    }
}

void
clients_settle(struct clients *c)
{
    int64_t now_us = clock_steady_us();
    struct client *client;

    pthread_mutex_lock(&c->mutex);
    list_walk (client, &c->charged, charged) {
        int64_t owed = 0;

        for (int i = 0; i < CLIENT_RATES; i++)
            owed += owed_us(client, i, now_us);
        if (owed)
            continue;
        list_remove(&client->charged);
        if (drop_reference(c, client))
            free(client);
    }
    pthread_mutex_unlock(&c->mutex);
}

/* Holdings */

void
holding_init(struct holding *h, struct clients *clients, struct client *client,
             enum client_kind kind)
{
    *h = (struct holding){clients, client_ref(client), kind, 0};
}

void
holding_restore(struct holding *h, struct clients *clients,
                struct client *client, enum client_kind kind, uint64_t n)
{
    holding_init(h, clients, client, kind);
    h->n = n;
    clients_add(clients, client, kind, n);
}

enum status
holding_add(struct holding *h, uint64_t n, struct problem *why)
{
    enum status rc = try_take(h->clients, h->client, h->kind, n, h->n);

    if (!rc)
        h->n += n;
    return report_refusal(h->client, h->kind, rc, why);
}

bool
holding_try(struct holding *h, uint64_t n)
{
    if (try_take(h->clients, h->client, h->kind, n, h->n))
        return false;
    h->n += n;
    return true;
}

void
holding_release(struct holding *h, uint64_t n)
{
    if (!n)
        return;
    clients_give(h->clients, h->client, h->kind, n);
    h->n -= n;
}

void
holding_end(struct holding *h)
{
    if (!h->clients)
        return;
    holding_release(h, h->n);
    client_unref(h->client);
    *h = (struct holding){.clients = NULL};
}
