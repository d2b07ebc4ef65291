/*
 * remote_commands.h - carries commands from a broker of a cluster to those that
 * own other parts of the hub, and the outcomes back.
 *
 *     asked broker                    journal              owner
 *       remote_commands_send --> order -------------------> take --> run
 *       command->done <-------------------- answer <------- command->done
 *
 * An order names the last record that the asked broker has: the owner carries
 * it out when its own copy has that record, so a client may subscribe at one
 * broker to a set that it has just made there. An order also waits for an owner
 * that is just taking the part.
 *
 * One thread with its own streams. A command without an outcome after ORDER_US,
 * and the time of a call if it makes one, is answered with STATUS_UNREACHABLE:
 * no broker owns at the moment, or the journal is away. The owner may have run
 * it all the same, as with a connection that breaks; every command may be
 * repeated.
 *
 * A command and its outcome as bytes:
 *
 *     command     01, then fields: kind, flags (above them the part, plus one:
 *                 version 0.1 has none), id, set or relay, client's
 *                 address, form, callback, position, media type, links, key,
 *                 body, principal
 *     outcome     01, then fields: status, HTTP status, problem, JSON
 *
 * A field is its size in four bytes, the highest first, and its bytes. Both
 * brokers are of one cluster and trust each other: the owner believes that the
 * other one has checked the token. But a token must be known to both.
 */
#pragma once

#include "broker/access/tokens.h"
#include "broker/cluster/streams.h"
#include "broker/sources/command.h"

struct hub;
struct remote_commands;

struct remote_commands_options {
    const struct cluster_seat *seat; /* lent */
    struct tokens *tokens;           /* lent; NULL: nobody asks for rights */

    /* hub_has, and hub_submit, which runs a command of another broker at the
     * hub of this one. */
    bool (*may_run)(struct hub *hub, unsigned part);
    enum status (*run)(struct hub *hub, struct command *command);
    struct hub *hub;
    int64_t call_us; /* how long a call of the hub may take (--hub-timeout) */
};

MUST_CHECK enum status
remote_commands_open(struct remote_commands **made,
                     const struct remote_commands_options *options,
                     struct problem *why);

/* Hands over a command for the owners of `parts` (a bit for each): one, or of a
 * list all that this broker lacks, whose rows join those of command->text. It
 * belongs to it until command->done. Any thread. STATUS_BUSY: too many are on
 * their way; STATUS_STOPPED: the thread is ending. The caller then keeps the
 * command. */
MUST_CHECK enum status remote_commands_send(struct remote_commands *c,
                                            struct command *command,
                                            unsigned parts,
                                            struct problem *why);

/* From now on takes the orders of others for a part, under this term; 0: no
 * more. Any thread. */
void remote_commands_own(struct remote_commands *c, unsigned part,
                         uint64_t term);

/* Answers what is on its way, and ends the thread; `run` has given back all
 * commands. A second call does nothing. */
void remote_commands_stop(struct remote_commands *c);
void remote_commands_close(struct remote_commands *c); /* NULL is allowed */

/* Bytes */

/* Appends a command that hub_submit could take. */
void remote_command_write(struct buf *to, struct command *command);

/* Makes the command that `bytes` are; the caller frees it. STATUS_FORBIDDEN:
 * this broker does not know the token. STATUS_INVALID: a newer program wrote
 * them. `tokens` NULL: nobody asks for rights. */
MUST_CHECK enum status remote_command_read(struct command **command,
                                           struct slice bytes,
                                           struct tokens *tokens,
                                           struct problem *why);

/* Appends the outcome of a command, and writes it into the command that was
 * asked for. Bytes that are none become STATUS_IO. */
void remote_command_write_outcome(struct buf *to, struct command *command);
void remote_command_read_outcome(struct command *command, struct slice bytes);
