/*
 * sets.h - a registry of a test's own: configured, opened in a directory,
 * posted to as a client would.
 *
 *     sets_configure -> (change s.config) -> sets_open ... sets_close
 *                                               ^-------------+
 */
#ifndef TESTS_SUPPORT_SETS_H
#define TESTS_SUPPORT_SETS_H

#include <stdint.h>

#include "broker/config/config.h"
#include "broker/log/post.h"
#include "broker/posts/posts.h"
#include "broker/sets/registry.h"
#include "proto/buf.h"
#include "proto/problem.h"
#include "proto/slice.h"
#include "proto/status.h"

#define SETS_URL "http://example.org"

struct sets {
    struct config config;
    char public_url[64];            /* SETS_URL */
    struct journal *journal;        /* NULL: of one broker */
    void (*on_certain)(void *user); /* of the registry; `user` is sets */
    uint64_t few_entries;           /* of the registry; 0 */
    struct announcer *announcer;
    struct registry *registry;
    struct posts posts;
};

/* The outcome of a post. */
struct sets_outcome {
    enum status rc;
    struct problem why;
    uint64_t first, last;
};

/* The defaults, and `dir` for the data. */
void sets_configure(struct sets *s, const char *dir);
void sets_open(struct sets *s);
/* The same, for a test of a refusal: nothing is open after one. */
enum status sets_try_open(struct sets *s, struct problem *why);
void sets_close(struct sets *s);

/* Posts `body`, fed in pieces of `step` bytes (0: whole), and waits. */
struct sets_outcome sets_post_body(struct sets *s, const char *name,
                                   const char *type, struct slice body,
                                   size_t step);

/* Posts `n` updates of http://example.com/r/FROM ..., each of which must be
 * accepted; returns the set. */
struct set *sets_post(struct sets *s, const char *name, unsigned from,
                      unsigned n);

/* The same, each entry made `weight` bytes heavy or more by its links. */
struct set *sets_post_heavy(struct sets *s, const char *name, unsigned from,
                            unsigned n, size_t weight);

/* Makes a set without a post. */
struct set *sets_unborn(struct sets *s, const char *name);

/* The set of that name, which must exist. */
struct set *sets_find(struct sets *s, const char *name);

/* Its head. */
struct head sets_head(struct sets *s, const char *name);

/* Closes the open list, which must not be empty. */
void sets_rotate(struct sets *s, const char *name);

/* Writes the files of all closed lists. */
void sets_file_all(struct sets *s);

/* state_fold.rest_us: every set that is behind is due, also if the clock of a
 * test stands still behind the time of its last entry. */
#define FOLD_AT_ONCE (-INT64_C(86400000000))

/* Brings the states of all sets up to date, and onto the disk as far as
 * retention waits for it. */
void sets_fold_all(struct sets *s);

/* Retention, as the archive thread does it each second. */
void sets_retain(struct sets *s);

/* Deletes all trash that is due and that no state needs. */
void sets_purge(struct sets *s);

#endif
