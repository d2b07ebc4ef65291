#include "broker/hub/hub_owner.h"

#include "broker/hub/hub_parts.h"
#include "broker/hub/remote_commands.h"

struct hub_owner {
    struct hub_owner_options options;
    struct hub_cluster cluster; /* its streams: NULL, if this broker is alone */
    struct hub *hub;
    struct ownership *ownership; /* of a cluster, unless this broker only reads;
                                    else NULL; so is cluster.remote */
};

/* Of the owner thread */

static void
give(struct hub_owner *h, const struct ownership_right *right, bool is_given)
{
    unsigned part = (unsigned)atoi(right->part->file.part_of_rows);

    hub_give(h->hub, part, is_given ? right : NULL);
    remote_commands_own(h->cluster.remote, part,
                        is_given ? right->lease->term : 0);
    if (part == 0)
        atomic_store(&h->options.posts->registry->owns, is_given);
    if (!is_given)
        hub_await_left(h->hub, part);
}

static enum status
begin_part(const struct ownership_right *right, void *user, struct problem *why)
{
    (void)why;
    give(user, right, true);
    return STATUS_OK;
}

static void
end_part(const struct ownership_right *right, void *user)
{
    give(user, right, false);
}

/* Of the keeper thread */

static bool
may_own(void *user)
{
    struct hub_owner *h = user;

    return hub_is_fit(h->hub);
}

/* From the start to the end */

/* Asks for the leases of all parts. */
static enum status
open_parts(struct hub_owner *h, struct problem *why)
{
    const struct config *config = h->options.posts->registry->config;
    const struct ownership_options owning = {
        .seat = h->options.seat,
        .file = &hub_db_file,
        .dir = config->data,
        .is_divided = true,
        .begin = begin_part,
        .end = end_part,
        .may_own = may_own,
        .user = h,
    };
    const struct remote_commands_options carrying = {
        .seat = h->options.seat,
        .tokens = h->options.tokens,
        .may_run = hub_has,
        .run = hub_submit,
        .hub = h->hub,
        .call_us = (int64_t)config->hub_timeout_us,
    };
    static const char *const names[HUB_PARTS] = {
        "0", "1", "2",  "3",  "4",  "5",  "6",  "7",
        "8", "9", "10", "11", "12", "13", "14", "15"};
    enum status rc = remote_commands_open(&h->cluster.remote, &carrying, why);

    if (rc)
        return rc;
    h->ownership = ownership_new(&owning);
    ownership_divide(h->ownership, names, HUB_PARTS);
    return ownership_start(h->ownership, why);
}

enum status
hub_owner_open(struct hub_owner **owner,
               const struct hub_owner_options *options, struct problem *why)
{
    const struct cluster_seat *seat = options->seat;
    struct hub_owner *h = memory_new(1, sizeof(*h));
    enum status rc;

    h->options = *options;
    h->cluster.send = remote_commands_send;
    if (seat)
        h->cluster.streams = seat->open_streams(seat->user);
    atomic_store(&options->posts->registry->owns, !seat);
    rc = hub_open(&h->hub, options->posts, options->tokens, options->allowed,
                  seat ? &h->cluster : NULL, why);
    if (!rc && seat && !options->is_reader)
        rc = open_parts(h, why);
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
    rc = hub_submit(h->hub, command);
    return rc ? problem(why, rc, "the broker is ending") : STATUS_OK;
}

void
hub_owner_sets_changed(struct hub_owner *h)
{
    hub_sets_changed(h->hub);
}

/* The parts first: their deliveries are written under the leases. */
void
hub_owner_stop(struct hub_owner *h)
{
    if (h->ownership)
        ownership_stop(h->ownership);
    if (h->hub)
        hub_stop(h->hub);
    if (h->cluster.remote)
        remote_commands_stop(h->cluster.remote);
}

void
hub_owner_close(struct hub_owner *h)
{
    if (!h)
        return;
    hub_owner_stop(h);
    ownership_close(h->ownership);
    remote_commands_close(h->cluster.remote);
    hub_close(h->hub);
    if (h->cluster.streams)
        h->cluster.streams->ops->close(h->cluster.streams);
    free(h);
}
