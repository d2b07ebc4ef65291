/*
 * watched.h - a directory, a `tidings watch` of it, and the broker that it
 * posts to; and what a test does to them.
 *
 * As a fixture: watched_setup, watched_teardown. Paths are relative to the
 * directory; "../x" is beside it and not watched.
 */
#ifndef TESTS_SUPPORT_WATCHED_H
#define TESTS_SUPPORT_WATCHED_H

#include "tests/support/broker.h"
#include "tests/support/command.h"
#include "tests/support/fold.h"

#define WATCHED_BASE "http://example.com/files/"

struct watched {
    struct broker broker;
    struct tempdir home;
    char dir[300]; /* what is watched */
    char set_url[128];
    struct command command;
    struct fold fold;
    char path[1400]; /* what watched_at lends */
};

int watched_setup(void **state);
int watched_teardown(void **state);

/* Lent until the next call. */
const char *watched_at(struct watched *w, const char *path);

void watched_write(struct watched *w, const char *path, const char *text);
void watched_mkdir(struct watched *w, const char *path);
void watched_unlink(struct watched *w, const char *path);
void watched_move(struct watched *w, const char *from, const char *to);

/* Starts a watch with more arguments, NULL at their end. */
void watched_begin(struct watched *w, const char *const *more);

/* Waits until it watches. */
void watched_ready(struct watched *w);

#define WATCHED_BEGIN(w, ...) \
    watched_begin(w, (const char *const[]){__VA_ARGS__, NULL})

/* Starts one that watches; "--state" and the like follow. */
#define WATCHED_START(w, ...) (WATCHED_BEGIN(w, __VA_ARGS__), watched_ready(w))
#define WATCHED_START_PLAINLY(w) \
    (watched_begin(w, (const char *const[]){NULL}), watched_ready(w))

/* Runs one to its end; the exit status. */
#define WATCHED_RUN(w, ...) \
    (WATCHED_BEGIN(w, __VA_ARGS__), command_end(&(w)->command))

/* Ends it by SIGTERM, which is to end well. */
void watched_stop(struct watched *w);

/* What was done before this is posted when it returns: paths are looked at in
 * the order in which they were heard of. */
void watched_mark(struct watched *w);

#endif
