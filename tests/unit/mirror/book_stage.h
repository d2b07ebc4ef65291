/*
 * book_stage.h - the book of a test, changes of resources, and its answers.
 *
 *     FIXTURE(book_setup, book_teardown);
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

static struct book *book;
static struct tempdir book_dir;

static inline void
open_book(void)
{
    struct problem why = {.rc = STATUS_OK};

    book = book_open(book_dir.path, "mirror.db", &why);
    if (!book)
        fail_msg("%s", why.text);
}

static inline int
book_setup(void **state)
{
    (void)state;
    tempdir_open(&book_dir);
    open_book();
    return 0;
}

static inline int
book_teardown(void **state)
{
    (void)state;
    book_close(book);
    tempdir_close(&book_dir);
    return 0;
}

/* Reopens the book as after a crash: uncommitted changes are lost. */
static inline void
crash(void)
{
    book_close(book);
    open_book();
}

static inline int64_t
set_of(const char *url)
{
    char position[TD_POSITION_SIZE];
    int64_t set = 0;

    assert_true(book_set(book, url, &set, position));
    return set;
}

#define assert_position(url, expected)                \
    do {                                              \
        char at_[TD_POSITION_SIZE];                   \
        int64_t set_;                                 \
        assert_true(book_set(book, url, &set_, at_)); \
        assert_string_equal(at_, expected);           \
    } while (0)

static inline struct slice
loc_of(unsigned n)
{
    static char loc[64];

    snprintf(loc, sizeof(loc), "https://example.com/r/%u.txt", n);
    return slice_of(loc);
}

/* Records resource `n` in an open transaction; hash NULL: it is deleted; "":
 * the source states none. */
static inline int64_t
tell(const char *set, unsigned n, const char *hash, int64_t when_us,
     bool is_baseline)
{
    struct book_telling t = {.loc = loc_of(n),
                             .is_deleted = !hash,
                             .is_baseline = is_baseline,
                             .when_us = when_us,
                             .lastmod_us = DATETIME_NONE,
                             .hash = slice_of(hash ? hash : ""),
                             .length = hash ? 3 : LENGTH_NONE};
    int64_t id = 0;

    assert_true(book_told(book, set_of(set), &t, &id));
    return id;
}

/* Records it in a transaction of its own. */
static inline int64_t
tell_telling(const struct book_telling *t)
{
    int64_t set = set_of(SET), id;

    assert_true(book_begin(book));
    assert_true(book_told(book, set, t, &id));
    assert_true(book_commit(book));
    return id;
}

static inline int64_t
told(unsigned n, const char *hash)
{
    int64_t id;

    assert_true(book_begin(book));
    id = tell(SET, n, hash, 0, false);
    assert_true(book_commit(book));
    return id;
}

static inline void
look(int64_t id, struct book_resource *r)
{
    bool is_found;

    assert_true(book_look(book, id, r, &is_found));
    assert_true(is_found);
    assert_int_equal(r->id, id);
}

static inline enum book_todo
todo(int64_t id)
{
    struct book_resource r;

    look(id, &r);
    return r.todo;
}

static inline bool
is_known(unsigned n)
{
    struct book_resource r;
    bool is_found;

    assert_true(book_find(book, loc_of(n), &r, &is_found));
    return is_found;
}

/* Notes that the mirror has put the wanted file of resource `id`. */
static inline void
have(int64_t id)
{
    struct shelf_mark mark = {.size = 3, .mtime_ns = 7};
    struct book_resource r;
    char hash[100];

    look(id, &r);
    snprintf(hash, sizeof(hash), "%.*s", SLICE_ARG(r.hash));
    assert_true(book_begin(book));
    assert_true(
        book_have(book, id, r.version, slice_of(hash), r.lastmod_us, &mark));
    assert_true(book_commit(book));
}

static inline void
lost(int64_t id)
{
    assert_true(book_begin(book));
    assert_true(book_lost(book, id));
    assert_true(book_commit(book));
}

/* The counts of the book are those of a new start. */
static inline void
assert_counts(uint64_t n_have, uint64_t n_fetch, uint64_t n_remove)
{
    for (int start = 0; start < 2; start++) {
        const struct book_counts *counts;

        if (start > 0)
            crash();
        counts = book_counts(book);
        assert_int_equal(counts->n_have, n_have);
        assert_int_equal(counts->n_fetch, n_fetch);
        assert_int_equal(counts->n_remove, n_remove);
        assert_int_equal(counts->bytes_wanted, 3 * n_fetch);
    }
    assert_int_equal(book_counts(book)->n_left, 0);
}

static inline void
tell_baseline(const char *set, unsigned first, unsigned last)
{
    assert_true(book_begin(book));
    assert_true(book_baseline_begin(book, set_of(set)));
    assert_true(book_commit(book));
    assert_true(book_begin(book));
    for (unsigned n = first; n <= last; n++)
        tell(set, n, ONE, DATETIME_NONE, true);
    assert_true(book_commit(book));
}

static inline uint64_t
end_baseline(const char *set)
{
    uint64_t n_remove;

    assert_true(book_begin(book));
    assert_true(book_baseline_end(book, set_of(set), &n_remove));
    assert_true(book_reach(book, set_of(set), "0123456789abcdef-9"));
    return n_remove;
}

#endif
