/*
 * remote_command.h - a command and its outcome as bytes: from a broker of a
 * cluster that was asked to the one that owns the hub, and back.
 *
 *     command     01, then fields: kind, flags, id, set or relay, client's
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
#include "broker/sources/command.h"

/* Appends a command that hub_submit could take. */
void remote_command_write(struct buf *to, const struct command *command);

/* Makes the command that `bytes` are; the caller frees it. STATUS_FORBIDDEN:
 * this broker does not know the token. STATUS_INVALID: a newer program wrote
 * them. `tokens` NULL: nobody asks for rights. */
MUST_CHECK enum status remote_command_read(struct command **command,
                                           struct slice bytes,
                                           struct tokens *tokens,
                                           struct problem *why);

/* Appends the outcome of a command, and writes it into the command that was
 * asked for. Bytes that are none become STATUS_IO. */
void remote_command_write_outcome(struct buf *to,
                                  const struct command *command);
void remote_command_read_outcome(struct command *command, struct slice bytes);
