/*
 * walk.h - a pull client that trusts nobody: all of a set's history by its
 * documents, from the Capability List through index, archive and every list.
 *
 *     struct walk w;
 *
 *     walk_open(&w, &broker, "demo");
 *     walk_all(&w);
 *     ... w.trace, w.lists ...
 *     walk_all(&w);          again: what was closed has the same bytes
 *     walk_close(&w);
 *
 * Every rule of pull is checked on the way, and fails the test,
 * the links between the lists and
 * the digests in them. Documents are found by their links only. To be used
 * while nobody posts.
 */
#ifndef TESTS_SUPPORT_WALK_H
#define TESTS_SUPPORT_WALK_H

#include "tests/support/broker.h"
#include "tests/support/http.h"
#include "tests/support/trace.h"

#define WALK_LISTS_MAX 20000

/* Public URLs that documents may name: a broker's own, and earlier ones. */
#define WALK_URLS_MAX 3

struct walk_list {
    char url[200];
    char from[DATETIME_SIZE + 1];
    char until[DATETIME_SIZE + 1];     /* "": open */
    char digest[DIGEST_TEXT_SIZE + 1]; /* as an index tells it; "": open */
    uint64_t after, last;
    size_t size;         /* in bytes */
    struct digest bytes; /* SHA-256 of it; only of a closed one */
    bool is_walked;      /* closed, and read */
};

struct walk {
    struct http http;
    const char *urls[WALK_URLS_MAX + 1];
    char capabilitylist[200]; /* its path */
    struct walk_list *lists;
    size_t n_lists;
    size_t n_indexed;   /* how many of them the index names */
    struct trace trace; /* with digests from the epoch on */
};

/* The broker is to stay where it is (restarts are fine). */
void walk_open(struct walk *w, const struct broker *b, const char *set);
void walk_close(struct walk *w);

/* Documents may name this public URL, too. Lent. */
void walk_allow(struct walk *w, const char *public_url);

/* Reads everything. What was walked before is compared with what is there now:
 * closed lists byte for byte, the entries of the open one each. */
void walk_all(struct walk *w);

/* GETs a document of that URL, which is to be there. The body is w->http's. */
struct slice walk_get(struct walk *w, const char *url);

/* Its SHA-256. */
struct digest walk_sum(struct slice bytes);

#endif
