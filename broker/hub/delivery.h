/*
 * delivery.h - the engine: from cursor to callback, one delivery in flight
 * each.
 *
 *     resting --(a commit)--> due --> its turn --> range fixed, kept --> POST
 *        ^                     ^                                          |
 *        |                     |      2xx: the cursor moves;  more? due   |
 *        +------- at the head -+--- else: backs off, the same bytes again +
 *                                   410: ended;  give-up: the cursor moves on
 *
 * The range of a delivery is fixed when its turn comes (so that all waiting
 * entries go out merged), and kept before the first try: every later try, also
 * after a crash, sends the same bytes under the same ID. All subscriptions at
 * the same position share a body: each is a reader of its topic
 * (readers/reader.h). A subscription that backs off holds no body: it is made
 * again when the turn of the retry comes.
 *
 * hub.db does not store `reached`, the position up to which a filter passes
 * nothing: it only saves work. After a restart the worker pool searches that
 * part once more.
 *
 * `skipped` counts the entries of deliveries that were given up and the entries
 * that were no longer retained. With a filter, a delivery that is given up
 * counts only the entries that pass; of entries that are not retained all
 * count, since the filter cannot be applied. A message's `after` shows either
 * hole.
 *
 * hub.db does not store how long a callback has been failing, either: after a
 * restart it has all of --hub-give-up again.
 *
 * Beside these there are single deliveries, which a client of the broker asks
 * for: a test, or a delivery of the last attempts again. They move no cursor,
 * and count for nothing.
 *
 *     command --begin--> its reader finds the message --> POST --> row, answer
 *
 *   a test   a heartbeat at the subscription's position, in its form and with
 *            its signature, marked by Tidings-Test: 1; to a relay's topic,
 *            whose documents are others', the last document again
 *   again    the entries of an attempt, with the terms of now. Its
 *            Tidings-Delivery is another one: a callback that drops repeats
 *            takes it
 *
 * The command's answer is the attempt, whatever the callback has answered; 410
 * does not end the subscription. The call waits for its turn as all calls of
 * its owner do. To spare the callback, a subscription has one at a time, ten in
 * a row, and then one a second.
 *
 * The delivery thread's.
 */
#pragma once

#include "broker/hub/attempt_log.h"
#include "broker/hub/subscription.h"
#include "broker/sources/command.h"

struct hub;

/* When a topic has news, so many of its subscriptions begin per turn, which
 * takes some milliseconds; the others begin in the next turns. So deliveries of
 * other topics do not wait for 100,000 subscriptions. */
#define DELIVERY_WAKES_AT_ONCE 2000

struct deliveries {
    struct list fixed; /* deliveries whose ranges hub.db gets, by the end of
                          this turn or of a later one */
    struct list ended; /* to be freed when no function of a call uses them any
                          more */
    struct list spare; /* attempts, as many as went on at once: the next tries
                          need no memory of their own */
};

/* deliveries_open begins hub->deliveries, before there is a thread.
 * deliveries_close frees them and all bodies when the thread has ended: all
 * subscriptions were cut by then. */
void deliveries_open(struct hub *hub);
void deliveries_close(struct hub *hub);

/* Begins deliveries to a subscription that is new or was read from hub.db. */
void delivery_begin(struct subscription *s);

/* Cuts the delivery of a subscription before the subscription is freed or after
 * its cursor moved, and forgets its failures. After a move call
 * delivery_look. */
void delivery_cut(struct subscription *s);

/* Checks whether a subscription with new terms or a moved cursor is due now,
 * also if it was backing off. A delivery in flight continues. */
void delivery_look(struct subscription *s);

/* Looks at the marked topics for news. */
void deliveries_wake(struct hub *hub);

/* At the end of a turn, before its commit: frees the deliveries that have
 * ended, and gives their room to others. */
void deliveries_settle(struct hub *hub);

/* At the end of a turn when hub.db has everything: sends the deliveries whose
 * ranges were written. Writes no rows. */
void deliveries_turn(struct hub *hub);

/* Begins the single delivery that the command asks for: COMMAND_TEST or
 * COMMAND_AGAIN; answers it, at once or later. */
void single_delivery_begin(struct subscription *s, struct command *command);

/* Cuts the one that is under way, before its subscription is freed. */
void single_delivery_cut(struct subscription *s);
