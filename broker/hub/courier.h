/*
 * courier.h - carries commands from a broker of a cluster to the one that owns
 * the hub, and the outcomes back.
 *
 *     asked broker                    journal              owner
 *       courier_send --> order -------------------> take --> run
 *       command->done <-------------------- answer <------- command->done
 *
 * An order names the last record that the asked broker has: the owner carries
 * it out when its own copy has that record, so a client may subscribe at one
 * broker to a set that it has just made there.
 *
 * One thread with its own streams. A command without an outcome after ORDER_US
 * is answered with STATUS_UNREACHABLE: no broker owns at the moment, or the
 * journal is away. The owner may have run it all the same, as with a connection
 * that breaks; every command may be repeated.
 */
#ifndef BROKER_HUB_COURIER_H
#define BROKER_HUB_COURIER_H

#include "broker/access/tokens.h"
#include "broker/cluster/streams.h"
#include "broker/hub/command.h"
#include "proto/problem.h"
#include "proto/status.h"

struct courier;

struct courier_options {
    const struct cluster_seat *seat; /* lent */
    struct tokens *tokens;           /* lent; NULL: nobody asks for rights */

    /* Runs a command of another broker at the hub of this one, as hub_submit
     * does. STATUS_STOPPED: this broker does not own. */
    enum status (*run)(struct command *command, void *user);
    void *user;
};

MUST_CHECK enum status courier_open(struct courier **courier,
                                    const struct courier_options *options,
                                    struct problem *why);

/* Hands over a command, which is the courier's until command->done. Any thread.
 * STATUS_BUSY: too many are on their way; STATUS_STOPPED: the courier is
 * ending. The caller then keeps the command. */
MUST_CHECK enum status courier_send(struct courier *c, struct command *command,
                                    struct problem *why);

/* From now on the courier takes the orders of others, under this term; 0: no
 * more. Any thread. */
void courier_own(struct courier *c, uint64_t term);

/* Answers what is on its way, and ends the thread; `run` has given back all
 * commands. A second call does nothing. */
void courier_stop(struct courier *c);
void courier_close(struct courier *c); /* NULL is allowed */

#endif
