/*
 * hub.h - the WebSub hub: its interface to the folders above.
 *
 * A subscription is a cursor in a topic's log, with one delivery in flight:
 * there are no queues. The delivery thread (calls/caller.h) owns everything;
 * other threads hand over commands:
 *
 *     command_new, hub_submit --> [delivery thread: run, kept]
 *                                                          --> command->done
 *
 * A command is answered when what it has changed is on disk (hub.db,
 * sources/hub_db.h): a 202 outlives kill -9. In a cluster each broker has a hub
 * with some of the parts, and sends other commands to their owners
 * (hub_parts.h).
 *
 * doc/states.md has the states of all this in diagrams. The folder, from the
 * bottom up (below it: broker/sources, with commands, hub.db and topics of
 * others):
 *
 *     topic                messages of a set or a foreign topic; which
 *                          framework topics an event concerns
 *     hub_rows             what hub.db keeps of subscriptions and requests
 *     attempt_log          the last attempts of each subscription
 *     hub_keys             the hub's own keys, for signatures
 *     delivery             from cursor to callback, and each try; a single one
 *                          that a client asks for
 *     denial               informs callbacks that their subscription is denied
 *     subscription         callback, terms, cursor; found by id, and by pairs
 *     verification         a request until it is confirmed
 *     hub_commands         each kind of command; what operators see
 *     hub                  the thread, its turns; other hubs that a set names
 *     hub_parts            the parts that this broker of a cluster has
 *     remote_commands      commands for the owners of other parts
 *     hub_owner            leases, and the way to the owners
 *
 * The way of one delivery, on the delivery thread unless stated otherwise:
 *
 *     readers     watched_mark     log thread: a commit marks the topic
 *     hub.c       on_wake
 *     delivery.c  deliveries_wake  those that rest in it are due: each asks the
 *                                  caller for a turn (calls/caller.h)
 *                 on_call_turn     has its turn: its reader finds the body, or
 *                                  makes it, or reads it from disk
 *                                  (readers/reader.h)
 *                 take_body        its range is fixed and written,
 *     hub.c       end_turn         and kept, with all of this turn;
 *     delivery.c  deliveries_turn  then it goes:
 *                 make_attempt     headers, signature, id; POST
 *     delivery.c  on_done          2xx: the cursor moves; else it backs off, or
 *                                  ends
 *                 go_on            the next one, or it rests
 *     hub.c       keep_cursors     within a second: in hub.db
 */
#pragma once

#include "broker/access/tokens.h"
#include "broker/cluster/ownership.h"
#include "broker/cluster/streams.h"
#include "broker/posts/posts.h"
#include "broker/sets/registry.h"
#include "broker/sources/command.h"
#include "proto/http/network_address.h"

struct hub;
struct remote_commands;

/* What the hub of a cluster needs of it. */
struct hub_cluster {
    struct streams *streams; /* for the hub alone */

    /* remote_commands_send, on the delivery thread: sends a command to the
     * owners of `parts` (a bit for each), which end it. There is one; a list
     * goes to the owners of all other parts, and their rows join those of
     * command->text. After a failure the caller keeps the command. */
    enum status (*send)(struct remote_commands *remote, struct command *command,
                        unsigned parts, struct problem *why);
    struct remote_commands *remote;
};

/* Opens DIR/hub.db, reads it, and starts the delivery thread: cursors continue
 * where they were. `tokens` and `allowed` are lent; `tokens` NULL: the
 * subscriptions of ended tokens go on. On an open broker (without
 * --insecure-open) callbacks that clients of this machine subscribed may be on
 * loopback, too. `cluster` (lent; NULL: this broker is alone): it has no part
 * yet, and its hub.db follows those of others. */
MUST_CHECK enum status hub_open(struct hub **hub, struct posts *posts,
                                struct tokens *tokens,
                                const struct networks *allowed,
                                const struct hub_cluster *cluster,
                                struct problem *why);

/* Hands a command to the delivery thread, which owns it until command->done.
 * Any thread. STATUS_STOPPED: the hub is ending; the caller keeps the command.
 */
MUST_CHECK enum status hub_submit(struct hub *hub, struct command *command);

/* Ends the thread: it answers the commands that it has taken, cuts the
 * deliveries in flight (their ranges are kept; the next start repeats them),
 * and keeps the cursors. Call it before log_stop, because the thread still
 * reads the log, and before the server's threads end, because they send the
 * answers. A second call does nothing. */
void hub_stop(struct hub *hub);

/* Calls hub_stop, and frees. NULL is allowed. */
void hub_close(struct hub *hub);

/* Wakes the hub after a set was created, configured or removed, to look at its
 * topics, and to end those whose set or relay is gone. Any thread. */
void hub_sets_changed(struct hub *hub);
