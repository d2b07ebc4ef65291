#include "broker/hub/hub_owner.h"

#include "broker/hub/remote_commands.h"
#include "broker/sources/hub_db.h"

struct hub_owner {
    struct hub_owner_options options;
    pthread_rwlock_t lock; /* guards `hub` itself, not what it points to */
    struct hub *hub;       /* NULL: this broker does not own */
    struct ownership *ownership;
    struct remote_commands *remote; /* of a cluster, unless this broker only
                                reads; else NULL */
};

/* Sets the hub that commands find; returns the one before. */
static struct hub *
exchange_hub(struct hub_owner *h, struct hub *hub)
{
    struct hub *before;

    atomic_store(&h->options.posts->registry->owns, hub != NULL);
    pthread_rwlock_wrlock(&h->lock);
    before = h->hub;
    h->hub = hub;
    pthread_rwlock_unlock(&h->lock);
    return before;
}

/* Owning: on the owner thread of a cluster */

static enum status
begin_hub(const struct ownership_right *right, void *user, struct problem *why)
{
    struct hub_owner *h = user;
    struct hub *hub;
    enum status rc = hub_open(&hub, h->options.posts, h->options.tokens,
                              h->options.allowed, right, why);

    if (rc)
        return rc;
    exchange_hub(h, hub);
    hub_sets_changed(hub); /* sets may have changed meanwhile */
    if (h->remote)
        remote_commands_own(h->remote, right->lease->term);
    return STATUS_OK;
}

static void
end_hub(const struct ownership_right *right, void *user)
{
    struct hub_owner *h = user;

    (void)right;
    if (h->remote)
        remote_commands_own(h->remote, 0);
    hub_close(exchange_hub(h, NULL));
}

/* STATUS_STOPPED also if there is no hub here; on the thread of
 * remote_commands, too. */
static enum status
submit_here(struct command *command, void *user)
{
    struct hub_owner *h = user;
    enum status rc = STATUS_STOPPED;

    pthread_rwlock_rdlock(&h->lock);
    if (h->hub)
        rc = hub_submit(h->hub, command);
    pthread_rwlock_unlock(&h->lock);
    return rc;
}

/* From the start to the end */

enum status
hub_owner_open(struct hub_owner **owner,
               const struct hub_owner_options *options, struct problem *why)
{
    struct hub_owner *h = memory_new(1, sizeof(*h));
    struct ownership_options owning = {
        .seat = options->seat,
        .file = &hub_db_file,
        .dir = options->posts->registry->config->data,
        .begin = begin_hub,
        .end = end_hub,
        .user = h,
    };
    struct remote_commands_options carrying = {
        .seat = options->seat,
        .tokens = options->tokens,
        .run = submit_here,
        .user = h,
        .call_us = (int64_t)options->posts->registry->config->hub_timeout_us,
    };
    enum status rc = STATUS_OK;

    h->options = *options;
    pthread_rwlock_init(&h->lock, NULL);
    h->ownership = ownership_new(&owning);
    if (options->seat && !options->is_reader)
        rc = remote_commands_open(&h->remote, &carrying, why);
    if (!rc)
        rc = ownership_start(h->ownership, why);
    if (rc)
        hub_owner_close(h);
    else
        *owner = h;
    return rc;
}

enum status
hub_owner_submit(struct hub_owner *h, struct command *command,
                 struct problem *why)
{
    enum status rc;

    if (h->options.is_reader)
        return problem(why, STATUS_FORBIDDEN, CLUSTER_READ_ONLY);
    rc = submit_here(command, h);
    if (rc && h->remote)
        return remote_commands_send(h->remote, command, why);
    return rc ? problem(why, rc, "the broker is ending") : STATUS_OK;
}

void
hub_owner_sets_changed(struct hub_owner *h)
{
    pthread_rwlock_rdlock(&h->lock);
    if (h->hub)
        hub_sets_changed(h->hub);
    pthread_rwlock_unlock(&h->lock);
}

void
hub_owner_stop(struct hub_owner *h)
{
    ownership_stop(h->ownership);
    if (h->remote)
        remote_commands_stop(h->remote);
}

void
hub_owner_close(struct hub_owner *h)
{
    if (!h)
        return;
    hub_owner_stop(h);
    ownership_close(h->ownership);
    remote_commands_close(h->remote);
    pthread_rwlock_destroy(&h->lock);
    free(h);
}
