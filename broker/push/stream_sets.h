/*
 * stream_sets.h - the sets of one stream of many: a reader of each, and whose
 * turn it is.
 *
 *             stream_sets_follow
 *                    v
 *     +---------> [ready] --stream_sets_next--> has a message, or an end: sent
 *     |              |  |                                            |
 *     |      HEAD,   |  | needs a load                     stream_sets_sent
 *     |      rests   |  v                                            |
 *     |              |  [cold] --few at a time--> [loading]          |
 *     |              v                                |              |
 *     +-- on_ready --+--------------------------------+--------------+
 *
 * Members that have something to send wait in a list; each sends one message,
 * then waits behind all others: a busy set holds up no other. A member is asked
 * when its turn comes, so a stream holds one message, however many sets have
 * news. A message that is in memory is sent at once; a few members at a time
 * wait for a load, so a slow client does not have the worker pool make messages
 * of all its sets that it cannot take.
 *
 * Only sets with news cost anything: a commit wakes the readers of its set. New
 * sets that match a pattern of the stream join at their beginning, when the
 * thread hears that sets have begun (stream_sets_join). A set that does not
 * exist and one that the principal may not read have the same end.
 *
 * Memory: some 250 bytes for each member, and as much for a set that nobody
 * else reads on this thread. The client's share of members limits them
 * (CLIENT_FOLLOWED).
 *
 * Everything here belongs to one service thread.
 */
#pragma once

#include "broker/access/principal.h"
#include "broker/base/client_limits.h"
#include "broker/push/follow_request.h"
#include "broker/push/resume_text.h"
#include "broker/push/set_readers.h"
#include "broker/readers/reader.h"
#include "broker/sets/registry.h"

/* Most patterns of a stream. */
#define STREAM_SETS_PATTERNS_MAX 32

/* Most members of a stream that wait for a load at a time. */
#define STREAM_SETS_LOADS 4

/* Why the stream ends for one set. */
enum stream_set_end {
    STREAM_SET_GOES_ON,
    STREAM_SET_UNKNOWN, /* no such set, or not for this principal */
    STREAM_SET_REMOVED,
    STREAM_SET_GONE, /* the position cannot be served */
    STREAM_SET_FAILED
};

struct stream_sets;

struct stream_set {
    struct reader reader; /* of a known set; its message is sent */
    struct map_node node; /* by name */
    struct list turn;     /* in ready, cold or loading; or alone */
    struct stream_sets *sets;
    struct set *set;  /* NULL: unknown */
    const char *name; /* the set's, or behind this struct */
    enum stream_set_end end;
    uint8_t mark; /* resume_mark, of a known set */
    bool is_loading;
    bool is_leaving; /* not followed any more: goes behind its message */
    bool is_refused; /* it had its end from the start */
};

struct stream_sets {
    struct registry *registry;
    struct set_readers *set_readers;
    struct service *service;
    struct principal *principal; /* lent */
    struct filter_class *filter; /* of all members; lent */
    unsigned kind;               /* the number of the transport */

    struct map by_name;
    struct list ready, cold, loading;
    unsigned n_loading;
    size_t n_refused;           /* members that only wait to send their end */
    struct stream_set *current; /* its message is being sent */
    struct client *
        client; /* a reference: members count for its share (CLIENT_FOLLOWED) */
    struct follow_item *patterns;
    size_t n_patterns;

    /* Of each member's reader: calls stream_sets_take_ready. */
    void (*on_ready)(struct reader *reader);
};

/* Begins without members. `client` is whose share counts. The caller sets
 * on_ready and the filter. */
void stream_sets_init(struct stream_sets *sets, struct registry *registry,
                      struct set_readers *set_readers, struct service *service,
                      struct principal *principal, struct client *client,
                      unsigned kind);
void stream_sets_fini(struct stream_sets *sets);

/* Forgets all members at once, also the one whose message is sent: the stream
 * is closed. */
void stream_sets_clear(struct stream_sets *sets);

/* Follows, or ends following, what the request names. A set that is followed
 * already goes on from the new position. A set for which a resume text has no
 * position is "gone", unless it is new to a pattern. STATUS_LIMITED: the client
 * has its share; STATUS_INVALID: too many patterns, or a bad resume text.
 * After an error some are followed. */
MUST_CHECK enum status stream_sets_follow(struct stream_sets *sets,
                                          const struct follow_request *request,
                                          struct problem *why);

/* True if the request names a position that this copy of the log may lack: the
 * copy has no such set, or its set ends before the position. Any thread. */
bool stream_sets_are_ahead(struct registry *registry,
                           const struct follow_request *request);

/* A set has begun: joins if it matches a pattern. */
MUST_CHECK enum status stream_sets_join(struct stream_sets *sets,
                                        struct set *set, struct problem *why);

/* A member has news, or the end of a load. `is_busy`: the stream waits for
 * room, or sends a message. True if the stream may go on: with
 * stream_sets_next, or with `current`, whose message was made again. */
bool stream_sets_take_ready(struct stream_set *member, bool is_busy);

/* The member whose turn it is: `current`, with a message, or a member with an
 * end. NULL: no member has anything to send now. */
struct stream_set *stream_sets_next(struct stream_sets *sets);

/* True if members wait for their turn. */
bool stream_sets_are_waiting(const struct stream_sets *sets);

/* The message of `current` was sent: it advances, and waits for its turn or
 * rests. */
void stream_sets_sent(struct stream_sets *sets);

#define STREAM_SETS_REASON_SIZE 124

/* Says that a position of the set is gone, and initializes `members` with the
 * positions that can be served, as JSON members, terminated. */
void stream_sets_gone(const struct set *set,
                      char reason[STREAM_SETS_REASON_SIZE],
                      struct buf *members);

/* Appends the object that says why the stream ends for this set. */
void stream_sets_write_end(struct buf *to, const struct stream_set *member);

/* Forgets a member, after the rest of a message that it is sending. */
void stream_sets_remove(struct stream_set *member);

/* Fills in the positions of all members but those with an end, for a resume
 * text; `entries` has room for `room`. False: there are more, or a member has
 * no position yet. */
MUST_CHECK bool stream_sets_positions(const struct stream_sets *sets,
                                      struct resume_entry *entries, size_t room,
                                      size_t *n);

/* Calls set_readers_add_lag for the members that have not everything. */
void stream_sets_add_lags(const struct stream_sets *sets, struct lag *lag);
