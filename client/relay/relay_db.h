/*
 * relay_db.h - the progress of a relay, in a file of SQLite.
 *
 *     relay_seal --> (post it) --> relay_posted
 *         +--> crash: relay_unfinished returns it again
 *
 * A post is durable, byte for byte and with its key, before it is sent. One
 * transaction records its answer, the source's position and the target's
 * position. So a repeat after a crash is the same post, which the target keeps
 * once, for as long as it remembers keys (24 hours). After that the relay
 * searches for the post behind the target's earlier position.
 *
 * One process at a time, by SQLite's own lock.
 */
#ifndef CLIENT_RELAY_RELAY_DB_H
#define CLIENT_RELAY_RELAY_DB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/problem.h"

#define RELAY_POSITION_SIZE 128
#define RELAY_KEY_SIZE      33

struct relay_state;

/* Opens the file, or makes it. NULL: `why` says why: it is another relay's, in
 * use, or not a state. */
struct relay_state *relay_open(const char *path, const char *source,
                               const char *target, struct problem *why);
void relay_close(struct relay_state *state); /* NULL is allowed */

/* All functions below return false if the file failed; relay_trouble says why
 * then. */
const char *relay_trouble(const struct relay_state *state);

/* The source's position up to which all is relayed; "": none yet. And the
 * target's after the last post, or before the first. */
const char *relay_position(const struct relay_state *state);
const char *relay_target(const struct relay_state *state);

/* True if the target is this relay's alone: then the relay may delete resources
 * there that the source does not have. */
bool relay_owns(const struct relay_state *state);
bool relay_own(struct relay_state *state, bool owns); /* from now on */

/* Notes positions behind which nothing has to be posted. */
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

/* The sealed post without an answer; *is_there false: there is none. */
bool relay_unfinished(struct relay_state *state, struct relay_post *post,
                      bool *is_there);

/* Records that the target has the post, and its position after it. */
bool relay_posted(struct relay_state *state, const struct relay_post *post,
                  const char *target);

#endif
