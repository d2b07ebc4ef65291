/*
 * members.h - the sets of one stream of many: a reader of each, and whose turn
 * it is.
 *
 *                 members_follow
 *                       v
 *     +------------> [ready] --members_next--> has a message, or an end: sent
 *     |                 |  |                                  |
 *     |         HEAD,   |  | needs a load              members_sent
 *     |         rests   |  v                                  |
 *     |                 |  [cold] --few at a time--> [loading] |
 *     |                 v                               |     |
 *     +---- on_ready ---+-------------------------------+-----+
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
 * thread hears that sets have begun (members_join). A set that does not exist
 * and one that the principal may not read have the same end.
 *
 * Memory: some 250 bytes for each member, and as much for a set that nobody
 * else reads on this thread. The client's share of members limits them
 * (CLIENT_FOLLOWED).
 *
 * Everything here belongs to one service thread.
 */
#ifndef BROKER_PUSH_MEMBERS_H
#define BROKER_PUSH_MEMBERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/map.h"
#include "broker/access/principal.h"
#include "broker/base/client_limits.h"
#include "broker/push/follow_request.h"
#include "broker/push/places.h"
#include "broker/push/resume_text.h"
#include "broker/readers/reader.h"
#include "broker/sets/registry.h"
#include "proto/buf.h"
#include "proto/problem.h"
#include "proto/status.h"

/* Most patterns of a stream. */
#define MEMBERS_PATTERNS_MAX 32

/* Most members of a stream that wait for a load at a time. */
#define MEMBERS_LOADS 4

/* Why the stream ends for one set. */
enum member_end {
    MEMBER_GOES_ON,
    MEMBER_UNKNOWN, /* no such set, or not for this principal */
    MEMBER_REMOVED,
    MEMBER_GONE, /* the position cannot be served */
    MEMBER_FAILED
};

struct members;

struct member {
    struct reader reader; /* of a known set; its message is sent */
    struct map_node node; /* by name */
    struct list turn;     /* in ready, cold or loading; or alone */
    struct members *members;
    struct set *set;  /* NULL: unknown */
    const char *name; /* the set's, or behind this struct */
    enum member_end end;
    uint8_t mark; /* resume_mark, of a known set */
    bool is_loading;
    bool is_leaving; /* not followed any more: goes behind its message */
    bool is_refused; /* it had its end from the start */
};

struct members {
    struct registry *registry;
    struct places *places;
    struct service *service;
    struct principal *principal; /* lent */
    struct filter_class *filter; /* of all members; lent */
    unsigned kind;               /* the number of the transport */

    struct map by_name;
    struct list ready, cold, loading;
    unsigned n_loading;
    size_t n_refused;       /* members that only wait to send their end */
    struct member *current; /* its message is being sent */
    struct client *
        client; /* a reference: members count for its share (CLIENT_FOLLOWED) */
    struct follow_item *patterns;
    size_t n_patterns;

    /* A member is ready: the stream asks members_next, unless it is busy. It
     * may be `current`, after its message was made again. */
    void (*on_ready)(struct members *members, struct member *member);

    /* True if the stream waits for room, or sends a message. */
    bool (*is_busy)(const struct members *members);
};

/* Begins without members. `client` is whose share counts. The caller sets the
 * callbacks and the filter. */
void members_init(struct members *members, struct registry *registry,
                  struct places *places, struct service *service,
                  struct principal *principal, struct client *client,
                  unsigned kind);
void members_fini(struct members *members);

/* Forgets all members at once, also the one whose message is sent: the stream
 * is closed. */
void members_clear(struct members *members);

/* Follows, or ends following, what the request names. A set that is followed
 * already goes on from the new position. A set for which a resume text has no
 * position is "gone", unless it is new to a pattern. STATUS_LIMITED: the client
 * has its share; STATUS_INVALID: too many patterns, or a bad resume text.
 * After an error some are followed. */
MUST_CHECK enum status members_follow(struct members *members,
                                      const struct follow_request *request,
                                      struct problem *why);

/* True if the request names a position that this copy of the log may lack: the
 * copy has no such set, or its set ends before the position. Any thread. */
bool members_are_ahead(struct registry *registry,
                       const struct follow_request *request);

/* A set has begun: joins if it matches a pattern. */
MUST_CHECK enum status members_join(struct members *members, struct set *set,
                                    struct problem *why);

/* The member whose turn it is: `current`, with a message, or a member with an
 * end. NULL: no member has anything to send now. */
struct member *members_next(struct members *members);

/* True if members wait for their turn. */
bool members_are_waiting(const struct members *members);

/* The message of `current` was sent: it advances, and waits for its turn or
 * rests. */
void members_sent(struct members *members);

#define MEMBERS_REASON_SIZE 124

/* Says that a position of the set is gone, and initializes `members` with the
 * positions that can be served, as JSON members, terminated. */
void members_gone(const struct set *set, char reason[MEMBERS_REASON_SIZE],
                  struct buf *members);

/* Appends the object that says why the stream ends for this set. */
void members_write_end(struct buf *to, const struct member *member);

/* Forgets a member, after the rest of a message that it is sending. */
void members_remove(struct member *member);

/* Fills in the positions of all members but those with an end, for a resume
 * text; `entries` has room for `room`. False: there are more, or a member has
 * no position yet. */
MUST_CHECK bool members_positions(const struct members *members,
                                  struct resume_entry *entries, size_t room,
                                  size_t *n);

/* Calls places_add_lag for the members that have not everything. */
void members_add_lags(const struct members *members, struct lag *lag);

#endif
