/*
 * book_stage.h - the stage of tests of the book: what is told of resources, and
 * what it says of them.
 */
#ifndef TESTS_UNIT_MIRROR_BOOK_STAGE_H
#define TESTS_UNIT_MIRROR_BOOK_STAGE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/mirror/book.h"
#include "proto/change.h"
#include "proto/datetime.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"

#define SET     "http://example.com/sets/a"
#define OTHER   "http://example.com/sets/b"
#define ONE     "sha-256:" SIXTEEN SIXTEEN SIXTEEN "0000000000000001"
#define TWO     "sha-256:" SIXTEEN SIXTEEN SIXTEEN "0000000000000002"
#define THREE   "sha-256:" SIXTEEN SIXTEEN SIXTEEN "0000000000000003"
#define SIXTEEN "0000000000000000"

static inline struct book *
open_book(void **state)
{
    struct failure why = {TD_OK};
    struct book *b = book_open(tempdir_path(state), "mirror.db", &why);

    if (!b)
        fail_msg("%s", why.text);
    return b;
}

/* What a crash does: what is not committed is not there any more. */
static inline struct book *
crash(void **state, struct book *b)
{
    book_close(b);
    return open_book(state);
}

static inline int64_t
set_of(struct book *b, const char *url)
{
    char position[TD_POSITION_SIZE];
    int64_t set = 0;

    assert_true(book_set(b, url, &set, position));
    return set;
}

#define assert_position(b, url, expected)          \
    do {                                           \
        char at_[TD_POSITION_SIZE];                \
        int64_t set_;                              \
        assert_true(book_set(b, url, &set_, at_)); \
        assert_string_equal(at_, expected);        \
    } while (0)

static inline struct slice
loc_of(unsigned n)
{
    static char loc[64];

    snprintf(loc, sizeof(loc), "https://example.com/r/%u.txt", n);
    return slice_of(loc);
}

/* Tells of resource `n` in an open transaction; hash NULL: it is deleted; ""
 * none. */
static inline int64_t
tell(struct book *b, const char *set, unsigned n, const char *hash,
     int64_t when_us, bool is_baseline)
{
    struct book_telling t = {.loc = loc_of(n),
                             .is_deleted = !hash,
                             .is_baseline = is_baseline,
                             .when_us = when_us,
                             .lastmod_us = DATETIME_NONE,
                             .hash = slice_of(hash ? hash : ""),
                             .length = hash ? 3 : LENGTH_NONE};
    int64_t id = 0;

    assert_true(book_told(b, set_of(b, set), &t, &id));
    return id;
}

static inline int64_t
told(struct book *b, unsigned n, const char *hash)
{
    int64_t id;

    assert_true(book_begin(b));
    id = tell(b, SET, n, hash, 0, false);
    assert_true(book_commit(b));
    return id;
}

static inline void
look(struct book *b, int64_t id, struct book_resource *r)
{
    bool is_found;

    assert_true(book_look(b, id, r, &is_found));
    assert_true(is_found);
    assert_int_equal(r->id, id);
}

static inline enum book_todo
todo(struct book *b, int64_t id)
{
    struct book_resource r;

    look(b, id, &r);
    return r.todo;
}

static inline bool
is_known(struct book *b, unsigned n)
{
    struct book_resource r;
    bool is_found;

    assert_true(book_find(b, loc_of(n), &r, &is_found));
    return is_found;
}

/* The file of resource `id` was put, as it is wanted now. */
static inline void
have(struct book *b, int64_t id)
{
    struct shelf_mark mark = {.size = 3, .mtime_ns = 7};
    struct book_resource r;
    char hash[100];

    look(b, id, &r);
    snprintf(hash, sizeof(hash), "%.*s", SLICE_ARG(r.hash));
    assert_true(book_begin(b));
    assert_true(
        book_have(b, id, r.version, slice_of(hash), r.lastmod_us, &mark));
    assert_true(book_commit(b));
}

static inline void
lost(struct book *b, int64_t id)
{
    assert_true(book_begin(b));
    assert_true(book_lost(b, id));
    assert_true(book_commit(b));
}

/* What it says of itself is what a new start counts. */
static inline struct book *
assert_counts(void **state, struct book *b, uint64_t n_have, uint64_t n_fetch,
              uint64_t n_remove)
{
    struct book_counts before = *book_counts(b);
    const struct book_counts *after;

    assert_int_equal(before.n_have, n_have);
    assert_int_equal(before.n_fetch, n_fetch);
    assert_int_equal(before.n_remove, n_remove);
    assert_int_equal(before.bytes_wanted, 3 * n_fetch);
    b = crash(state, b);
    after = book_counts(b);
    assert_int_equal(after->n_have, n_have);
    assert_int_equal(after->n_fetch, n_fetch);
    assert_int_equal(after->n_remove, n_remove);
    assert_int_equal(after->bytes_wanted, 3 * n_fetch);
    assert_int_equal(after->n_left, 0);
    return b;
}

static inline void
tell_baseline(struct book *b, const char *set, unsigned first, unsigned last)
{
    assert_true(book_begin(b));
    assert_true(book_baseline_begin(b, set_of(b, set)));
    assert_true(book_commit(b));
    assert_true(book_begin(b));
    for (unsigned n = first; n <= last; n++)
        tell(b, set, n, ONE, DATETIME_NONE, true);
    assert_true(book_commit(b));
}

static inline uint64_t
end_baseline(struct book *b, const char *set)
{
    uint64_t n_remove;

    assert_true(book_begin(b));
    assert_true(book_baseline_end(b, set_of(b, set), &n_remove));
    assert_true(book_reach(b, set_of(b, set), "0123456789abcdef-9"));
    return n_remove;
}

#endif
