/*
 * follow_state.h - the file of `tidings follow --state`.
 *
 *     9f2c5b7d01e4a683-17          of one set: a line of text
 *     SQLite (td_position_save)    of several sets: a row for each
 *
 * The file of a source that had one set when it was first followed becomes the
 * other when the source has more. That set keeps its listing, FILE.list; those
 * of the others are FILE.list-HASH.
 */
#ifndef CLIENT_CLI_FOLLOW_STATE_H
#define CLIENT_CLI_FOLLOW_STATE_H

#include <stdbool.h>

#include "client/tidings.h"

struct follow_state;

/* `path` NULL: keeps nothing. NULL: why was said. */
struct follow_state *follow_state_open(struct td_client *client,
                                       const char *path);
void follow_state_close(struct follow_state *state); /* NULL is allowed */

/* Fills in where the set begins, and where its listing is. False: it cannot,
 * and that was said. */
bool follow_state_start(struct follow_state *state, struct td_start *start);

/* Keeps the position of a set that was started. False: why was said. */
bool follow_state_keep(struct follow_state *state, const char *set_url,
                       const char *position);

#endif
