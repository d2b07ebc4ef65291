/*
 * act.h - what one commit of the log does: acts, applied in order, all or none.
 *
 *     posts --sequencer--> acts --engine->commit--> tidings.db
 *                             \--on_acts---------> framework events
 *
 * An act holds everything that the log thread decided: ids, numbers, times,
 * names, bytes. An engine that applies it reads no clock, no path and no
 * setting. So the same acts give the same rows in every data directory, at any
 * time. Local acts are the exception: they concern this data directory only.
 *
 * To add a kind: a row and its fields here, a case that places it (sequencer.c)
 * and a case that applies it (store_rows.c).
 */
#pragma once

#include "broker/log/head.h"
#include "proto/resourcesync/digest.h"
#include "proto/resourcesync/position.h"

struct batch;
struct journal_place;
struct log_set;

enum act_kind {
    ACT_BIRTH,      /* the set begins */
    ACT_BATCH,      /* the set gets entries */
    ACT_LIST_END,   /* the open list of the set ends, and the next one begins */
    ACT_KEY,        /* a post had an idempotency key (idempotency.h) */
    ACT_SETTINGS,   /* the set gets settings, instead of its former ones */
    ACT_RETIREMENT, /* the oldest lists of the set are no longer retained */
    ACT_REMOVAL,    /* the set ends */
    ACT_GENERATION, /* a build becomes the current one of its kind; or, in a
                       cluster, is ordered */
    ACT_UNARCHIVED, /* older builds leave the archive; the current one stays */
    ACT_HARVEST,    /* the set gets a harvester's report, instead of the former
                       one; a set that is new begins with it */
    ACT_CONTENT,    /* in a cluster: the bytes of an entry are there, or are not
                       to be had now, or never */
    ACT_EPOCH, /* the log of the set goes on under another epoch (head.h) */
    /* Local: */
    ACT_FILED,  /* the file of a closed list is on the disk */
    ACT_PURGED, /* files of trash are off the disk; has no set */
    ACT_SWEPT,  /* files of a generation are off the disk; has no set */
    ACT_TAKEN,  /* the bytes of acts of ACT_CONTENT are in files */
    ACT_GUARD,  /* the broker was closed to requests without a token, for ever,
                   or was opened again; has no set */
    ACT_KINDS
};

static inline bool
act_is_local(enum act_kind kind)
{
    return kind >= ACT_FILED;
}

/* A post with an idempotency key, and its outcome. */
struct act_key {
    struct digest id;      /* of the log's origin and the key */
    struct digest entries; /* of the posted entries */
    uint64_t first, last;
    int64_t last_us;
};

/* content_fact.due_us: kept, and the bucket of all brokers has it; kept; given
 * up for ever. */
#define CONTENT_IN_BUCKET INT64_C(-1)
#define CONTENT_KEPT      0
#define CONTENT_NEVER     INT64_MAX

/* Says whether the bytes of one entry are kept; a later fact replaces it. A
 * cluster has facts so that all its brokers decide alike: none asks its own
 * disk.
 *
 *     record --every broker--> tidings.db, with the bytes --archive thread-->
 *         content/ab/HEX and content.db --ACT_TAKEN--> without the bytes
 *
 * The bytes are committed together with their entry, so no crash separates the
 * two. The facts themselves stay until retention deletes the list of the entry:
 * content.db can begin anew.
 *
 * Where the bytes travel is known here alone: `bytes` has all of them, or none.
 * A fact without bytes names what is elsewhere under the digest: in the files
 * of this broker (is_here), or in the bucket (CONTENT_IN_BUCKET). */
struct content_fact {
    uint64_t id;          /* increases; the engine's */
    uint64_t seq;         /* of the entry */
    int64_t due_us;       /* else: to be fetched then */
    struct digest digest; /* of kept bytes: SHA-256 */
    uint64_t length;
    struct slice bytes;
    bool is_here; /* local: the file is in the folder of the set */
};

/* All pointers are lent until the engine has committed the act. */
struct act {
    enum act_kind kind;
    uint32_t set_id;     /* 0: the act has no set */
    const char *name;    /* of the set */
    struct log_set *set; /* the same set in memory; an engine ignores it */

    /* "Given": what the owner of a post of kind POST_ACT sets. The log thread
     * sets the rest. */
    union {
        struct {
            char epoch[EPOCH_SIZE + 1];
            int64_t created_us;   /* T(0) */
            uint64_t start_list;  /* number of the first list */
            struct slice creator; /* client_store of the client whose request
                                     made the set; empty: none */
        } birth;

        struct {
            /* Complete when the engine sees the act, not when on_acts does. */
            const struct batch *batch;
            uint64_t commit_after; /* as of the head, with this commit */
        } entries;

        struct {
            struct list_info info;
            struct slice header;   /* as it will stand for ever */
            uint64_t commit_after; /* with the commit of the last entry */
            uint64_t first_list;   /* the oldest that the set retains */
        } list_end;

        struct {
            struct act_key key;
            size_t previous_key; /* act.c: of the same round */
        };

        struct {
            struct slice text;
            int64_t changed_us;
        } settings;

        /* Lists `first` to `last` become trash: their rows and files stay until
         * due_us, for those who still read them. */
        struct {
            uint64_t last;       /* given */
            uint64_t earliest;   /* given: seq of the last entry that goes */
            uint64_t file_bytes; /* local: of all files that stay */
            uint64_t first;
            uint64_t open_list; /* number of the open list */
            int64_t due_us;
        } retirement;

        /* Its name and its lists' numbers are remembered for ever: a list's
         * address is never given to other bytes. Lists `first` to `last` become
         * trash, and so do all generations. */
        struct {
            uint64_t first, last;
            uint64_t next_list; /* first number of the next set of this name:
                                   behind those of all lists and generations */
            int64_t removed_us;
            int64_t due_us;
            struct slice creator; /* as of its birth */
        } removal;

        struct {
            struct generation build; /* given: its files are on the disk, and
                                        its number is the next of its kind. Of
                                        an order (generation_is_order) only the
                                        kind, is_archived, and as `number` that
                                        of the generation or order that it
                                        follows, 0: none */
            int64_t due_us;          /* when its predecessor may go, unless
                                        archived */
            bool keeps_list;     /* given, local: of the order of a dump, which
                                    orders the list of its state, too: that list is
                                    for the archive */
            bool is_first;       /* there was none before */
            uint64_t n_archived; /* of its kind, with this one */
            uint64_t first_archived; /* likewise: number of the oldest */
        } generation;

        struct {
            enum generation_kind kind; /* given */
            uint64_t from;             /* given, local: number of the oldest */
            uint64_t n;                /* given: how many go, the oldest */
            uint64_t first_archived;   /* given: number of the oldest that
                                          stays */
            uint64_t n_archived;       /* of those that stay */
            uint64_t last;             /* the number that was given last */
            int64_t due_us;
        } unarchived;

        struct {
            struct slice text; /* given; empty: it loses the report */
        } harvest;

        struct {
            char name[EPOCH_SIZE + 1]; /* the new one */
            uint64_t after;            /* the last entry of the former one */
            uint64_t builds[GENERATION_STATES]; /* head.former_builds */
        } epoch;

        struct content_fact content; /* given, but for its id */

        struct {
            uint64_t after, upto; /* given: ids, behind the first one */
        } taken;

        struct {
            uint64_t list; /* given */
            struct slice
                marks;      /* given: where its blocks begin (list_file.h) */
            uint64_t bytes; /* given: of its file */
            uint64_t file_bytes; /* of all files of the set */
        } filed;

        struct {
            uint32_t trash; /* given: its id */
            uint64_t upto;  /* given: the last list whose file is gone */
        } purged;

        struct {
            uint64_t id; /* given: of struct due_generation */
        } swept;

        struct {
            bool is_on; /* given */
        } guard;
    };
};

/* Does `act` follow from the head of its set? An act of this broker always
 * does. An act of another broker does not if the two copies differ. */
bool act_follows(const struct act *act, const struct head *head);

/* Moves the head of the set to where it is behind the act, which follows from
 * it, in a commit at `at_us`. */
void act_move(const struct act *act, int64_t at_us, struct head *head);

/* One transaction. */
struct commit {
    int64_t at_us; /* the clock when the round began: an engine uses no other
                      time, for the acceptance of batches and the age of keys */
    const struct act *acts;
    size_t n;
    const struct journal_place *place; /* that the commit leads to; NULL: it
                                          leaves the place as it is */
    bool is_ahead; /* the last call of the engine was write_ahead, with these
                      acts */
};

/* The acts of one round: the acts of the next commit, in the order of their
 * posts. The log thread's. Nothing of a round is durable or visible before the
 * engine has committed it. All zero: none. */
struct acts {
    int64_t at_us; /* the clock when the round began */
    struct act *all;
    size_t n, capacity;
    size_t n_of[ACT_KINDS];
    size_t last_key; /* index + 1 of the last ACT_KEY; 0: none */
};

/* Appends a copy of `act`, which concerns `set` (NULL: no set). Takes the
 * header of an ended list, also when it fails. STATUS_MEMORY. */
MUST_CHECK enum status acts_add(struct acts *acts, struct log_set *set,
                                const struct act *act);

/* The key of the round with that id, lent until the next acts_add; NULL: the
 * round has none. */
const struct act_key *acts_find_key(const struct acts *acts,
                                    const struct digest *id);

/* Removes all acts. */
void acts_clear(struct acts *acts);

void acts_fini(struct acts *acts);
