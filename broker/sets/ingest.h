/*
 * ingest.h - the one way in: a post's bytes become fragments, and the log's.
 *
 *     ingest_begin -> ingest_feed ... -> ingest_end --> on_done -> ingest_free
 *           |              |                |
 *           +--------------+----------------+-- refused: nothing is kept --> ^
 *
 * A body in gzip is announced by ingest_decode after ingest_begin, and inflated
 * on the way. It is the one place that knows both limits of a post, on its size
 * and on what all posts hold, and every source of bytes comes through it. As
 * gzip can make a thousand bytes of one, such an ingest may be behind what it
 * was fed; it catches up in steps, each in a turn of the caller's loop, so that
 * nobody waits for a whole body that came in one packet.
 *
 * One thread at a time; on_done is called on the log thread, or the checker's
 * (below). Whatever is posted, no more than one entry of it is held parsed, and
 * the posts of one client, and all together, are bounded (CLIENT_POSTS): what a
 * post holds counts, as that grows. (Not what it announces: a few connections
 * that announce much and send nothing would keep everybody else out.)
 */
#ifndef BROKER_SETS_INGEST_H
#define BROKER_SETS_INGEST_H

#include <stdbool.h>
#include <stdint.h>

#include "broker/log/post.h"
#include "broker/sets/registry.h"
#include "proto/key.h"
#include "proto/problem.h"
#include "proto/slice.h"
#include "proto/status.h"

struct ingest;

/* STATUS_NOT_FOUND: no set can have that name; STATUS_UNSUPPORTED: nobody reads
 * that media type; STATUS_TOO_LARGE: over --max-body; STATUS_BUSY: all posts
 * together hold too much. */
MUST_CHECK enum status
ingest_begin(struct ingest **ingest, struct registry *registry,
             struct slice set_name, struct slice content_type,
             uint64_t content_length, struct problem *why);

/* What the ingest holds counts in `holding`, of CLIENT_POSTS, from now on, and
 * no more only for all posts together. `holding` is lent until ingest_free.
 * STATUS_LIMITED, STATUS_BUSY. */
MUST_CHECK enum status ingest_count_in(struct ingest *ingest,
                                       struct holding *holding,
                                       struct problem *why);

/* The body has this Content-Encoding: decoding.h. Before its first byte.
 * --max-body is then the limit of what comes out, too. STATUS_UNSUPPORTED:
 * another coding, or several. */
MUST_CHECK enum status ingest_decode(struct ingest *ingest, struct slice coding,
                                     struct problem *why);

/* The body is a notification of a foreign Source: its capability may be called
 * anything (W-144). Before its first byte. */
void ingest_take_any_capability(struct ingest *ingest);

/* The body is a message of a broker of messages (MQTT), whose sender may be a
 * broker like this one. Before its first byte. Then
 *
 *   - the member "id" at the top of its JSON is its key, unless ingest_set_key
 *     gives it one; it is known at the end, so STATUS_RUNNING can be what
 *     ingest_end returns;
 *   - its capability may be called anything, and it may have no change at all,
 *     as a heartbeat: then there is nothing to commit, and ingest_end calls
 *     on_done itself, before it returns, with first = last = 0;
 *   - nothing goes round in circles: a message that tells the epoch of the very
 *     set that it is for was told by us, and its entries are passed over; of
 *     others each entry gets the tag "via:EPOCH" of the set it comes from, and
 *     is passed over if it has that of the set it is for. JSON that tells its
 *     epoch behind its changes is refused (STATUS_INVALID).
 *
 * What is passed over is checked as the rest is. */
void ingest_take_message(struct ingest *ingest);

/* Posts to be committed in the order of ingest_end, also when one fails for a
 * passing reason (post.h: line.is_broken tells): all behind it in the line then
 * fail, too, until the owner mends the line, when on_done was called for all of
 * them. Before ingest_end; `line` is lent until on_done. */
void ingest_join(struct ingest *ingest, struct post_line *line);

/* Content: the bytes of resources, which some sets keep
 *
 * To a set that keeps what comes inline (CONTENT_INLINE) each created or
 * updated entry has to tell the SHA-256 of bytes that it has already, or bring
 * them along (broker/archive/consignment.h). The first is seen to, of every
 * post that nobody calls ingest_fill for, by whoever registry_set_checker
 * names, on a thread that may wait for a disk:
 *
 *     ingest_end --> checker --ingest_told, ingest_hold--> ingest_check_end
 *                                                               |
 *                on_done <-- the log <--------------------------+
 */

/* Each entry is given to `fn` before it is kept, to be completed; what the set
 * has already is no affair of the checker's then. Before the first byte. */
typedef enum status ingest_fill_fn(struct change *change, void *user,
                                   struct problem *why);
void ingest_fill(struct ingest *ingest, ingest_fill_fn *fn, void *user);

/* Its content was placed for `set`, and for no other one that gets the name:
 * STATUS_GONE in the outcome where that was removed. `release` is called once
 * with `claim`, on the log thread with the seq of its last entry, or, when
 * nothing was committed, with 0, by ingest_free at the latest. Before
 * ingest_end, or by the checker. */
void ingest_hold(struct ingest *ingest, struct set *set, void *claim,
                 void (*release)(void *claim, uint64_t last));

/* The checker's: whose the post is, and of what it has to see that it is there.
 */
struct ingest_told {
    struct digest digest; /* SHA-256 */
    uint64_t entry;       /* from 1 */
    size_t loc;           /* where its fragment begins */
};

struct slice ingest_set_name(const struct ingest *ingest);
const struct ingest_told *ingest_told(const struct ingest *ingest, size_t *n);
struct slice ingest_told_loc(const struct ingest *ingest,
                             const struct ingest_told *told);

/* Its own list, until ingest_check_end. */
struct list *ingest_node(struct ingest *ingest);
struct ingest *ingest_of(struct list *node);

/* It was looked at; `rc` and `why` say what came of it. Calls on_done on this
 * thread where the log does not get it. */
void ingest_check_end(struct ingest *ingest, enum status rc,
                      const struct problem *why);

/* Some of the body is on its way, though nothing of it comes here yet (see
 * running.h). */
void ingest_heard(struct ingest *ingest);

/* Gives the post a key, before its body is read: it is kept once, however often
 * it comes (keys.h). STATUS_RUNNING: another post to the set with that key is
 * being read or committed; only ingest_free. */
MUST_CHECK enum status ingest_set_key(struct ingest *ingest,
                                      const struct key *key,
                                      struct problem *why);

/* Reads some more of the body. STATUS_TOO_LARGE: more than --max-body came out
 * of it; STATUS_LIMITED, STATUS_BUSY: it holds too much. After an error only
 * ingest_free. */
MUST_CHECK enum status ingest_feed(struct ingest *ingest, struct slice bytes,
                                   struct problem *why);

/* Is some of what was fed not read yet? Only of a body in gzip. */
bool ingest_is_behind(const struct ingest *ingest);

/* Reads some of it. Errors as those of ingest_feed. */
MUST_CHECK enum status ingest_catch_up(struct ingest *ingest,
                                       struct problem *why);

/* The body is whole, and nothing of it is behind: reads it to its end. What
 * ingest_end does first, for who wants to do something between. */
MUST_CHECK enum status ingest_read_end(struct ingest *ingest,
                                       struct problem *why);

/* The body is whole, and nothing of it is behind: hands its entries to the log,
 * which log_wake sets to work. On success the ingest is the log's until
 * on_done, which gets it back with its outcome. After an error only
 * ingest_free. */
MUST_CHECK enum status ingest_end(struct ingest *ingest,
                                  void (*on_done)(struct ingest *ingest,
                                                  void *user),
                                  void *user, struct problem *why);

/* The outcome, and whom it belongs to; NULL: there was nothing to commit. */
const struct post *ingest_post(const struct ingest *ingest);
const struct set *ingest_set(const struct ingest *ingest);

/* Gives back what it holds, before the publisher hears of the outcome
 * (clients.h). After on_done only. */
void ingest_give_back(struct ingest *ingest);

void ingest_free(struct ingest *ingest); /* NULL is allowed */

#endif
