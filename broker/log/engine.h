/*
 * engine.h - the seam: what a durable store must do.
 *
 * An engine stores batches and the ends of lists. After any crash it returns
 * exactly what it had confirmed. Only the log thread commits; any thread that
 * may wait for a disk reads.
 *
 * One engine: broker/store, SQLite.
 */
#pragma once

#include "broker/log/act.h"
#include "broker/log/batch.h"
#include "broker/log/head.h"
#include "broker/log/journal.h"

/* Files that the broker no longer announces, but that readers may still
 * read. */
struct engine_trash {
    uint32_t id;
    int64_t due_us;
    uint32_t set;
    char name[SET_NAME_MAX + 1];
    uint64_t first, last; /* files of closed lists; first > last: none */
    bool is_whole;        /* all files of a removed set */
};

struct engine {
    struct engine_ops const *ops;
};

/* A set as stored. */
struct engine_set {
    uint32_t id;
    const char *name;
    struct head head;
    struct slice settings; /* as given; empty: none */
    struct slice harvest;  /* likewise: the report of a harvester */
    struct slice creator;  /* of its birth; of a removed one, too */
    int64_t removed_us;    /* 0: it exists. Else id is 0, and of head only
                              `list` counts, the next one's number */
};

/* Receives one set of the log, at start. `set` is lent. */
typedef enum status engine_set_fn(const struct engine_set *set, void *user,
                                  struct problem *why);

struct engine_ops {
    /* Reports every set with its head, and every name of a removed set. */
    enum status (*load)(struct engine *engine, engine_set_fn *on_set,
                        void *user, struct problem *why);

    /* The place in the journal of the last commit that had one; all zero:
     * none had. NULL: likewise. */
    enum status (*place)(struct engine *engine, struct journal_place *place,
                         struct problem *why);

    /* Sets *is_on to the last ACT_GUARD; false: there was none. NULL:
     * likewise. */
    enum status (*guard)(struct engine *engine, bool *is_on,
                         struct problem *why);

    /* How many bytes of entries the next commit may have, so that what frees
     * room still fits afterwards; 0: no posts at all. NULL: any number. Log
     * thread. */
    uint64_t (*room)(struct engine *engine);

    /* The post that was kept with key `id`, for IDEMPOTENCY_KEPT_US at least;
     * then STATUS_NOT_FOUND. Log thread. */
    enum status (*find_key)(struct engine *engine, const struct digest *id,
                            struct act_key *found, struct problem *why);

    /* Is there room for `n` keys in a commit at `at_us`? Log thread. */
    bool (*has_key_room)(struct engine *engine, size_t n, int64_t at_us);

    /* Since when the engine collects the keys for which has_key_room has a
     * limit, with a commit at `at_us`: at another time it begins anew. Log
     * thread. */
    int64_t (*keys_since)(struct engine *engine, int64_t at_us);

    /* The id for the first birth of the next commit; further births get the ids
     * that follow. A commit that was refused uses up none. Log thread. */
    uint32_t (*next_id)(struct engine *engine);

    /* Writes and syncs what it can of a commit that may never come, so that
     * less is left for the commit: a journal keeps the round meanwhile. Nothing
     * of that is visible, here or after a crash, until the commit has come; any
     * other commit writes over it. `place` of the commit does not count. A
     * failure is none yet: the commit tries again, and reports it. NULL: there
     * is nothing to write. Log thread. */
    void (*write_ahead)(struct engine *engine, const struct commit *commit);

    /* Makes the acts durable, all or none, in their order. Also forgets some
     * batches that files of closed lists hold: a slice of at most 1 MB, so that
     * no commit waits long for it; *is_more: there is more to forget.
     * STATUS_OK: kept. STATUS_BUSY: certainly not kept (no space, for example).
     * STATUS_IO: nobody knows; the process must end. Log thread. */
    enum status (*commit)(struct engine *engine, const struct commit *commit,
                          bool *is_more, struct problem *why);

    /* Things to be done between commits. Log thread. */
    void (*tidy)(struct engine *engine);

    /* The entries from `after` + 1 on, as many as a batch may hold, in a new
     * batch; NULL in *batch: it keeps no such entry. */
    enum status (*read)(struct engine *engine, uint32_t set, uint64_t after,
                        struct batch **batch, struct problem *why);

    /* The closed lists from `number` on, at most *n; sets *n. */
    enum status (*lists)(struct engine *engine, uint32_t set, uint64_t number,
                         struct list_info *lists, size_t *n,
                         struct problem *why);

    /* Closed list `number`, with its header: STATUS_NOT_FOUND if there is none.
     * `header` may be NULL. */
    enum status (*list)(struct engine *engine, uint32_t set, uint64_t number,
                        struct list_info *info, struct buf *header,
                        struct problem *why);

    /* The closed list with a file that holds entry `seq`, with the marks from
     * its filing. STATUS_NOT_FOUND: none. */
    enum status (*list_of)(struct engine *engine, uint32_t set, uint64_t seq,
                           struct list_info *info, struct buf *marks,
                           struct problem *why);

    /* Sets *place to the last known place in a list between two batches that
     * is not behind byte `offset`. Leaves it alone if it knows none. */
    enum status (*seek)(struct engine *engine, uint32_t set,
                        const struct list_info *info, uint64_t offset,
                        struct list_place *place, struct problem *why);

    /* The first list of a set that has no file yet, sets taking turns:
     * STATUS_NOT_FOUND if there is none. One thread. */
    enum status (*unfiled)(struct engine *engine, uint32_t *set,
                           struct list_info *info, struct buf *header,
                           struct problem *why);

    /* Sets *bytes to the size of all closed lists without a file. */
    enum status (*unfiled_bytes)(struct engine *engine, uint64_t *bytes,
                                 struct problem *why);

    /* The first trash that is due behind what is in *trash (all zero: of all),
     * in the order in which it is due: STATUS_NOT_FOUND if there is none. */
    enum status (*trash)(struct engine *engine, int64_t now_us,
                         struct engine_trash *trash, struct problem *why);

    /* Fills a page of the archived generations of a set. */
    enum status (*generations)(struct engine *engine, uint32_t set,
                               struct generation_page *page,
                               struct problem *why);

    /* The first generation that is due behind what is in *due, in the same way.
     */
    enum status (*due)(struct engine *engine, int64_t now_us,
                       struct due_generation *due, struct problem *why);

    /* The fact of a set behind fact->id, with its bytes, if it has them still:
     * STATUS_NOT_FOUND if there is none. */
    enum status (*fact)(struct engine *engine, uint32_t set,
                        struct content_fact *fact, struct buf *bytes,
                        struct problem *why);

    void (*close)(struct engine *engine);
};
