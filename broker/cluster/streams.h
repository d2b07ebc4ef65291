/*
 * streams.h - the seam: leases, and rows that belong to one broker at a time.
 *
 * Some work of a cluster must happen once: deliveries of the hub, relays. The
 * broker that has the lease for it is the owner. Its state is the rows of a
 * stream:
 *
 *     owner                               other brokers
 *       hold: the lease, and its term
 *       append: rows, under this term -----> read: rows behind their number
 *
 * A stream keeps the last value of each key, with the number that it got: a
 * broker that reads behind its own number, up to the end, has all rows as they
 * are. It may see a row of a transaction without the others before it gets to
 * the end. A stream forgets rows an hour or two after they were deleted: a
 * broker that was away for longer reads all rows again.
 *
 * What changes with every turn, as the place of a subscriber, costs too much as
 * rows. The owner adds it as a note: some bytes that mean something to it
 * alone, with a number of their own. Once in a while it folds what the oldest
 * notes say into rows, and the same append drops these notes. Only the next
 * owner reads notes.
 *
 * Each lease has a term, which counts its owners. A stream takes rows only
 * under the term of the moment: a former owner, which stood still and knows
 * nothing, is refused.
 *
 * Work in parts has a lease for each. Its rows may be in one stream, which all
 * owners write: each append proves all leases that its broker believes to have,
 * and each lease has notes of its own.
 *
 * A struct streams belongs to one thread. It waits for the network, at most
 * some seconds.
 */
#pragma once

#include "proto/problem.h"

/* A lease lasts so long from its last renewal, by the steady clock of a broker
 * that asks for it and sees no other one. */
#define LEASE_US 10000000

/* The most leases of one append. */
#define LEASES_MAX 16

struct lease {
    const char *name;
    uint64_t term; /* 0: this broker does not have it */

    /* Of `hold`: the last renewal that this broker has seen, and since when, on
     * its steady clock. */
    uint64_t seen;
    int64_t seen_us;
    bool is_patient; /* it is for others to take, for twice LEASE_US */
};

/* The leases by which a broker writes a stream, lent; NULL: it lacks one. */
struct leases {
    const struct lease *all[LEASES_MAX];
};

/* A row, lent. The key has at most 1,000 bytes. */
struct stream_row {
    struct slice key, value;
    bool is_deleted; /* there is no value */
};

/* Receives one row with its number. Another status than STATUS_OK ends the
 * reading. */
typedef enum status stream_row_fn(const struct stream_row *row, uint64_t n,
                                  void *user, struct problem *why);

/* What an owner adds beside rows. All zero: nothing. */
struct stream_note {
    uint64_t n;                     /* its number: more than all before */
    struct slice bytes[LEASES_MAX]; /* for each lease; empty: none */
    uint64_t keep_from;             /* notes with lower numbers are dropped */
};

/* Receives an order, an answer or a note; the bytes are lent. */
typedef void order_fn(uint64_t id, struct slice bytes, void *user);

/* An order waits so long for its answer. */
#define ORDER_US 5000000

struct streams {
    const struct streams_ops *ops;
};

struct streams_ops {
    /* Takes the lease, or renews it. STATUS_OK: this broker has it until
     * LEASE_US after the call began, under lease->term: the same term as before
     * if nobody else had it meanwhile. STATUS_CONFLICT: another broker has it.
     * STATUS_UNREACHABLE: nobody knows, and the next call finds out. */
    enum status (*hold)(struct streams *streams, struct lease *lease,
                        struct problem *why);

    /* Renews leases that this broker has, in one transaction: as `hold` for
     * each of them. Sets *kept: a bit for each that it still has. */
    enum status (*renew)(struct streams *streams, const struct leases *leases,
                         unsigned *kept, struct problem *why);

    /* Sets *n to how many brokers live that are able to work, and
     * *n_before to how many of them have a name before this one's; *least to
     * the least number of the last record of all brokers that were up in a
     * week. */
    enum status (*brokers)(struct streams *streams, uint64_t *n,
                           uint64_t *n_before, uint64_t *least,
                           struct problem *why);

    /* Ends the lease at once, so that others need not wait. */
    void (*leave)(struct streams *streams, struct lease *lease);

    /* Sets *id to the random number that a stream got when it was made, here if
     * there is none yet: a journal that was begun again (cluster mend) has
     * other streams. STATUS_BUSY: there is none yet, and a broker that only
     * reads makes none. */
    enum status (*identify)(struct streams *streams, const char *stream,
                            uint64_t *id, struct problem *why);

    /* Hands over all rows behind *n, in the order of their numbers; *n moves to
     * the end, also over rows that the stream has forgotten. STATUS_GONE: the
     * stream has forgotten some behind *n; the reader drops what it has, also
     * rows of this call, and reads again from 0. STATUS_DIFFERENT: the stream
     * ends before *n: the journal has lost rows. */
    enum status (*read)(struct streams *streams, const char *stream,
                        uint64_t *n, stream_row_fn *fn, void *user,
                        struct problem *why);

    /* Adds rows and notes (NULL: none), all or none; no two rows have the same
     * key. They get the numbers after *n, the last one of the stream; *n moves
     * to the end. Without rows, *n does not count. STATUS_OK: they are kept for
     * good. STATUS_REFUSED: a lease has another term. STATUS_CONFLICT: the
     * stream has rows behind *n. STATUS_UNREACHABLE: nothing is kept.
     * STATUS_IO: nobody knows; a read finds out. */
    enum status (*append)(struct streams *streams, const char *stream,
                          const struct leases *leases, uint64_t *n,
                          const struct stream_row *rows, size_t n_rows,
                          const struct stream_note *note, struct problem *why);

    /* Hands over all notes of a lease, in order. */
    enum status (*notes)(struct streams *streams, const char *lease,
                         order_fn *fn, void *user, struct problem *why);

    /* Orders: any broker leaves bytes for the owner of a lease, and the owner
     * leaves its answer for that broker. After ORDER_US the broker gives an
     * order up, but the owner may have carried it out. */

    /* Leaves an order, and sets *id. */
    enum status (*order)(struct streams *streams, const char *lease,
                         struct slice bytes, uint64_t *id, struct problem *why);
    /* Hands over the orders that no owner of these terms has taken. */
    enum status (*take)(struct streams *streams, const struct leases *leases,
                        order_fn *fn, void *user, struct problem *why);
    /* Leaves the answer to an order. */
    enum status (*answer)(struct streams *streams, uint64_t id,
                          struct slice bytes, struct problem *why);
    /* Hands over the answers to this broker's orders, each once. */
    enum status (*answers)(struct streams *streams, order_fn *fn, void *user,
                           struct problem *why);

    /* Waits until there may be an order or an answer, `fd` can be read, or
     * `wait_us` have passed. Without a connection, for `fd` or the time alone.
     */
    void (*wait)(struct streams *streams, int fd, int64_t wait_us);

    /* Sets *n to the number of the last record of the journal
     * (broker/log/journal.h). */
    enum status (*records)(struct streams *streams, uint64_t *n,
                           struct problem *why);

    void (*close)(struct streams *streams);
};

/* Which work a broker may ask for: none; only what all others leave; its share.
 */
enum ability { IS_UNABLE, IS_LAST, IS_ABLE };

/* The place of this broker in a cluster. */
struct cluster_seat {
    /* Makes streams for one thread, which closes them. */
    struct streams *(*open_streams)(void *user);
    /* The number of the last record that this broker has. Sets *ability to what
     * it may do now, unless that is NULL. Any thread. */
    uint64_t (*place)(void *user, enum ability *ability);
    void *user;
};

/* By what right some work goes on; lent. All NULL: this broker is alone. */
struct ownership_right {
    struct streams *streams;       /* for the work alone; NULL: all parts have
                                      one stream */
    const struct lease *lease;     /* of the rows that it writes */
    const struct owned_part *part; /* it has no effect outside without
                                      (ownership.h) */
};
