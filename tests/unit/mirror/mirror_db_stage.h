/*
 * mirror_db_stage.h - the database of a test, changes of resources, and its
 * answers.
 *
 *     FIXTURE(mirror_db_setup, mirror_db_teardown);
 */
#ifndef TESTS_UNIT_MIRROR_MIRROR_DB_STAGE_H
#define TESTS_UNIT_MIRROR_MIRROR_DB_STAGE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/mirror/mirror_db.h"
#include "proto/datetime.h"
#include "proto/resourcesync/change.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"

#define SET     "http://example.com/sets/a"
#define OTHER   "http://example.com/sets/b"
#define ONE     "sha-256:" SIXTEEN SIXTEEN SIXTEEN "0000000000000001"
#define TWO     "sha-256:" SIXTEEN SIXTEEN SIXTEEN "0000000000000002"
#define THREE   "sha-256:" SIXTEEN SIXTEEN SIXTEEN "0000000000000003"
#define SIXTEEN "0000000000000000"

static struct mirror_db *db; /* NULL: it is closed */
static struct tempdir mirror_db_dir;

static inline void
open_db(void)
{
    static struct mirror_db opened;
    struct problem why = {.rc = STATUS_OK};

    if (!mirror_db_open(&opened, mirror_db_dir.path, "mirror.db", &why))
        fail_msg("%s", why.text);
    db = &opened;
}

static inline int
mirror_db_setup(void **state)
{
    (void)state;
    tempdir_open(&mirror_db_dir);
    open_db();
    return 0;
}

static inline int
mirror_db_teardown(void **state)
{
    (void)state;
    if (db)
        mirror_db_close(db);
    tempdir_close(&mirror_db_dir);
    return 0;
}

/* Reopens the database as after a crash: uncommitted changes are lost. */
static inline void
crash(void)
{
    mirror_db_close(db);
    open_db();
}

static inline int64_t
set_of(const char *url)
{
    char position[TD_POSITION_SIZE];
    int64_t set = 0;

    assert_true(mirror_db_set(db, url, &set, position));
    return set;
}

#define assert_position(url, expected)                   \
    do {                                                 \
        char at_[TD_POSITION_SIZE];                      \
        int64_t set_;                                    \
        assert_true(mirror_db_set(db, url, &set_, at_)); \
        assert_string_equal(at_, expected);              \
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
    struct mirror_db_description t = {.loc = loc_of(n),
                                      .is_deleted = !hash,
                                      .is_baseline = is_baseline,
                                      .when_us = when_us,
                                      .lastmod_us = DATETIME_NONE,
                                      .hash = slice_of(hash ? hash : ""),
                                      .length = hash ? 3 : LENGTH_NONE};
    int64_t id = 0;

    assert_true(mirror_db_describe(db, set_of(set), &t, &id));
    return id;
}

/* Records it in a transaction of its own. */
static inline int64_t
tell_telling(const struct mirror_db_description *t)
{
    int64_t set = set_of(SET), id;

    assert_true(mirror_db_begin(db));
    assert_true(mirror_db_describe(db, set, t, &id));
    assert_true(mirror_db_commit(db));
    return id;
}

static inline int64_t
told(unsigned n, const char *hash)
{
    int64_t id;

    assert_true(mirror_db_begin(db));
    id = tell(SET, n, hash, 0, false);
    assert_true(mirror_db_commit(db));
    return id;
}

static inline void
look(int64_t id, struct mirror_db_resource *r)
{
    assert_true(mirror_db_get(db, id, r));
    assert_int_equal(r->id, id);
}

static inline enum mirror_db_todo
todo(int64_t id)
{
    struct mirror_db_resource r;

    look(id, &r);
    return r.todo;
}

static inline bool
is_known(unsigned n)
{
    struct mirror_db_resource r;

    assert_true(mirror_db_find(db, loc_of(n), &r));
    return r.id != 0;
}

/* Notes that the mirror has put the wanted file of resource `id`. */
static inline void
have(int64_t id)
{
    struct mirror_dir_mark mark = {.size = 3, .mtime_ns = 7};
    struct mirror_db_resource r;
    char hash[100];

    look(id, &r);
    snprintf(hash, sizeof(hash), "%.*s", SLICE_ARG(r.wanted.hash));
    assert_true(mirror_db_begin(db));
    assert_true(mirror_db_note_file(db, id, r.version, slice_of(hash),
                                    r.wanted.lastmod_us, r.have_second_us,
                                    &mark));
    assert_true(mirror_db_commit(db));
}

static inline void
lost(int64_t id)
{
    assert_true(mirror_db_begin(db));
    assert_true(mirror_db_note_loss(db, id));
    assert_true(mirror_db_commit(db));
}

/* The counts of the database are those of a new start. */
static inline void
assert_counts(uint64_t n_have, uint64_t n_fetch, uint64_t n_remove)
{
    for (int start = 0; start < 2; start++) {
        const struct mirror_db_counts *counts;

        if (start > 0)
            crash();
        counts = &db->counts;
        assert_int_equal(counts->n_have, n_have);
        assert_int_equal(counts->n_fetch, n_fetch);
        assert_int_equal(counts->n_remove, n_remove);
        assert_int_equal(counts->bytes_wanted, 3 * n_fetch);
    }
    assert_int_equal(db->counts.n_left, 0);
}

static inline void
tell_baseline(const char *set, unsigned first, unsigned last)
{
    assert_true(mirror_db_begin(db));
    assert_true(mirror_db_baseline_begin(db, set_of(set)));
    assert_true(mirror_db_commit(db));
    assert_true(mirror_db_begin(db));
    for (unsigned n = first; n <= last; n++)
        tell(set, n, ONE, DATETIME_NONE, true);
    assert_true(mirror_db_commit(db));
}

static inline uint64_t
end_reading(const char *set, int64_t as_of_us, bool is_held)
{
    struct mirror_db_end end = {.as_of_us = as_of_us, .is_held = is_held};
    uint64_t n_remove;

    assert_true(mirror_db_begin(db));
    assert_true(mirror_db_baseline_end(db, set_of(set), &end, &n_remove));
    assert_true(mirror_db_set_position(db, set_of(set), "0123456789abcdef-9"));
    return n_remove;
}

static inline uint64_t
end_baseline(const char *set)
{
    return end_reading(set, INT64_MAX, false);
}

/* A comparison says that resource `n` has that hash and lastmod. */
static inline void
compared(unsigned n, const char *hash, int64_t lastmod_us)
{
    const struct mirror_db_description t = {.loc = loc_of(n),
                                            .is_baseline = true,
                                            .when_us = lastmod_us,
                                            .lastmod_us = lastmod_us,
                                            .hash = slice_of(hash),
                                            .length = LENGTH_NONE};

    assert_true(mirror_db_compare(db, set_of(SET), &t));
}

static inline uint64_t
n_held(void)
{
    uint64_t n;

    assert_true(mirror_db_count_held(db, set_of(SET), &n));
    return n;
}

#endif
