/*
 * follow_state.h - the file of `tidings follow --state`.
 *
 *     9f2c5b7d01e4a683-17          of one set: a line of text
 *     SQLite (td_position_save)    of several sets: a row for each
 *
 * If a source with one set gets more, its file becomes the other form. That set
 * keeps its listing, FILE.list; the others have FILE.list-HASH.
 */
#pragma once

#include "client/tidings.h"
#include "proto/c.h"

struct follow_state;

/* `path` NULL: keeps nothing. Returns NULL after it has printed why. */
struct follow_state *follow_state_open(struct td_client *client,
                                       const char *path);
void follow_state_close(struct follow_state *state); /* NULL is allowed */

/* Fills in the set's position, and the path of its listing. False: it failed,
 * and has printed why. */
bool follow_state_start(struct follow_state *state, struct td_start *start);

/* Keeps the position of a started set. False: it has printed why. */
bool follow_state_keep(struct follow_state *state, const char *set_url,
                       const char *position);
