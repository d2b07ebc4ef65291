#include "broker/bridge/bridges_holder.h"

#include <pthread.h>
#include <stdlib.h>

#include "broker/bridge/mqtt_db.h"
#include "broker/cluster/ownership.h"
#include "broker/log/journal.h"
#include "broker/log/log.h"
#include "proto/memory.h"

struct bridges_holder {
    struct bridges_holder_options options;
    struct registry *registry; /* of the posts */

    /* `changing` is held while bridges are opened, replaced or closed, which
     * takes seconds; `lock` guards the pointer itself, and those who read. */
    pthread_mutex_t changing;
    pthread_rwlock_t lock;
    struct bridges *bridges; /* NULL: this broker does not own */

    /* Of a cluster with bridges; else NULL. */
    struct ownership *ownership;
};

static struct bridges *
exchange_bridges(struct bridges_holder *h, struct bridges *bridges)
{
    struct bridges *before;

    pthread_rwlock_wrlock(&h->lock);
    before = h->bridges;
    h->bridges = bridges;
    pthread_rwlock_unlock(&h->lock);
    return before;
}

/* Owning: on the owner thread */

static uint64_t
place_of_copy(void *user)
{
    const struct bridges_holder *h = user;
    struct journal_place place;

    log_place(registry_log(h->registry), &place);
    return place.n;
}

static enum status
begin_bridges(const struct ownership_right *right, void *user,
              struct problem *why)
{
    struct bridges_holder *h = user;
    struct bridges *bridges = NULL;
    enum status rc;

    pthread_mutex_lock(&h->changing);
    rc = bridges_open_owned(&bridges, h->options.posts, right, why);
    if (!rc)
        exchange_bridges(h, bridges);
    pthread_mutex_unlock(&h->changing);
    return rc;
}

static void
end_bridges(void *user)
{
    struct bridges_holder *h = user;

    pthread_mutex_lock(&h->changing);
    bridges_close(exchange_bridges(h, NULL));
    pthread_mutex_unlock(&h->changing);
}

static enum status
follow_bridges(struct streams *of_bridges, void *user, struct problem *why)
{
    struct bridges_holder *h = user;

    return owned_file_follow(&mqtt_db_file, registry_config(h->registry)->data,
                             of_bridges, why);
}

/* Begins to ask for the lease, once there is a bridge. */
static enum status
join_cluster(struct bridges_holder *h, struct problem *why)
{
    struct ownership_options owning = {
        .name = BRIDGES_LEASE,
        .place = place_of_copy,
        .begin = begin_bridges,
        .end = end_bridges,
        .follow = follow_bridges,
        .user = h,
    };

    if (h->ownership || registry_bridging(h->registry)->n == 0)
        return STATUS_OK;
    owning.of_keeper = h->options.open_streams(h->options.user);
    owning.of_work = h->options.open_streams(h->options.user);
    return ownership_open(&h->ownership, &owning, why);
}

/* From the start to the end */

enum status
bridges_holder_open(struct bridges_holder **holder,
                    const struct bridges_holder_options *options,
                    struct problem *why)
{
    struct bridges_holder *h = memory_new(1, sizeof(*h));
    enum status rc;

    h->options = *options;
    h->registry = options->posts->registry;
    pthread_mutex_init(&h->changing, NULL);
    pthread_rwlock_init(&h->lock, NULL);
    rc = options->open_streams ? join_cluster(h, why)
                               : bridges_open(&h->bridges, options->posts, why);
    if (rc)
        bridges_holder_close(h);
    else
        *holder = h;
    return rc;
}

enum status
bridges_holder_reload(struct bridges_holder *h, const struct bridging *next,
                      struct problem *why)
{
    enum status rc = STATUS_OK;

    pthread_mutex_lock(&h->changing);
    if (h->bridges)
        rc = bridges_reload(h->bridges, next, why);
    else
        registry_set_bridging(h->registry, next);
    pthread_mutex_unlock(&h->changing);
    return rc || !h->options.open_streams ? rc : join_cluster(h, why);
}

void
bridges_holder_write(struct bridges_holder *h, const struct principal *reader,
                     struct buf *to)
{
    pthread_rwlock_rdlock(&h->lock);
    bridges_write(h->bridges, reader, to);
    pthread_rwlock_unlock(&h->lock);
}

void
bridges_holder_warn(struct bridges_holder *h, struct buf *to)
{
    pthread_rwlock_rdlock(&h->lock);
    bridges_warn(h->bridges, to);
    pthread_rwlock_unlock(&h->lock);
}

void
bridges_holder_measure(struct bridges_holder *h)
{
    pthread_rwlock_rdlock(&h->lock);
    bridges_measure(h->bridges);
    pthread_rwlock_unlock(&h->lock);
}

void
bridges_holder_stop(struct bridges_holder *h)
{
    if (!h)
        return;
    if (h->ownership)
        ownership_stop(h->ownership);
    bridges_stop(h->bridges); /* of a broker that is alone */
}

void
bridges_holder_close(struct bridges_holder *h)
{
    if (!h)
        return;
    bridges_holder_stop(h);
    ownership_close(h->ownership);
    bridges_close(h->bridges);
    pthread_mutex_destroy(&h->changing);
    pthread_rwlock_destroy(&h->lock);
    free(h);
}
