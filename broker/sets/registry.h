/*
 * registry.h - the sets, by name, and the state that all their users share.
 *
 * A set exists from the commit of its first post or of its first settings on.
 * The registry makes its struct a little earlier, when the caller hands these
 * to the log. The struct lives as long as the registry. Any thread.
 *
 *     (no such set) --registry_make, commit--> exists --removal--> removed
 *            ^                                   ^                    |
 *            |                                   +--- registry_make --+
 *            +-- never again: a removed name is remembered
 *
 * A set that is made again is another struct set with another log_set:
 * requests, subscribers and bodies of the old one may still be at work, and
 * must find the old one's bytes or nothing. A struct set has no reference
 * count, so the registry keeps a removed one, without its batches and settings.
 * SETS_MADE_MAX limits their number in one life of the process (some 100 MB),
 * so that making and removing sets in turn does not grow without bound.
 */
#pragma once

#include "base/file.h"
#include "broker/access/tokens.h"
#include "broker/base/client_limits.h"
#include "broker/config/config.h"
#include "broker/log/log.h"
#include "broker/sets/filters.h"
#include "broker/sets/links.h"
#include "broker/sets/upstream_topics.h"
#include "proto/resourcesync/resource_id.h"

/* Most sets at a time. Documents would allow more (source_description.h); but
 * each second the archive thread and others look at every set, and each takes a
 * few KB of memory: measurements cover so many. */
#define SETS_MAX 50000

/* Sets made or remembered as removed in one life of the process. */
#define SETS_MADE_MAX 200000

/* A set with fewer entries than SET_FEW_ENTRIES, in SET_FEW_BYTES, is small: it
 * gets no state and no Resource List on the disk, for sets of one entry must
 * cost one entry. The broker makes the list for each reader, from the log. */
#define SET_FEW_ENTRIES 100
#define SET_FEW_BYTES   ((size_t)64 * 1024)

/* The age of a set at its first Resource List and dump, unless their period is
 * shorter. */
#define SET_FIRST_BUILD_US 60000000

/* Push transports with counts of subscribers. */
#define SET_TRANSPORTS_MAX 12

/* set->peers_after: unknown; not a seq. */
#define PEERS_AFTER_UNKNOWN UINT64_MAX

struct announcer;
struct harvest;
struct set_progress;
struct peers;
struct rates;
struct checkpoint_keys;
struct registry;
struct settings;

struct set {
    struct registry *registry;
    struct log_set *log;
    const char *name;

    struct settings *settings; /* the registry's: registry_settings */
    struct harvest *harvest;   /* likewise: registry_harvest */
    struct set *next_removed;  /* likewise */
    struct set *next_changed;  /* likewise: registry_next_changed */
    bool is_changed;
    uint64_t peers_after; /* the head when its hubs were set;
                             PEERS_AFTER_UNKNOWN: before the start */

    /* The settings in effect, for threads that look at all sets often. Relaxed:
     * a late look costs a round. */
    _Atomic(int64_t) rotate_age_us;
    _Atomic(uint64_t) retain_lists;
    _Atomic(int64_t) retain_age_us;
    _Atomic(int64_t) resource_list_every_us, resource_dump_every_us;
    atomic_uint content; /* enum content_mode */
    _Atomic(uint64_t) content_versions;
    atomic_bool has_no_data;
    atomic_bool is_private; /* its setting: set_mark_private */

    /* This broker cannot read the settings of the set, because a newer broker
     * wrote them. It then deletes lists and content of the set on request
     * only. */
    atomic_bool is_unread;

    atomic_bool is_long;   /* its entries do not fit into SET_FEW_BYTES */
    atomic_bool is_listed; /* a reader knows the list of a small set */

    /* See framework_event_last. Relaxed: a place to start a search. */
    _Atomic(uint64_t) last_event;
    atomic_bool is_over; /* removed, with its last event readable:
                            framework_event_is_over */

    unsigned rate_ring; /* of rates.c */

    /* The archive thread's: archive/set_progress.h. */
    struct set_progress *progress;

    /* The client whose request made the set: its place among the sets, until
     * the removal, and among their names. */
    struct holding place, name_place;

    /* Bytes that the client keeps by this set (CLIENT_KEPT): the log thread
     * adds those of each batch, and registry_count_kept corrects the sum.
     * Relaxed: it orders nothing. */
    _Atomic(uint64_t) kept;

    /* The content of the set: the seq up to which the other four count, files,
     * their bytes, entries without their bytes, and former versions (content.h:
     * rows that are not current). The archive thread stores
     * them. Relaxed: they order nothing. */
    struct content_counts {
        _Atomic(uint64_t) last, files, bytes, missing, former;
    } content_counts;

    /* The records of OAI-PMH (broker/documents/oai.h). The archive thread stores
     * what their file takes, and deletes it after RECORDS_KEPT_US without a
     * request. `users`: requests that have it open; negative: it is being
     * deleted. */
    struct records_use {
        _Atomic(uint64_t) bytes; /* relaxed */
        atomic_int users;
    } records;

    /* A reader waits for the state up to that seq, with the ids of resources
     * (broker/documents/reconcile.h); 0: none has asked since the start.
     * Relaxed: a late look costs a round. */
    _Atomic(uint64_t) ids_wanted;

    /* Streams that want checkpoints. The archive thread makes one for them each
     * --checkpoint-every, at checkpoint_us (steady clock; 0: there is none), of
     * so many entries. Relaxed: a late look costs a round. */
    atomic_uint checkpoints_wanted;
    _Atomic(int64_t) checkpoint_us;
    _Atomic(uint64_t) checkpoint_size;
    char *checkpoint; /* the registry's: registry_checkpoint */

    /* So many leaves of its tree fill tiles that are files (tile_files.h) of
     * this log; 0: nobody has looked. Relaxed: the files do not change. */
    _Atomic(uint64_t) tiled;

    /* The registry's: registry_signed. The checkpoint that was signed last for
     * a request, at `us` (steady clock), and how many since second_us. */
    struct signed_text {
        char *text; /* NULL: none */
        uint64_t size;
        int64_t us, second_us;
        unsigned n;
    } signed_text;

    /* The registry's: registry_sum. */
    uint64_t sum_seq;
    struct id_sum sum;

    /* Another broker of the cluster has said something about the content. */
    atomic_bool has_facts;

    /* Deletions of the last upload of all resources that wait for consent,
     * since the start of the process. Relaxed: only reported. */
    _Atomic(uint64_t) held_back;

    /* Connected now, by transport; push counts them. Relaxed: only reported. */
    atomic_uint subscribers[SET_TRANSPORTS_MAX];
};

/* The client whose request made the set, lent; NULL: none. Any thread. */
static inline struct client *
set_creator(const struct set *set)
{
    return set->name_place.client;
}

struct registry_options {
    const struct config *config; /* lent as long as the registry lives */
    const char *public_url;      /* without a slash at its end; lent */
    size_t progress_size;        /* of set->progress */
    uint64_t few_entries;        /* SET_FEW_ENTRIES; 0: no set is small */
    engine_open_fn *open_engine; /* of the log */
    struct journal *journal;     /* of the log; NULL: there is one broker */

    /* See log_options.on_certain. */
    void (*on_certain)(void *user);

    /* A Change List has ended. Log thread; only to wake. May be NULL. */
    void (*on_closed)(void *user);

    /* A set got settings, or was removed: the change is committed, and visible
     * to registry_find and registry_settings. Log thread; only to wake. May be
     * NULL. */
    void (*on_changed)(void *user);
    void *user;

    /* See log_options.on_acts: announcer_announce. Log thread. NULL: nothing is
     * announced. */
    enum status (*on_acts)(struct announcer *announcer,
                           struct registry *registry, const struct act *acts,
                           size_t n, struct post **post);

    /* See log_options.on_followed: announcer_follow. Sets that the round
     * removes are still counted. Log thread. NULL as on_acts. */
    void (*on_followed)(struct announcer *announcer, struct registry *registry,
                        const struct act *acts, size_t n);
    struct announcer *announcer;
};

/* A table of things, in the order of their names, which stay where they are
 * meanwhile. All zero: empty. */
struct set_table {
    struct set_table_row {
        const char *name;
        void *thing;
    } * rows; /* ordered by name */

    size_t n, capacity;
};

struct registry {
    /* For all to read; they last as long as the registry. */
    struct registry_options options;
    const struct config *config; /* of the options */
    struct log *log;
    struct filters filters;
    struct clients clients;     /* with their limits from the options */
    struct rates *rates;        /* entries that the sets got in the last hour */
    struct upstreams upstreams; /* foreign topics that sets and relays claim */

    /* NULL: there are none, and nobody can act in the name of one. Lent; set
     * it before the bridges open. */
    struct tokens *tokens;

    /* What signs checkpoints. Likewise before the archive opens. */
    struct checkpoint_keys *checkpoint_keys;

    /* The log of framework events of all sets (framework_events.h): stored,
     * read and retained like the log of a set, but not in the table. */
    struct set *framework;

    /* Grows after the commit that makes, changes or removes a private set: no
     * framework event announces it. */
    atomic_uint_least64_t private_births;

    /* True while this broker owns the hub, which sets it: then it also does the
     * other work that one broker of a cluster does for all. */
    atomic_bool owns;

    /* For registry.c only. */
    struct bridging first_bridging; /* the configuration's */
    _Atomic(const struct bridging *) bridging;

    /* Guards the table. Every request searches it; only a new set changes it.
     */
    pthread_rwlock_t lock;
    struct set_table sets;
    struct set_table tombstones;
    atomic_size_t n_private; /* in the table */
    struct set *removed;     /* a chain, of this process */
    size_t n_made;           /* structs of sets, and tombstones read */

    pthread_mutex_t settings_mutex; /* guards set->settings and set->harvest of
                                       all sets, and: */
    struct set *changed;            /* a chain, by set->next_changed */
};

/* Opens the log and reads its sets. */
MUST_CHECK enum status registry_open(struct registry **registry,
                                     const struct registry_options *options,
                                     struct problem *why);

/* Closes the log, after log_stop and all readers. NULL is allowed. */
void registry_close(struct registry *registry);

/* The links to a document of the whole Source, and of a set: link_to. */
struct link_text registry_link(const struct registry *registry,
                               enum link_kind kind);
struct link_text set_link(const struct set *set, enum link_kind kind);

/* The current bridges: those of the configuration, until a reload names others;
 * lent as long as the registry lives. Any thread. */
const struct bridging *registry_bridging(const struct registry *registry);
void registry_set_bridging(struct registry *registry,
                           const struct bridging *bridging);

/* The file of its records, and how long it stays without a request: its date
 * says when the last one was. */
#define RECORDS_FILE    "oai.db"
#define RECORDS_KEPT_US (INT64_C(7) * 86400 * 1000000)

/* The path of a file of a set, "DATA/sets/NAME/FILE", or with "" that of the
 * directory of all of them. Any thread. */
struct file_path set_path(const struct set *set, const char *file);

/* The target of `describedby`: the URL of the set's settings,
 * else its own page, GET /sets/NAME. */
struct link_text registry_described_by(const struct set *set);

/* The set of that name, if it exists; *head (may be NULL) is its head. */
struct set *registry_find(struct registry *registry, struct slice name,
                          struct head *head);

/* The same; *was_removed (may be NULL): the set existed and was removed, so the
 * answer is "gone", not "not found". */
struct set *registry_look(struct registry *registry, struct slice name,
                          struct head *head, bool *was_removed);

/* Finds the set of that name, or makes it for a post of `client` (NULL: of no
 * client). `*set` is NULL, or a set of that name that was removed: it is not
 * found again. It takes a place of the client at once, until its removal: a set
 * without a post has one until the end of the process. STATUS_LIMITED: the
 * client has its share of sets, or of their names; STATUS_INVALID: SETS_MAX or
 * SETS_MADE_MAX is reached, or the name is too long; STATUS_MEMORY. */
MUST_CHECK enum status registry_make(struct registry *registry,
                                     struct slice name, struct client *client,
                                     struct set **set, struct problem *why);

/* Fails as a post of `bytes` by `client` to the set of that name would for want
 * of room: call it before the body is read. STATUS_LIMITED: the client may have
 * no more sets or names, or whoever has created the set keeps too much;
 * STATUS_INVALID: both limits. Any thread. */
MUST_CHECK enum status registry_check_room(struct registry *registry,
                                           struct slice name,
                                           struct client *client,
                                           uint64_t bytes, struct problem *why);

/* Counts what each set keeps for its creator. `room`: free bytes of the disk;
 * they limit those who have no limit of their own. Once a second; the archive
 * thread. */
void registry_count_kept(struct registry *registry, uint64_t room);

/* The number of sets, including those about to begin. */
size_t registry_count(struct registry *registry);

/* The number of those that are not private. */
size_t registry_count_public(struct registry *registry);

/* The removal of a set was committed. Log thread. */
void registry_set_removed(struct set *set);

/* Calls on_changed. Log thread. */
void registry_notify_changed(struct registry *registry);

/* Calls `fn` for every set that exists, with its head, in order of names, until
 * it returns false. No lock is held meanwhile. */
void registry_each(struct registry *registry,
                   bool (*fn)(struct set *set, const struct head *head,
                              void *user),
                   void *user);

/* The sets that exist, and that `principal` (NULL: the broker) sees and has
 * some right to, in order of names from the first one after `after` on, with
 * their heads: at most *n; sets *n. true: there are more. */
bool registry_page(struct registry *registry, struct slice after,
                   const struct principal *principal, struct set **sets,
                   struct head *heads, size_t *n);

/* A private set is private from its beginning to its end. The log thread marks
 * a new one before the commit, so no thread ever finds it as a public one;
 * false: the set was not made. */
void set_mark_private(struct set *set, bool is_private);
bool set_is_private(const struct set *set);

/* True if the set exists for the principal: a private one only with the right
 * to subscribe, of a token. Call it before a principal gets a set, or a
 * list of sets. Any thread. */
bool set_is_visible(const struct set *set, const struct principal *principal);

/* STATUS_BUSY: the set is private, and this broker has had no news of its
 * cluster for too long to know the rights to it (--cluster-private-stale). */
MUST_CHECK enum status set_check_rights(const struct set *set,
                                        struct problem *why);

/* True if the set is too small for a state and a list on the disk: its log has
 * its few entries from the first one on, and no list was built. Any thread. */
bool set_is_small(const struct set *set, const struct head *head);

/* True if readers may get a current build of that kind: it was built, is being
 * built for a new epoch, or is the Resource List of a set that is small when the
 * first one is due. That list stays, up to its last few entries, until a built
 * one takes its place. Any thread. */
bool set_offers(struct set *set, const struct head *head,
                enum generation_kind kind);

/* When the first build of a set with that period is due: the clock. */
int64_t set_first_build(const struct head *head, int64_t every_us);

/* Its setting `content` now. */
enum content_mode set_content_mode(const struct set *set);

/* The content mode of the set of that name. Without such a set: the mode with
 * which a new set begins. */
enum content_mode registry_content(struct registry *registry,
                                   struct slice name);

/* Copies the settings in effect of a set (settings.h), without its peers. Title
 * and description (the URL of the links `describedby`) are "" if not given;
 * head.changed_us is the time of their last change. */
void registry_settings(const struct set *set, struct settings *settings);

/* The foreign parties of a set: peers.h. A reference for peers_unref; NULL: the
 * set has none. Any thread. */
struct peers *registry_peers(const struct set *set);

/* The last report of the set's harvester: harvest.h. A reference for
 * harvest_unref; NULL: the set has none. Any thread. */
struct harvest *registry_harvest(const struct set *set);

/* Takes over a report that was committed; NULL: the set has none any more. Log
 * thread. */
void registry_set_harvest(struct set *set, struct harvest *harvest);

/* The last known sum of the ids of the set's resources, with the seq of the
 * state that it is of. False: it is not known. Any thread. */
bool registry_sum(const struct set *set, uint64_t *seq, struct id_sum *sum);

/* Notes it. Archive thread. */
void registry_set_sum(struct set *set, uint64_t seq, const struct id_sum *sum);

/* Appends what streams send as the newest checkpoint of the set, and sets *us
 * to its checkpoint_us. False: there is none, or it covers entries behind
 * `upto`. Any thread. */
bool registry_checkpoint(const struct set *set, uint64_t upto, struct buf *to,
                         int64_t *us);

/* Takes over a copy of it; empty: there is none any more. */
void registry_set_checkpoint(struct set *set, uint64_t size, struct slice text);

/* Appends the last checkpoint of a request, without cosignatures, if it is of
 * the epoch of that head and of the same second, and has the last entry of the
 * head, or SIGNED_A_SECOND were signed in that second: many readers of a busy
 * set cost so many signatures (part 18). False: sign another. Any thread. */
bool registry_signed(const struct set *set, const struct head *head,
                     struct buf *to);

/* Takes over a copy of one of `size` entries. */
void registry_set_signed(struct set *set, uint64_t size, struct slice text);

/* Claims the upstream topic of `peers`, if it has one, for the set of that
 * name; the claim ends with them. `peers` may be NULL. STATUS_INVALID: the
 * topic has another owner. */
MUST_CHECK enum status registry_claim_upstream(struct registry *registry,
                                               const char *name,
                                               struct peers *peers,
                                               struct problem *why);

/* Returns the next set whose peers have changed since the last call for it; at
 * the start, each set with peers. *after: the seq of its last entry at that
 * change: a hub gets the entries behind it; PEERS_AFTER_UNKNOWN without a
 * change since the start. NULL: no more. */
struct set *registry_next_changed(struct registry *registry, uint64_t *after);

/* Takes over settings that were committed. Log thread. */
void registry_set_settings(struct set *set, struct settings *settings);

/* Updates the metrics of the memory for posts, of the number of sets, and of
 * the bytes of their content. Any thread. */
void registry_measure(struct registry *registry);
