/*
 * hub_owner.h - the hub as the rest of the broker sees it: of a broker that is
 * alone, or of one in a cluster, whose parts have an owner each.
 *
 *     alone         the hub has all parts from the start to the end
 *     in a cluster  it has those whose leases this broker has; hub.db follows
 *                   the owners of the others, and commands go to them
 *                   (remote_commands.h)
 *
 * A new owner first waits until its copy of the log has every record that the
 * former one could know, and reads the stream to its end. So it continues with
 * the same deliveries: the same entries, the same Tidings-Delivery.
 */
#pragma once

#include "broker/hub/hub.h"

struct hub_owner;

struct hub_owner_options {
    struct posts *posts;
    struct tokens *tokens;
    const struct networks *allowed;

    const struct cluster_seat *seat; /* NULL: this broker is alone */
    bool is_reader; /* it asks for no lease: hub.db follows the owners, and all
                       commands are refused */
};

/* Opens the hub, and begins to ask for leases. What the options point to is
 * lent. */
MUST_CHECK enum status hub_owner_open(struct hub_owner **owner,
                                      const struct hub_owner_options *options,
                                      struct problem *why);

/* Hands a command over, as hub_submit does. Any thread. STATUS_STOPPED,
 * STATUS_FORBIDDEN (is_reader): the caller keeps the command. */
MUST_CHECK enum status hub_owner_submit(struct hub_owner *owner,
                                        struct command *command,
                                        struct problem *why);

/* As hub_sets_changed; hub_owner_stop ends the hub, and gives the leases
 * back. */
void hub_owner_sets_changed(struct hub_owner *owner);
void hub_owner_stop(struct hub_owner *owner);
void hub_owner_close(struct hub_owner *owner); /* NULL is allowed */
