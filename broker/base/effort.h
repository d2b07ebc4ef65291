/*
 * effort.h - what a request of long work costs: counted as it works, in turns
 * with those of other clients, and ended when nobody waits for it.
 *
 *     effort_wait --> [its turn] --> begin --> work, effort_spend --> effort_end
 *         |                                        |                      |
 *     STATUS_LIMITED,                        false: effort_why       the next one
 *     STATUS_BUSY                            (or effort_wait again)
 *
 * Few of them are at work at a time: threads of the worker pool and processors
 * are left for all other requests, whatever these cost and however many wait.
 *
 * Work is counted where it is done, in units of about a microsecond of a
 * processor, also for what is read and does not come back. It is a count and no
 * time, so a request that one machine answers is answered by each.
 */
#pragma once

#include <stdatomic.h>

#include "base/db.h"
#include "broker/base/client_limits.h"

/* What a request of each kind may cost in one turn: for the rows of routes
 * (broker/http/route_table.h) and documents (broker/documents/documents.h). */
#define EFFORT_TURN   400000  /* the work goes on in the next turn */
#define EFFORT_ANSWER 1000000 /* the worker makes the answer at once */
#define EFFORT_FOLD   8000000 /* for the answer it adds up many changes */

/* The worker counts so many units for about 1,000 operations of SQLite, and so
 * many for an entry that it reads and parses, or hashes into the tree. */
#define EFFORT_OF_OPERATIONS 50
#define EFFORT_OF_ENTRY      3

struct efforts {
    pthread_mutex_t mutex; /* guards the rest */
    struct client_turns waiting;
    unsigned n, most; /* at work */
};

/* `most`: so many are at work at a time. */
void efforts_init(struct efforts *efforts, unsigned most);

/* One act; zero, but for `begin`, `efforts` and `most`, before effort_wait. */
struct effort {
    struct efforts *efforts;
    void (*begin)(struct effort *effort); /* it is its turn; any thread */
    uint64_t most;                        /* units of a turn */
    uint64_t used;                        /* of this turn */
    atomic_bool is_unwanted;              /* nobody waits for it any more */
    struct holding place;                 /* CLIENT_EFFORTS */
    struct list node;
};

/* Waits for a turn, perhaps another one, of the client; calls `begin` when it
 * has come, perhaps at once. STATUS_LIMITED, STATUS_BUSY: it does not wait. */
MUST_CHECK enum status effort_wait(struct effort *effort,
                                   struct clients *clients,
                                   struct client *client, struct problem *why);

/* Nobody waits for the answer any more. True: it has not begun, and never will;
 * else it stops, and ends its turn. */
bool effort_cancel(struct effort *effort);

/* Ends its turn. Any thread. */
void effort_end(struct effort *effort);

/* Gives back its place, before the answer: the client's next request finds
 * room. Not while it waits or is at work. */
void effort_leave(struct effort *effort);

/* Counts `units`. False: the turn is used up, or nobody wants the answer. NULL
 * counts nothing. Its own thread. */
bool effort_spend(struct effort *effort, uint64_t units);

/* True if it stopped because its turn is used up. */
bool effort_is_used_up(const struct effort *effort);

/* Lets statements of a connection count, and end with STATUS_STOPPED when
 * effort_spend would be false. Lent until the connection closes. */
void effort_watch(struct effort *effort, struct db *db);

/* Says why it stopped, if it did: STATUS_LIMITED, or STATUS_STOPPED, which
 * nobody reads. Else `rc`. */
enum status effort_why(const struct effort *effort, enum status rc,
                       struct problem *why);
