/*
 * dumped.h - a broker whose set "demo" keeps content inline and so has Change
 * Dumps, what was posted to it, and what it offers.
 *
 *     DUMPED_OPEN(s, "--rotate-entries", "10");
 *     dumped_change(s, 10, 4000);
 *     dumped_await(s, s->last);
 *     ... dumped_offered(s, "changedump", url) ...
 *
 * As a fixture: dumped_setup, dumped_teardown; the test opens it.
 */
#ifndef TESTS_SUPPORT_DUMPED_H
#define TESTS_SUPPORT_DUMPED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/change.h"
#include "tests/support/broker.h"
#include "tests/support/http.h"
#include "tests/support/xpath.h"

#define DUMPED_MOST      2000 /* changes of one test */
#define DUMPED_RESOURCES 12

/* What was told, by seq. */
struct dumped_told {
    unsigned number;
    enum change_kind kind;
    size_t size; /* of its bytes, which `byte` fills */
    char byte;
};

struct dumped {
    struct broker broker;
    struct http http;
    struct dumped_told told[DUMPED_MOST + 1];
    uint64_t last;
    bool is_there[DUMPED_RESOURCES];
    uint32_t random;

    /* A walk through dumps, which a test takes. */
    uint64_t seq;   /* read so far */
    char until[40]; /* of what was read last; "": nothing was */
    unsigned n_packages, n_gaps;
};

int dumped_setup(void **state);
int dumped_teardown(void **state);

/* Starts the broker with these options. */
#define DUMPED_OPEN(s, ...)                           \
    do {                                              \
        broker_open(&(s)->broker, __VA_ARGS__, NULL); \
        dumped_begin(s);                              \
    } while (0)

/* Makes the set; what DUMPED_OPEN does then. */
void dumped_begin(struct dumped *s);

/* The source */

uint32_t dumped_random_below(struct dumped *s, uint32_t n);

/* Posts `n` changes in one post, with their bytes, of `most` each at most. */
void dumped_change(struct dumped *s, unsigned n, size_t most);

/* Reading */

/* A document that must be there, and is valid. */
void dumped_document(struct dumped *s, const char *url, struct xpath *x);

/* `what` of its entry `number`, an XPath; lent as by xpath_get. */
const char *dumped_of_entry(struct xpath *x, size_t number, const char *what);

/* The URL of what the set offers with that capability; "": it has none. */
const char *dumped_offered(struct dumped *s, const char *capability,
                           char to[300]);

/* Waits until the dumps reach there. */
void dumped_await(struct dumped *s, uint64_t seq);

/* The latest framework notification tells that of a document of the set. */
void dumped_assert_told(struct dumped *s, const char *document,
                        const char *capability, const char *change_name);

#endif
