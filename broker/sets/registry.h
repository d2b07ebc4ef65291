/*
 * registry.h - the sets, by name; what all who serve them share.
 *
 * A set exists from the commit of its first post on. Its struct is made a
 * little earlier, when that post is handed to the log, and lives as long as the
 * registry. Any thread.
 */
#ifndef BROKER_SETS_REGISTRY_H
#define BROKER_SETS_REGISTRY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "broker/base/config.h"
#include "broker/log/log.h"
#include "broker/sets/filters.h"
#include "broker/sets/links.h"
#include "broker/sets/running.h"
#include "proto/formats.h"
#include "proto/problem.h"
#include "proto/slice.h"
#include "proto/status.h"

/* Sets that may be there at most: what one Source Description holds. */
#define SETS_MAX 50000

struct registry;

struct set {
    struct registry *registry;
    struct log_set *log;
    const char *name;
};

struct registry_options {
    const struct config *config; /* lent as long as the registry lives */
    const char *public_url;      /* without a slash at its end; lent */

    /* A Change List has ended. Log thread; only to wake. May be NULL. */
    void (*on_closed)(void *user);
    void *user;
};

/* Opens the log and learns its sets. */
MUST_CHECK enum status registry_open(struct registry **registry,
                                     const struct registry_options *options,
                                     struct problem *why);

/* Takes no more posts; commits and answers those that were submitted. */
void registry_stop(struct registry *registry);

/* Closes the log: nobody reads any more. NULL is allowed. */
void registry_close(struct registry *registry);

struct log *registry_log(struct registry *registry);
const struct config *registry_config(const struct registry *registry);
const char *registry_public_url(const struct registry *registry);
struct filters *registry_filters(struct registry *registry);

/* Where the set is described for people, a URL; size 0: nobody
 * said so. */
struct link_text registry_described_by(const struct set *set);

/* The set of that name, if it exists; *head (may be NULL) is its head. */
struct set *registry_find(struct registry *registry, struct slice name,
                          struct head *head);

/* The set of that name, which a post is about to create if it does not exist.
 * NULL: no memory, or SETS_MAX are there. The name is valid. */
struct set *registry_make(struct registry *registry, struct slice name);

/* Calls `fn` for every set that exists, with its head, in order of names, until
 * it returns false. No lock is held meanwhile. */
void registry_each(struct registry *registry,
                   bool (*fn)(struct set *set, const struct head *head,
                              void *user),
                   void *user);

/* Readers are kept between posts: a new parser costs more than a small post. */
struct reader *registry_take_reader(struct registry *registry,
                                    const struct format *format,
                                    change_fn *on_change, void *user);
void registry_give_reader(struct registry *registry,
                          const struct format *format, struct reader *reader);

/* The posts with a key that are at work. */
struct running *registry_running(struct registry *registry);

/* What many clients together may make the broker hold. */
enum budget {
    BUDGET_POSTS,   /* posts that are read or committed: --ingest-bytes */
    BUDGET_ANSWERS, /* pages of change memory that are being sent */
    BUDGETS
};

/* Could so much be reserved now? */
bool registry_has_room(const struct registry *registry, enum budget budget,
                       size_t bytes);

/* false: the budget is exhausted, nothing was reserved. */
bool registry_reserve(struct registry *registry, enum budget budget,
                      size_t bytes);
void registry_release(struct registry *registry, enum budget budget,
                      size_t bytes);

/* Makes the metrics of the budget for posts, and of the number of sets, what
 * they are now. Any thread. */
void registry_measure(struct registry *registry);

#endif
