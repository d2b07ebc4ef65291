/*
 * source_sets.h - finds all sets of a source, and opens and closes them in
 * turns.
 *
 *     look --> sets --> visit_schedule.h --> on_open ... ended --> on_close
 *      ^   \-> missed --> on_trouble           ^                    |
 *      +-- later: sets that came since         +-- the next visit --+
 *
 * A tour numbers the sets of a source from 0, in the order in which discovery
 * finds them. It says when to open and close each set; its owner reads the set
 * in between. A tour asks a source that is away again after growing pauses.
 * Neither an unreadable document nor a set that fails keeps other sets from
 * being opened; source_sets_why reports both.
 *
 * With is_once, a tour visits each set once. Otherwise it streams the first
 * sets, visits the others again and again, and looks for new sets from time to
 * time.
 */
#pragma once

#include "client/lib/client.h"
#include "client/source/discovery.h"
#include "client/source/visit_schedule.h"

/* None of these may free the tour. */
struct source_sets_events {
    /* The first look has found the sets. False: the owner ends the tour. NULL
     * is allowed. */
    bool (*on_found)(void *user);

    /* The turn of a set. `is_visit`: until it has caught up; else for ever.
     * False: `why` says why, and the tour is over. */
    bool (*on_open)(size_t set, bool is_visit, struct problem *why, void *user);

    /* After source_sets_ended, or because another stream has no place: the
     * owner closes the set until on_open. */
    void (*on_close)(size_t set, void *user);

    /* Reports a set that failed, or a document that cannot be read, by its
     * `url`. NULL: the source is away; the tour asks it again in `pause_ms`. */
    void (*on_trouble)(const char *url, const char *why, unsigned pause_ms,
                       void *user);

    /* Called after sets were opened or closed, or after source_sets_turn. */
    void (*on_turn)(void *user);

    /* The tour is over because of `why`: the look found no set, or on_open
     * failed. Called at most once. */
    void (*on_end)(const struct problem *why, void *user);
};

struct source_sets_plan {
    const char *url; /* lent */
    bool is_once;
    unsigned poll_ms;     /* between visits of a set, and between looks; 0: a
                             minute */
    unsigned patience_ms; /* is_once: how long the source may be unreachable */
    size_t own_size;      /* of `own` of each stop */
};

struct source_stop {
    char *url;
    bool is_visit;
    bool has_ended; /* it is closed soon */
    enum status rc;
    struct offered offered; /* the owner may move it out, instead of a look */
    void *own; /* what the owner knows of the set; at first zero, the tour frees
                  it */
};

/* For others only to read, but for `offered` of a stop. */
struct source_sets {
    struct td_client *client;
    struct source_sets_plan plan;
    struct source_sets_events events;
    void *user;
    struct discovery *discovery;
    struct timer again;
    struct timer turn; /* lets the current callback return first */
    unsigned pause_ms;
    int64_t begun_ms;
    bool has_looked; /* the first look found sets */
    bool is_over;
    struct visit_schedule rounds;
    struct source_stop *stops; /* by the numbers of `rounds` */
    size_t stops_capacity;
    struct text_set urls;   /* theirs */
    struct text_set lists;  /* those of their Capability Lists */
    struct text_set missed; /* URLs of documents that no look could read */
    struct text_set seen;   /* those that the current one missed, too */
    struct problem why;     /* the first failure */
};

/* Begins a tour: a member of its owner's struct, which must not move. Calls
 * nothing before it returns. */
void source_sets_init(struct source_sets *tour, struct td_client *client,
                      const struct source_sets_plan *plan,
                      const struct source_sets_events *events, void *user);
void source_sets_fini(struct source_sets *tour); /* all zero is allowed */

/* Reports that an open set has ended: with STATUS_OK, it has caught up. An
 * unreachable set is visited again. */
void source_sets_ended(struct source_sets *tour, size_t set,
                       const struct problem *why);

/* Reports that a streamed set shares its connection with others now, or no
 * longer (visit_schedule.h). The tour then opens, or closes, others. */
void source_sets_share(size_t set, bool is_sharing, void *tour);

/* Reports that the connection that sets share is away; as on_trouble. */
void source_sets_trouble(const char *why, unsigned pause_ms, void *tour);

/* Calls on_turn soon. */
void source_sets_turn(struct source_sets *tour);

/* True if all sets are over. */
bool source_sets_is_over(const struct source_sets *tour);

/* STATUS_OK: all sets are covered. Else `why` counts the others and has the
 * first failure. */
enum status source_sets_why(const struct source_sets *tour,
                            struct problem *why);
