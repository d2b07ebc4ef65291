/*
 * single_delivery.h - deliveries that a client of the broker asks for, one at a
 * time: a test, or a delivery of the last attempts again. They move no cursor,
 * count for nothing, and come beside the deliveries of the subscription.
 *
 *     command --begin--> its reader finds the message --> POST --> row, answer
 *
 *   a test   a heartbeat at the subscription's position, in its form and with
 *            its signature, marked by Tidings-Test: 1; to a relay's topic,
 * whose documents are others', the last document again    the entries of an
 * attempt, with the terms of now. Its Tidings-Delivery is another one: a
 * callback that drops repeats takes it
 *
 * The command's answer is the attempt, whatever the callback has answered; 410
 * does not end the subscription. The call waits for its turn as all calls of
 * its owner do. To spare the callback, a subscription has one at a time, ten in
 * a row, and then one a second.
 *
 * The delivery thread's.
 */
#pragma once

#include "broker/hub/subscription.h"
#include "broker/sources/command.h"

/* Their pace: one a second, after as many at once. */
#define SINGLES_PAUSE_US 1000000
#define SINGLES_AT_ONCE  10

/* Begins what the command asks for: COMMAND_TEST or COMMAND_AGAIN; answers it,
 * at once or later. */
void single_delivery_begin(struct subscription *s, struct command *command);

/* Cuts the one that is under way, before its subscription is freed. */
void single_delivery_cut(struct subscription *s);
