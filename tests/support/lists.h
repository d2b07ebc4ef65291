/*
 * lists.h - a broker with one set, called LISTS_SET, whose Change Lists a test
 * looks at: its source, its pull client, and the files.
 *
 *     struct lists l;
 *
 *     LISTS_OPEN(&l, "--rotate-entries", "3");
 *     source_post(&l.http, LISTS_SET, 1, 7, 0);
 *     walk_all(&l.walk);
 *     lists_close(&l);
 *
 * As a fixture: lists_setup allocates, the test opens, lists_teardown closes.
 */
#ifndef TESTS_SUPPORT_LISTS_H
#define TESTS_SUPPORT_LISTS_H

#include "tests/support/broker.h"
#include "tests/support/http.h"
#include "tests/support/walk.h"

#define LISTS_SET "news"

/* How often somebody looks whether it has. */
#define LISTS_LOOK_MS 20

struct lists {
    struct broker broker;
    struct http http;
    struct walk walk;
    char path[200]; /* what lists_path lends */
};

/* Starts a broker with the options that follow. */
#define LISTS_OPEN(l, ...)                            \
    do {                                              \
        broker_open(&(l)->broker, __VA_ARGS__, NULL); \
        lists_begin(l);                               \
    } while (0)

void lists_begin(struct lists *l);
void lists_close(struct lists *l);
int lists_setup(void **state);
int lists_teardown(void **state);

/* The path of list `number`; lent until the next call. */
const char *lists_path(struct lists *l, unsigned number);

/* A copy of list `number`, the caller's. */
struct buf lists_copy(struct lists *l, unsigned number);

/* It is served with these bytes. */
void lists_assert(struct lists *l, unsigned number, const struct buf *bytes);

/* Puts something where the files of closed lists belong, so that they cannot be
 * written; or takes it away again. Before the first file only. */
void lists_obstruct(struct lists *l);
void lists_clear(struct lists *l);

/* Has closed list `number` its file? And: waits until it has. */
bool lists_has_file(const struct lists *l, unsigned number);
void lists_await_file(const struct lists *l, unsigned number);

/* Waits until closed list `number` is served from its file: as gzip to whoever
 * asks for that, and with a Last-Modified, which comes a second later. l->http
 * has the answer. */
void lists_await_gzip(struct lists *l, unsigned number);

/* Waits until `n` lists are closed, which walk_all finds; more are a failure.
 */
void lists_await_closed(struct lists *l, size_t n);

#endif
