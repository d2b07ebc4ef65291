#include "broker/access/tickets.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/crypto.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/map.h"
#include "base/random.h"
#include "proto/memory.h"
#include "proto/resourcesync/digest.h"

struct ticket_entry {
    struct list node;     /* in tickets->all, by age */
    struct map_node find; /* by digest */
    struct digest digest;
    struct principal *principal;
    struct authority *authority; /* of a session; or NULL */
    int64_t ends_us;             /* steady clock */
};

const struct ticket_kind tickets_of_requests = {"tickets", TICKET_US,
                                                TICKETS_EACH, TICKETS_ALL,
                                                false},
                         tickets_of_sessions = {"sessions", SESSION_US,
                                                SESSIONS_EACH, SESSIONS_ALL,
                                                true},
                         tickets_that_were_used = {"used tickets",
                                                   TICKETS_USED_US, 0,
                                                   TICKETS_USED_ALL, false};

struct tickets {
    const struct ticket_kind *kind;
    pthread_mutex_t mutex;
    struct list all;
    struct map by_digest;
};

struct tickets *
tickets_new(const struct ticket_kind *kind)
{
    struct tickets *t = memory_new(1, sizeof(*t));

    t->kind = kind;
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
drop_entry(struct tickets *t, struct ticket_entry *e)
{
    list_remove(&e->node);
    map_remove(&t->by_digest, &e->find);
    if (e->authority)
        authority_end(e->authority, 0);
    authority_unref(e->authority);
    principal_unref(e->principal);
    free(e);
}

/* Drops the tickets of principals that have ended, which a session may outlive
 * for hours. */
static void
drop_ended(struct tickets *t)
{
    int64_t now_us = clock_now_us();
    struct list *next;
    struct ticket_entry *e;

    list_each (e, next, &t->all, node) {
        if (principal_is_over(e->principal, now_us))
            drop_entry(t, e);
    }
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

/* Checks the bounds, or makes room. */
static enum status
check_room(struct tickets *t, const struct principal *p, struct problem *why)
{
    struct ticket_entry *oldest = NULL;
    unsigned n = 0;

    if (t->kind->each && t->by_digest.n >= t->kind->all)
        drop_ended(t);
    for (struct list *i = t->all.next; i != &t->all && n < t->kind->each;
         i = i->next) {
        struct ticket_entry *e = list_entry(i, struct ticket_entry, node);

        if (e->principal != p)
            continue;
        if (!oldest)
            oldest = e;
        n++;
    }
    if (oldest && n >= t->kind->each) {
        if (!t->kind->is_session)
            return problem(why, STATUS_LIMITED,
                           "this token has %u %s, the most", t->kind->each,
                           t->kind->plural);
        drop_entry(t, oldest);
    }
    return t->by_digest.n < t->kind->all
               ? STATUS_OK
               : problem(why, STATUS_BUSY, "there are too many %s",
                         t->kind->plural);
}

/* The entry with that digest; NULL: there is none. */
static struct ticket_entry *
find_entry(struct tickets *t, const struct digest *digest)
{
    uint64_t hash = map_hash(&t->by_digest, digest_slice(digest));
    struct ticket_entry *e;

    map_each_same (e, &t->by_digest, hash, find) {
        if (!CRYPTO_memcmp(e->digest.bytes, digest->bytes, DIGEST_SIZE))
            return e;
    }
    return NULL;
}

enum status
tickets_note(struct tickets *t, struct principal *principal, struct slice text,
             struct problem *why)
{
    struct ticket_entry *e = memory_new(1, sizeof(*e));
    int64_t now_us = clock_steady_us();
    enum status rc;

    digest_sha256(&e->digest, text);
    e->ends_us = now_us + t->kind->lasts_us;
    pthread_mutex_lock(&t->mutex);
    drop_old(t, now_us);
    rc = find_entry(t, &e->digest)
             ? problem(why, STATUS_CONFLICT, "it is among the %s",
                       t->kind->plural)
             : check_room(t, principal, why);
    if (!rc) {
        e->principal = principal_ref(principal);
        if (t->kind->is_session)
            e->authority = authority_new(&principal->authority,
                                         clock_now_us() + t->kind->lasts_us);
        list_append(&t->all, &e->node);
        map_add(&t->by_digest, &e->find,
                map_hash(&t->by_digest, digest_slice(&e->digest)));
    }
    pthread_mutex_unlock(&t->mutex);
    if (rc)
        free(e);
    return rc;
}

enum status
tickets_add(struct tickets *t, struct principal *principal,
            char text[TICKET_TEXT_SIZE], struct problem *why)
{
    if (!random_hex(text, TICKET_TEXT_SIZE))
        return problem_errno(why, "no random numbers", "for a ticket");
    return tickets_note(t, principal, slice_of(text), why);
}

static struct principal *
find_principal(struct tickets *t, struct slice text, bool uses_up,
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
    if (e && authority)
        *authority = authority_ref(e->authority);
    if (e && uses_up)
        drop_entry(t, e);
    pthread_mutex_unlock(&t->mutex);
    return found;
}

struct principal *
tickets_find(struct tickets *t, struct slice text, struct authority **authority)
{
    *authority = NULL;
    return find_principal(t, text, false, authority);
}

struct principal *
tickets_take(struct tickets *t, struct slice text)
{
    return find_principal(t, text, true, NULL);
}
