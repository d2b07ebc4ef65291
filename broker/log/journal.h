/*
 * journal.h - the seam: one order for the commits of several brokers.
 *
 * A journal numbers records (record.h) 1, 2, 3 ... Each broker of a cluster has
 * a copy of all of them, in its own engine, and adds one for each of its rounds
 * that others must know of:
 *
 *     log thread                               journal
 *       turn ------------------------------------> nobody else may append
 *         <------ records behind this copy, the time
 *       (commits these to its engine, and publishes them)
 *       stamps its own posts at that time
 *       append ----------------------------------> is under way
 *       (writes entries to its engine, ahead of the commit)
 *       outcome <--------------------------------- kept on two machines
 *       (commits to its engine, publishes, answers)
 *
 * The journal alone decides what has happened. A round whose append has an
 * unknown outcome is undone here; if it is in the journal, the next turn brings
 * it back as it brings the records of others.
 *
 * A broker to which nobody else has added a record for a while need not wait
 * for the turn: it *presumes* that the next number is its own, stamps its posts
 * at the time that it knows, and appends. If another broker was first after
 * all, the round is stamped again, with the turn. Nobody gets a refusal from a
 * round without the turn: what it rests on may be old. What a large record of
 * such a round has of the first attempt is at the journal before the turn: who
 * has a slow line keeps nobody waiting.
 *
 * The seam knows no SQL. An engine of journals that has no turns hands out all
 * at once, and answers the append that comes too late with STATUS_CONFLICT: the
 * round is stamped again.
 */
#pragma once

#include "proto/resourcesync/digest.h"

/* How far a copy is: the number of the last record, and a digest over all
 * records up to it: c(n) = SHA-256(c(n-1) || record n). c(0) is all zero. */
struct journal_place {
    uint64_t n;
    struct digest chain;
};

/* True if a copy is one of a cluster: it has a record, or began with sets. */
static inline bool
journal_place_is_set(const struct journal_place *place)
{
    static const struct journal_place none = {.n = 0};

    return place->n > 0 || !digest_is_equal(&place->chain, &none.chain);
}

/* Moves a place over the next record. */
static inline void
journal_place_next(struct journal_place *place, struct slice record)
{
    place->n++;
    digest_add(&place->chain, record);
}

struct journal {
    const struct journal_ops *ops;
};

/* Receives one record, which is lent, with the place that it leads to. Another
 * status than STATUS_OK ends the reading. */
typedef enum status journal_take_fn(const struct journal_place *place,
                                    struct slice record, void *user,
                                    struct problem *why);

struct journal_ops {
    /* Waits for the turn. The next record is likely to end with `bulk` (empty:
     * nobody knows), which is lent until that is appended or the turn released.
     * Hands over all records behind `at`, in order, then sets *now_us to the
     * journal's clock, which never runs backwards for any broker. STATUS_OK:
     * the caller has the turn until it calls append or release. Else it has
     * none: STATUS_UNREACHABLE, or what `take` returned; STATUS_NOT_FOUND: the
     * journal ends before `at`; STATUS_DIFFERENT: it has another record there.
     * Log thread. NULL: this broker only follows; `append`, `outcome` and
     * `release` are NULL, too. */
    enum status (*turn)(struct journal *journal, const struct journal_place *at,
                        struct slice bulk, journal_take_fn *take, void *user,
                        int64_t *now_us, struct problem *why);

    /* True if a caller whose copy is at `at` may stamp a round at *now_us,
     * which is not before any time of the journal that this broker knows, and
     * append, without the turn: others were silent of late, but may have added
     * records. The append ends with STATUS_CONFLICT then, and the next call
     * returns false, as it does after `release`. Returns at once. Log thread.
     * NULL: never. */
    bool (*presume)(struct journal *journal, const struct journal_place *at,
                    int64_t *now_us);

    /* True if the turn that the caller has is the first one behind records that
     * a person gave up (tidingsd cluster leave): its record is to begin new
     * epochs of all sets. The next turn is the first one again, unless this
     * record is kept. Log thread. NULL: never. */
    bool (*begins_epochs)(struct journal *journal);

    /* Begins to add a record, which leads to `place`. STATUS_OK: all of it is
     * under way, and `record` is the caller's again. The caller asks for the
     * outcome next; the journal ends the turn by itself, also if the caller is
     * late. Any other status is the outcome. Log thread. */
    enum status (*append)(struct journal *journal,
                          const struct journal_place *place,
                          struct slice record, struct problem *why);

    /* Waits for what the append comes to. STATUS_OK: the record is kept for
     * good. STATUS_CONFLICT: another record has its number.
     * STATUS_UNREACHABLE: it is not kept. STATUS_IO: nobody knows; a later turn
     * finds out. Log thread. */
    enum status (*outcome)(struct journal *journal, struct problem *why);

    /* Ends the turn, or a presumed one, without a record. Log thread. */
    void (*release)(struct journal *journal);

    /* Has the follower find out how far the journal is, now, and call
     * log_note_copy: a reader waits for it. Returns at once. Any thread.
     * NULL: there is no follower. */
    void (*look)(struct journal *journal);

    /* Keeps the bytes of a record, which are lent, for a journal that loses
     * them. Called when the engine has committed record `n`, of this broker or
     * of another one. Log thread. NULL: this journal needs no bytes. */
    void (*keep)(struct journal *journal, uint64_t n, struct slice record);

    void (*close)(struct journal *journal);
};
