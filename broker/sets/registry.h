/*
 * registry.h - the sets, by name; what all who serve them share.
 *
 * A set exists from the commit of its first post or of its first settings on.
 * Its struct is made a little earlier, when these are handed to the log, and
 * lives as long as the registry. Any thread.
 *
 *     (no such set) --registry_make, commit--> exists --removal--> removed
 *            ^                                   ^                    |
 *            |                                   +--- registry_make --+
 *            +-- never again: a removed name is remembered
 *
 * A set that is made again is another struct set with another log_set:
 * requests, subscribers and bodies of the old one may still be at work, and
 * must find the old one's bytes or nothing. Nobody counts who holds a struct
 * set, so a removed one is kept, without its batches and settings; how many
 * there may be in one life of the process is limited (SETS_MADE_MAX, some 100
 * MB), so that making and removing sets in turn does not grow without bound.
 */
#ifndef BROKER_SETS_REGISTRY_H
#define BROKER_SETS_REGISTRY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "broker/base/clients.h"
#include "broker/config/config.h"
#include "broker/log/log.h"
#include "broker/sets/filters.h"
#include "broker/sets/links.h"
#include "broker/sets/readers.h"
#include "broker/sets/running.h"
#include "proto/formats.h"
#include "proto/problem.h"
#include "proto/slice.h"
#include "proto/status.h"

/* Sets that may be there at most. Documents would bear more (descriptions.h);
 * but each second the archive thread and others look at every set, and each
 * takes a few KB of memory: a broker is measured with so many. */
#define SETS_MAX 50000

/* Sets that are made or remembered as removed in one life of the process. */
#define SETS_MADE_MAX 200000

/* Ways of pushing that subscribers are counted by. */
#define SET_TRANSPORTS_MAX 8

/* set->peers_after: not known; no seq. */
#define PEERS_AFTER_UNKNOWN UINT64_MAX

struct announcer;
struct configured;
struct notes;
struct peers;
struct registry;
struct settings;
struct upstream;

struct set {
    struct registry *registry;
    struct log_set *log;
    const char *name;

    struct settings *settings; /* the registry's: registry_settings */
    struct set *next_removed;  /* likewise */
    struct set *next_changed;  /* likewise: registry_next_changed */
    bool is_changed;
    uint64_t peers_after; /* the head when its hubs were settled; or
                             PEERS_AFTER_UNKNOWN: in another life */

    /* In effect, for who looks at all sets often. Relaxed: a late look costs a
     * round. */
    _Atomic(int64_t) rotate_age_us;
    _Atomic(uint64_t) retain_lists;
    _Atomic(int64_t) retain_age_us;
    _Atomic(int64_t) resource_list_every_us, resource_dump_every_us;
    atomic_uint content; /* enum content_mode */

    /* See announce_last. Relaxed: it says where to look. */
    _Atomic(uint64_t) last_event;
    atomic_bool is_over; /* it was removed, and its last event is there to be
                            read: announce_is_over */

    /* The archive thread's: archive/notes.h. */
    struct notes *notes;

    /* The content that it keeps: the seq up to which the other three are
     * counted, files, their bytes, and entries whose bytes are missing. The
     * archive thread stores them. Relaxed: they order nothing. */
    struct content_counts {
        _Atomic(uint64_t) last, files, bytes, missing;
    } content_counts;

    /* Connected now, by transport; push counts them. Relaxed: they are told,
     * and order nothing. */
    atomic_uint subscribers[SET_TRANSPORTS_MAX];
};

struct registry_options {
    const struct config *config; /* lent as long as the registry lives */
    const char *public_url;      /* without a slash at its end; lent */
    size_t notes_size;           /* of set->notes */

    /* A Change List has ended. Log thread; only to wake. May be NULL. */
    void (*on_closed)(void *user);

    /* A set got settings, or was removed: that is committed, and what
     * registry_find and registry_settings tell. Log thread; only to wake. May
     * be NULL. */
    void (*on_changed)(void *user);
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
/* The log of framework events of all sets (announce.h): kept, read and let go
 * of as that of a set, but none of the sets. The second is what the archive
 * thread treats it as. */
struct log_set *registry_framework(struct registry *registry);
struct set *registry_framework_set(struct registry *registry);
struct announcer *registry_announcer(struct registry *registry);

const struct config *registry_config(const struct registry *registry);
const char *registry_public_url(const struct registry *registry);

/* The bridges that there are now: those of the configuration, until a reload
 * names others, lent as long as the registry lives. Any thread. */
const struct bridging *registry_bridging(const struct registry *registry);
void registry_set_bridging(struct registry *registry,
                           const struct bridging *bridging);
struct filters *registry_filters(struct registry *registry);

/* "DATA/sets/NAME": the files of a set. Any thread. */
#define SET_DIR_MAX (4096 + SET_NAME_MAX + 32)
void set_dir(const struct set *set, char dir[SET_DIR_MAX]);

/* Where the set is described: the URL of its settings, else its
 * own page, GET /sets/NAME. */
struct link_text registry_described_by(const struct set *set);

/* The set of that name, if it exists; *head (may be NULL) is its head. */
struct set *registry_find(struct registry *registry, struct slice name,
                          struct head *head);

/* The same; *was_removed: it does not, but did, and was removed. Then what it
 * had is gone, which is more than not found. */
struct set *registry_look(struct registry *registry, struct slice name,
                          struct head *head, bool *was_removed);

/* The set of that name, which a post is about to create if it does not exist.
 * NULL: no memory, or SETS_MAX are there, or SETS_MADE_MAX were. The name is
 * valid. */
struct set *registry_make(struct registry *registry, struct slice name);

/* How many sets there are, those included that are about to begin. */
size_t registry_count(struct registry *registry);

/* Why there is none: tells both limits. */
MUST_CHECK enum status registry_full(struct problem *why);

/* When the last set was removed, microseconds; 0: never. With created_us and
 * changed_us of the heads it tells when the sets changed as a whole. */
int64_t registry_removed_us(struct registry *registry);

/* The removal of a set was committed. Log thread. */
void registry_set_removed(struct set *set);

/* Calls on_changed. Log thread. */
void registry_tell_changed(struct registry *registry);

/* Calls `fn` for every set that exists, with its head, in order of names, until
 * it returns false. No lock is held meanwhile. */
void registry_each(struct registry *registry,
                   bool (*fn)(struct set *set, const struct head *head,
                              void *user),
                   void *user);

/* The sets that exist, in order of names from the first one after `after` on,
 * with their heads: at most *n; sets *n. true: there are more. */
bool registry_page(struct registry *registry, struct slice after,
                   struct set **sets, struct head *heads, size_t *n);

/* What the set of that name keeps of the bytes of its resources; if it does not
 * exist, what it would begin with. */
enum content_mode registry_content(struct registry *registry,
                                   struct slice name);

/* Copies the settings of a set, what is in effect: settings.h. Title and
 * description (the URL of the links `describedby`) are "" where none is given;
 * head.changed_us tells when they were changed. Without its peers. */
void registry_settings(const struct set *set, struct settings *settings);

/* The foreign parties of a set: peers.h. A reference, to be given to
 * peers_unref; NULL: it has none. Any thread. */
struct peers *registry_peers(const struct set *set);

/* Claims a foreign topic for `owner`, "set NAME" or "relay NAME": upstreams.h.
 */
MUST_CHECK enum status registry_claim(struct registry *registry,
                                      struct slice url, const char *owner,
                                      struct upstream **claim,
                                      struct problem *why);

/* The set with that upstream topic (compared as W-026 says; a valid URL); NULL:
 * none. */
struct set *registry_upstream(struct registry *registry, struct slice url);

/* The next set whose peers have changed since it was last given out; at the
 * start, each that has some. *after: the seq of its last entry when they did:
 * a hub is to be told of what comes behind it; PEERS_AFTER_UNKNOWN where they
 * have not since the start. NULL: no more. */
struct set *registry_next_changed(struct registry *registry, uint64_t *after);

/* The settings that were committed; takes them over. Log thread. */
void registry_set_settings(struct set *set, struct settings *settings);

/* What of it stands in configured.c: settings, peers, upstream topics. */
struct configured *registry_configured(struct registry *registry);

/* The readers that posts take. */
struct readers *registry_readers(struct registry *registry);

/* The posts with a key that are at work. */
struct running *registry_running(struct registry *registry);

/* Whom limits count for, with the limits of the options. It lives as long as
 * the registry. */
struct clients *registry_clients(struct registry *registry);

/* Who sees whether the content is there that a post without any tells of
 * (ingest.h): `check` takes it over, or fails. Before anything is posted. */
struct ingest;
void registry_set_checker(struct registry *registry,
                          enum status (*check)(struct ingest *ingest,
                                               void *user, struct problem *why),
                          void *user);

/* Are posts to the set of that name given to the checker? */
bool registry_is_checked(struct registry *registry, struct slice name);
MUST_CHECK enum status registry_check(struct registry *registry,
                                      struct ingest *ingest,
                                      struct problem *why);

/* Makes the metrics of the memory for posts, and of the number of sets, what
 * they are now. Any thread. */
void registry_measure(struct registry *registry);

#endif
