/*
 * alter.h - a set is created, configured or removed: through the log's queue,
 * so that it has its place among the posts, and is durable before it is
 * answered.
 *
 *     alter_settings, alter_remove --> [log thread: commit] --> on_done -->
 * alter_free
 */
#ifndef BROKER_SETS_ALTER_H
#define BROKER_SETS_ALTER_H

#include "broker/log/post.h"
#include "broker/sets/registry.h"
#include "proto/problem.h"
#include "proto/slice.h"
#include "proto/status.h"

struct alteration {
    struct post post; /* its outcome */
    struct set *set;  /* where that is not good, perhaps NULL */

    /* For this folder only. */
    struct registry *registry;
    char name[SET_NAME_MAX + 1];
    struct settings *settings;
    struct buf text;
    void (*on_done)(struct alteration *alteration, void *user);
    void *user;
};

/* Gives the set `name` the settings of the JSON document `body`, instead of
 * those it has; a set that does not exist begins with them. `on_done` gets the
 * alteration back, on the log thread. STATUS_NOT_FOUND: no set can have that
 * name; STATUS_MALFORMED and STATUS_INVALID as by settings_read; STATUS_BUSY,
 * STATUS_STOPPED. */
MUST_CHECK enum status
alter_settings(struct registry *registry, struct slice name, struct slice body,
               void (*on_done)(struct alteration *, void *), void *user,
               struct problem *why);

/* Makes the set `name` without settings of its own, unless it exists, and waits
 * until it is durable. Not from a service thread, nor from the log thread.
 * Errors as those of alter_settings and its outcome. */
MUST_CHECK enum status alter_make(struct registry *registry, struct slice name,
                                  struct set **set, struct problem *why);

/* Removes a set that exists. What was posted before is committed before; who
 * posts after it makes a new set of that name. STATUS_GONE in the outcome:
 * somebody else has removed it. */
MUST_CHECK enum status
alter_remove(struct set *set, void (*on_done)(struct alteration *, void *),
             void *user, struct problem *why);

void alter_free(struct alteration *alteration); /* NULL is allowed */

/* A problem with a name that no set can have. */
MUST_CHECK enum status alter_check_name(struct slice name, struct problem *why);

#endif
