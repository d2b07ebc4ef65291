#include "broker/access/tickets.h"

#include <openssl/crypto.h>

#include "base/clock.h"
#include "base/map.h"
#include "base/random.h"
#include "proto/resourcesync/digest.h"

struct ticket_entry {
    struct list node;     /* in tickets->all, by age */
    struct map_node find; /* by digest */
    struct digest digest;
    struct principal *principal;
    struct authority *authority; /* of a session; or NULL */
    struct holding place;
    int64_t ends_us; /* steady clock */
};

const struct ticket_kind tickets_of_requests = {CLIENT_TICKETS, "tickets",
                                                TICKET_US,      TICKETS_EACH,
                                                TICKETS_ALL,    false},
                         tickets_of_sessions = {CLIENT_SESSIONS, "sessions",
                                                SESSION_US,      SESSIONS_EACH,
                                                SESSIONS_ALL,    true},
                         tickets_that_were_used = {
                             CLIENT_USED_TICKETS, "used tickets",
                             TICKETS_USED_US,     TICKETS_USED_ALL,
                             TICKETS_USED_ALL,    false};

struct tickets {
    const struct ticket_kind *kind;
    struct clients *clients;
    pthread_mutex_t mutex;
    struct list all;
    struct map by_digest;
};

struct tickets *
tickets_new(const struct ticket_kind *kind, struct clients *clients)
{
    struct tickets *t = memory_new(1, sizeof(*t));

    t->kind = kind;
    t->clients = clients;
    clients_limit_all(clients, kind->kind, kind->all);
    if (kind->each < clients_limit_of_each(clients, kind->kind))
        clients_limit_each(clients, kind->kind, kind->each);
    pthread_mutex_init(&t->mutex, NULL);
    list_init(&t->all);
    return t;
}

static struct slice
digest_slice(const struct digest *digest)
{
    return (struct slice){(const char *)digest->bytes, DIGEST_SIZE};
}

static void
end_rights(struct ticket_entry *e)
{
    if (e->authority)
        authority_end(e->authority, 0);
    authority_unref(e->authority);
    principal_unref(e->principal);
}

static void
drop_entry(struct tickets *t, struct ticket_entry *e)
{
    list_remove(&e->node);
    map_remove(&t->by_digest, &e->find);
    end_rights(e);
    holding_end(&e->place);
    free(e);
}

/* All hold equally long, so the oldest end first. */
static void
drop_old(struct tickets *t, int64_t now_us)
{
    struct ticket_entry *e;

    list_until_empty (e, &t->all, node) {
        if (e->ends_us > now_us)
            return;
        drop_entry(t, e);
    }
}

void
tickets_free(struct tickets *t)
{
    if (!t)
        return;
    drop_old(t, INT64_MAX);
    map_fini(&t->by_digest);
    pthread_mutex_destroy(&t->mutex);
    free(t);
}

/* Takes the place of a new ticket, or makes room first. */
static enum status
take_place(struct tickets *t, struct ticket_entry *e, struct client *client,
           struct problem *why)
{
    int64_t now_us = clock_now_us();
    struct ticket_entry *other;

    holding_init(&e->place, t->clients, client, t->kind->kind);
    if (holding_try(&e->place, 1))
        return STATUS_OK;
    /* Drops the tickets of principals that have ended, which a session may
     * outlive for hours. */
    list_walk (other, &t->all, node)
        if (principal_is_over(other->principal, now_us))
            drop_entry(t, other);
    if (holding_try(&e->place, 1))
        return STATUS_OK;
    if (t->kind->is_session)
        list_walk (other, &t->all, node)
            if (other->place.client == client) {
                drop_entry(t, other);
                break;
            }
    return holding_add(&e->place, 1, why);
}

/* The entry with that digest; NULL: there is none. */
static struct ticket_entry *
find_entry(struct tickets *t, const struct digest *digest)
{
    struct ticket_entry *e;

    map_each_same (e, &t->by_digest,
                   map_hash(&t->by_digest, digest_slice(digest)), find) {
        if (!CRYPTO_memcmp(e->digest.bytes, digest->bytes, DIGEST_SIZE))
            return e;
    }
    return NULL;
}

/* An entry without a principal gets one. */
static void
begin_anew(struct tickets *t, struct ticket_entry *e,
           struct principal *principal, int64_t now_us)
{
    e->principal = principal_ref(principal);
    e->ends_us = now_us + t->kind->lasts_us;
    if (t->kind->is_session)
        e->authority = authority_new(&principal->authority,
                                     clock_now_us() + t->kind->lasts_us);
}

enum status
tickets_note(struct tickets *t, struct principal *principal,
             struct client *client, struct slice text, struct problem *why)
{
    struct ticket_entry *e = memory_new(1, sizeof(*e));
    int64_t now_us = clock_steady_us();
    enum status rc;

    digest_sha256(&e->digest, text);
    pthread_mutex_lock(&t->mutex);
    drop_old(t, now_us);
    rc = find_entry(t, &e->digest)
             ? problem(why, STATUS_CONFLICT, "it is among the %s",
                       t->kind->plural)
             : take_place(t, e, client, why);
    if (!rc) {
        begin_anew(t, e, principal, now_us);
        list_append(&t->all, &e->node);
        map_add(&t->by_digest, &e->find,
                map_hash(&t->by_digest, digest_slice(&e->digest)));
    }
    pthread_mutex_unlock(&t->mutex);
    if (rc) {
        holding_end(&e->place);
        free(e);
    }
    return rc;
}

enum status
tickets_add(struct tickets *t, struct principal *principal,
            struct client *client, char text[TICKET_TEXT_SIZE],
            struct problem *why)
{
    if (!random_hex(text, TICKET_TEXT_SIZE))
        return problem_errno(why, "no random numbers", "for a ticket");
    return tickets_note(t, principal, client, slice_of(text), why);
}

enum status
tickets_renew(struct tickets *t, struct slice text, struct principal *principal,
              const struct client *client, struct problem *why)
{
    int64_t now_us = clock_steady_us();
    struct ticket_entry *e;
    struct digest digest;

    digest_sha256(&digest, text);
    pthread_mutex_lock(&t->mutex);
    drop_old(t, now_us);
    e = find_entry(t, &digest);
    if (e && e->place.client != client)
        e = NULL;
    if (e) {
        end_rights(e);
        begin_anew(t, e, principal, now_us);
        list_put(&t->all, &e->node);
    }
    pthread_mutex_unlock(&t->mutex);
    return e ? STATUS_OK
             : problem(why, STATUS_GONE, "the session has ended: sign in");
}

struct principal *
tickets_find(struct tickets *t, struct slice text, bool uses_up,
             struct authority **authority)
{
    struct principal *found = NULL;
    struct ticket_entry *e;
    struct digest digest;

    digest_sha256(&digest, text);
    pthread_mutex_lock(&t->mutex);
    drop_old(t, clock_steady_us());
    e = find_entry(t, &digest);
    if (e)
        found = principal_ref(e->principal);
    if (authority)
        *authority = e ? authority_ref(e->authority) : NULL;
    if (e && uses_up)
        drop_entry(t, e);
    pthread_mutex_unlock(&t->mutex);
    return found;
}
