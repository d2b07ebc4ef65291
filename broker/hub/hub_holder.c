#include "broker/hub/hub_holder.h"

#include <pthread.h>
#include <stdlib.h>

#include "broker/hub/courier.h"
#include "broker/hub/hub_db.h"
#include "broker/log/journal.h"
#include "broker/log/log.h"
#include "proto/memory.h"

struct hub_holder {
    struct hub_holder_options options;
    pthread_rwlock_t lock; /* guards `hub` itself, not what it points to */
    struct hub *hub;       /* NULL: this broker does not own */

    /* Of a cluster; else NULL */
    struct ownership *ownership;
    struct courier *courier; /* likewise of one that only reads */
};

/* Sets the hub that commands find; returns the one before. */
static struct hub *
exchange_hub(struct hub_holder *h, struct hub *hub)
{
    struct hub *before;

    pthread_rwlock_wrlock(&h->lock);
    before = h->hub;
    h->hub = hub;
    pthread_rwlock_unlock(&h->lock);
    return before;
}

/* Owning: on the owner thread */

static uint64_t
place_of_copy(void *user)
{
    const struct hub_holder *h = user;
    struct journal_place place;

    log_place(registry_log(h->options.posts->registry), &place);
    return place.n;
}

static enum status
begin_hub(const struct ownership_right *right, void *user, struct problem *why)
{
    struct hub_holder *h = user;
    struct hub *hub;
    enum status rc = hub_open_owned(&hub, h->options.posts, h->options.tokens,
                                    h->options.allowed, right, why);

    if (rc)
        return rc;
    exchange_hub(h, hub);
    hub_sets_changed(hub); /* sets may have changed meanwhile */
    courier_own(h->courier, right->lease->term);
    return STATUS_OK;
}

static void
end_hub(void *user)
{
    struct hub_holder *h = user;

    courier_own(h->courier, 0);
    hub_close(exchange_hub(h, NULL));
}

static enum status
follow_hub(struct streams *of_hub, void *user, struct problem *why)
{
    struct hub_holder *h = user;

    return owned_file_follow(&hub_db_file,
                             registry_config(h->options.posts->registry)->data,
                             of_hub, why);
}

/* A command of another broker; on the courier. */
static enum status
run_command(struct command *command, void *user)
{
    struct hub_holder *h = user;
    enum status rc = STATUS_STOPPED;

    pthread_rwlock_rdlock(&h->lock);
    if (h->hub)
        rc = hub_submit(h->hub, command);
    pthread_rwlock_unlock(&h->lock);
    return rc;
}

/* From the start to the end */

/* The first read of the stream comes a moment after the start. A backup of that
 * moment, too, has hub.db. */
static enum status
make_db(const struct hub_holder *h, struct problem *why)
{
    struct hub_db *db;
    enum status rc = hub_db_open(
        &db, registry_config(h->options.posts->registry)->data, why);

    if (!rc)
        hub_db_close(db);
    return rc;
}

static enum status
join_cluster(struct hub_holder *h, struct problem *why)
{
    struct ownership_options owning = {
        .name = HUB_LEASE,
        .place = place_of_copy,
        .begin = begin_hub,
        .end = end_hub,
        .follow = follow_hub,
        .user = h,
    };
    struct courier_options carrying = {
        .tokens = h->options.tokens,
        .run = run_command,
        .place = place_of_copy,
        .user = h,
    };
    enum status rc = make_db(h, why);

    if (!rc && !h->options.is_reader) {
        carrying.streams = h->options.open_streams(h->options.user);
        rc = courier_open(&h->courier, &carrying, why);
    }
    if (rc)
        return rc;
    owning.of_keeper = h->options.open_streams(h->options.user);
    owning.of_work = h->options.open_streams(h->options.user);
    return ownership_open(&h->ownership, &owning, why);
}

enum status
hub_holder_open(struct hub_holder **holder,
                const struct hub_holder_options *options, struct problem *why)
{
    struct hub_holder *h = memory_new(1, sizeof(*h));
    enum status rc;

    h->options = *options;
    pthread_rwlock_init(&h->lock, NULL);
    rc = options->open_streams
             ? join_cluster(h, why)
             : hub_open(&h->hub, options->posts, options->tokens,
                        options->allowed, why);
    if (rc)
        hub_holder_close(h);
    else
        *holder = h;
    return rc;
}

enum status
hub_holder_submit(struct hub_holder *h, struct command *command,
                  struct problem *why)
{
    enum status rc = STATUS_STOPPED;
    bool is_here;

    if (h->options.is_reader)
        return problem(why, STATUS_FORBIDDEN, CLUSTER_READ_ONLY);
    pthread_rwlock_rdlock(&h->lock);
    is_here = h->hub != NULL;
    if (is_here)
        rc = hub_submit(h->hub, command);
    pthread_rwlock_unlock(&h->lock);
    if (!is_here && h->courier)
        return courier_send(h->courier, command, why);
    return rc ? problem(why, rc, "the broker is ending") : STATUS_OK;
}

void
hub_holder_sets_changed(struct hub_holder *h)
{
    pthread_rwlock_rdlock(&h->lock);
    if (h->hub)
        hub_sets_changed(h->hub);
    pthread_rwlock_unlock(&h->lock);
}

void
hub_holder_stop(struct hub_holder *h)
{
    if (h->ownership)
        ownership_stop(h->ownership);
    if (h->courier)
        courier_stop(h->courier);
    if (h->hub) /* the broker is alone: no thread exchanges it */
        hub_stop(h->hub);
}

void
hub_holder_close(struct hub_holder *h)
{
    if (!h)
        return;
    hub_holder_stop(h);
    ownership_close(h->ownership);
    courier_close(h->courier);
    hub_close(h->hub);
    pthread_rwlock_destroy(&h->lock);
    free(h);
}
