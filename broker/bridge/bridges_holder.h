/*
 * bridges_holder.h - the bridges as the rest of the broker sees them: of a
 * broker that is alone, or of one in a cluster, where one broker at a time owns
 * all bridges.
 *
 * Client ids are made from mqtt.db, which follows the owner's: so a new owner
 * takes over the sessions, and the MQTT broker ends the connections of the
 * former one.
 */
#ifndef BROKER_BRIDGE_BRIDGES_HOLDER_H
#define BROKER_BRIDGE_BRIDGES_HOLDER_H

#include "broker/bridge/bridges.h"
#include "broker/cluster/streams.h"

/* The lease of all bridges. */
#define BRIDGES_LEASE "bridges"

struct bridges_holder;

struct bridges_holder_options {
    struct posts *posts;

    /* Of a cluster; NULL: this broker is alone. Makes streams for one thread.
     * The holder closes them. */
    struct streams *(*open_streams)(void *user);
    void *user;
};

/* Opens the bridges, or begins to ask for their lease. What the options point
 * to is lent. */
MUST_CHECK enum status
bridges_holder_open(struct bridges_holder **holder,
                    const struct bridges_holder_options *options,
                    struct problem *why);

/* As the functions of bridges.h. A broker that does not own reports no bridge,
 * and keeps the sections of a reload for later. `h` NULL is allowed. */
MUST_CHECK enum status bridges_holder_reload(struct bridges_holder *h,
                                             const struct bridging *next,
                                             struct problem *why);
void bridges_holder_write(struct bridges_holder *h,
                          const struct principal *reader, struct buf *to);
void bridges_holder_warn(struct bridges_holder *h, struct buf *to);
void bridges_holder_measure(struct bridges_holder *h);

/* Ends the bridges, and gives the lease back. A second call does nothing. */
void bridges_holder_stop(struct bridges_holder *h);
void bridges_holder_close(struct bridges_holder *h);

#endif
