/*
 * state.h - how far a relay has come, kept in a file of SQLite.
 *
 *     relay_seal --> (post it) --> relay_posted
 *         +--> crash: relay_unfinished tells it again
 *
 * A post is durable, byte for byte and with its key, before it is sent; that it
 * was answered, how far that is at the source, and where the target is now, is
 * noted in one transaction. So a repeat after a crash is the same post, which
 * the target keeps once, for as long as it remembers keys (24 hours); after
 * that it is looked for behind the position that the target had before.
 *
 * One process at a time, by SQLite's own lock.
 */
#ifndef CLIENT_RELAY_STATE_H
#define CLIENT_RELAY_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/problem.h"

#define RELAY_POSITION_SIZE 128
#define RELAY_KEY_SIZE      33

struct relay_state;

/* Opens the file, or makes it. NULL: `why` says why: it is another relay's, in
 * use, no state. */
struct relay_state *relay_open(const char *path, const char *source,
                               const char *target, struct problem *why);
void relay_close(struct relay_state *state); /* NULL is allowed */

/* All that follows returns false where the file failed; relay_trouble says why
 * then. */
const char *relay_trouble(const struct relay_state *state);

/* The position at the source up to which all is relayed; "": nothing was noted
 * yet. And the target's after the last post, or before the first. */
const char *relay_position(const struct relay_state *state);
const char *relay_target(const struct relay_state *state);

/* True if the target is this relay's alone: then a resource that the source
 * does not have may be deleted there. */
bool relay_owns(const struct relay_state *state);
bool relay_own(struct relay_state *state, bool owns); /* from now on */

/* Nothing of what came before has to be posted. */
bool relay_note(struct relay_state *state, const char *position);
bool relay_note_target(struct relay_state *state, const char *position);

struct relay_post {
    char key[RELAY_KEY_SIZE];
    char position[RELAY_POSITION_SIZE]; /* at the source, after it */
    int64_t made_s;                     /* since 1970 */
    size_t n;                           /* entries */
    char *body;                         /* the caller's, to be freed */
    size_t size;
};

/* Makes a post of n entries durable, and gives it its key. */
bool relay_seal(struct relay_state *state, const char *body, size_t size,
                size_t n, const char *position);

/* The post that was not answered; *is_there false: there is none. */
bool relay_unfinished(struct relay_state *state, struct relay_post *post,
                      bool *is_there);

/* It is in the target, whose position is now this. */
bool relay_posted(struct relay_state *state, const struct relay_post *post,
                  const char *target);

#endif
