/*
 * bridge_rights.h - the rights of a direction of a bridge.
 *
 *     as = press      those of the token "press"
 *     as = everyone   those of requests without a token
 *     (no key)        the operator's: all, but it publishes no private set
 *
 * The end of a principal ends its rights (access/principal.h). The bridge then
 * looks for another principal of that name, which a rotation leaves. If there
 * is none the bridge waits for a token of that name, and looks once a second.
 *
 * The client's thread owns it.
 */
#pragma once

#include "broker/config/bridge_config.h"
#include "broker/sets/registry.h"

/* Between two looks. A bridge must stop within two seconds. */
#define BRIDGE_RIGHTS_LOOK_US ((int64_t)1000000)

struct bridge_rights {
    struct registry *registry;
    const struct bridge_config *config;
    const char *direction;       /* "out" or "in": for the log */
    struct principal *principal; /* NULL: none, or it is the operator's */
    bool is_waiting;             /* it has no principal */
    struct problem why;          /* why it waits */
};

/* Looks for the principal. All pointers are lent until bridge_rights_fini. */
void bridge_rights_init(struct bridge_rights *rights, struct registry *registry,
                        const struct bridge_config *config,
                        const char *direction);
void bridge_rights_fini(struct bridge_rights *rights);

/* Looks for another principal if this one has ended, and logs that the bridge
 * stops or goes on. Returns true if the rights are others than before. */
bool bridge_rights_renew(struct bridge_rights *rights);

/* The microseconds until the next look; negative: there is none. */
int64_t bridge_rights_wait_us(const struct bridge_rights *rights);

/* True if the bridge may publish the set. */
bool bridge_rights_include(const struct bridge_rights *rights,
                           const struct set *set);

/* Checks that a message may become a post to the set of that name. A missing
 * set needs the right to manage it, too. STATUS_FORBIDDEN: it may not.
 * STATUS_STOPPED: the bridge waits. */
MUST_CHECK enum status bridge_rights_check_post(struct bridge_rights *rights,
                                                struct slice name,
                                                struct problem *why);

/* Notes that the bridge has used its token. */
void bridge_rights_use(const struct bridge_rights *rights);
