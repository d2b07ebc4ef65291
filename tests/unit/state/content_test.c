/*
 * content_test.c - the content knows of each entry whether its bytes are there,
 * which are to be fetched, and which may go.
 */
#include "broker/state/content.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/options.h"
#include "broker/state/content_files.h"
#include "tests/support/fold_dbs.h"
#include "tests/support/kept.h"
#include "tests/support/model.h"
#include "tests/support/telling.h"
#include "tests/test.h"

FIXTURE(telling_setup, telling_teardown);

/* at each commit the content knows of each entry with bytes whether they
 * are there: however entries are grouped, through restarts, and while the log
 * forgets some. */
TEST(knows_of_each_entry_whether_its_bytes_are_there)
{
    const unsigned long n_rounds = test_size(150, 300);
    struct telling *w = *state;

    for (unsigned long i = 0; i < n_rounds; i++) {
        unsigned n = model_random(&w->random) % 7;

        for (unsigned k = 0; k < n; k++)
            telling_tell(w, model_random(&w->random) % TELLING_RESOURCES,
                         model_random(&w->random) % 4 == 0,
                         model_random(&w->random) % 3 > 0,
                         model_random(&w->random) % TELLING_TEXTS);
        if (model_random(&w->random) % 3 == 0)
            telling_place(w, model_random(&w->random) % TELLING_TEXTS);
        telling_fold_to(w, w->folded + model_random(&w->random) %
                                           (w->batch->last - w->folded + 1));
        if (w->folded > 0)
            telling_keep(w, 1 + model_random(&w->random) % w->folded);
        if (i % 10 == 0)
            telling_forget(w, w->earliest + model_random(&w->random) %
                                                (w->folded - w->earliest + 1));
        if (i % 7 == 0)
            telling_reopen(w);
        telling_check(w);
    }
    assert_in_range(w->earliest, n_rounds / 3, TELLING_ENTRIES);
}

/* a file of another length is not the entry's, and no fetch would
 * bring the right one. */
TEST(keeps_nothing_of_another_length)
{
    char hash[DIGEST_TEXT_SIZE + 1];
    struct content_missing m = {0};
    struct content_bytes bytes;
    struct telling *w = *state;

    telling_place(w, 1);
    kept_hash(hash, 1);
    telling_add_change(w, 1, CHANGE_CREATED, hash, kept_length(1) + 1);
    telling_add_change(w, 2, CHANGE_CREATED, hash, LENGTH_NONE);
    assert_int_equal(fold_db_add(fold_db_of(w->content), w->batch, 2, NULL),
                     STATUS_OK);
    assert_int_equal(fold_db_commit(fold_db_of(w->content), NULL), STATUS_OK);
    assert_int_equal(content_find(w->content, 1, &bytes, NULL), STATUS_OK);
    assert_false(bytes.is_there);
    assert_int_equal(content_find(w->content, 2, &bytes, NULL), STATUS_OK);
    assert_true(bytes.is_there);
    assert_true(content_at(w->content)->due_us == CONTENT_NEVER);
    assert_int_equal(content_missing(w->content, INT64_MAX - 1, &m, NULL),
                     STATUS_NOT_FOUND);
}

static void
assert_missing(struct telling *w, int64_t now_us, struct content_missing *m,
               uint64_t seq)
{
    do {
        assert_int_equal(content_missing(w->content, now_us, m, NULL),
                         STATUS_OK);
    } while (m->is_settled);
    assert_int_equal(m->seq, seq);
}

/* All entries of one fold are due at the same moment: each step to the next one
 * reads few rows, not all of them. */
TEST(passes_over_what_is_due_at_once_one_by_one)
{
    int64_t due_us = 0;
    char path[4096];
    struct telling *w = *state;
    struct db db;
    sqlite3_stmt *q;

    for (unsigned i = 1; i <= 1000; i++)
        telling_tell(w, i % TELLING_RESOURCES, false, true, 1);
    telling_fold_to(w, 1000);
    telling_end(w);

    snprintf(path, sizeof(path), "%s/" CONTENT_FILE, w->dir);
    assert_int_equal(db_open_kind(&db, &content_kind, path, NULL), STATUS_OK);
    assert_int_equal(db_keep(&db, &q, content_next_due, NULL), STATUS_OK);
    for (int64_t seq = 0; seq <= 1000; seq++) {
        sqlite3_bind_int64(q, 1, due_us);
        sqlite3_bind_int64(q, 2, seq);
        sqlite3_bind_int64(q, 3, INT64_MAX - 1);
        assert_int_equal(sqlite3_step(q),
                         seq < 1000 ? SQLITE_ROW : SQLITE_DONE);
        if (seq < 1000) {
            assert_int_equal(sqlite3_column_int64(q, 0), seq + 1);
            due_us = sqlite3_column_int64(q, 1);
        }
        assert_in_range(sqlite3_stmt_status(q, SQLITE_STMTSTATUS_VM_STEP, true),
                        1, 200);
        sqlite3_reset(q);
    }
    db_close(&db);
}

static enum status
note(struct telling *w, uint64_t seq, int64_t due_us)
{
    const struct content_fact fact = {.seq = seq, .due_us = due_us};

    return content_note(w->content, &fact, NULL);
}

/* bytes of an entry without hash are missing for ever; the others are
 * due in turn, and a failed try a while later. Bytes that came for another
 * entry meanwhile need no fetch. */
TEST(gives_out_what_is_to_be_fetched)
{
    int64_t now_us = clock_now_us() + 60000000;
    struct content_missing m = {0};
    struct content_bytes bytes;
    char hash[DIGEST_TEXT_SIZE + 1];
    struct telling *w = *state;

    telling_tell(w, 1, false, true, 1);
    telling_tell(w, 2, false, false, 2);
    telling_tell(w, 3, false, true, 3);
    telling_tell(w, 4, false, true, 3);
    telling_add_change(w, 5, CHANGE_CREATED,
                       "md5:d41d8cd98f00b204e9800998ecf8427e", LENGTH_NONE);
    telling_fold_to(w, 5);

    assert_missing(w, now_us, &m, 1);
    assert_true(slice_is(m.loc, "http://example.com/r/?a=1&n=1"));
    kept_hash(hash, 1);
    assert_true(slice_is(m.hash, hash));
    assert_int_equal(m.length, kept_length(1));
    assert_int_equal(m.tries, 0);
    assert_missing(w, now_us, &m, 3);
    assert_int_equal(note(w, 1, now_us + 7), STATUS_OK);
    telling_place(w, 3);
    assert_missing(w, now_us, &m, 5); /* 4 is there now */
    assert_true(m.length == LENGTH_NONE);
    assert_int_equal(content_missing(w->content, now_us, &m, NULL),
                     STATUS_NOT_FOUND);
    assert_int_equal(content_find(w->content, 4, &bytes, NULL), STATUS_OK);
    assert_true(bytes.is_there);

    m = (struct content_missing){0};
    assert_missing(w, now_us + 7, &m, 5); /* 3 is there now */
    assert_int_equal(note(w, 5, CONTENT_NEVER), STATUS_OK);
    assert_int_equal(content_at(w->content)->due_us, now_us + 7);
    telling_reopen(w);
    assert_int_equal(content_at(w->content)->due_us, now_us + 7);
    m = (struct content_missing){0};
    assert_int_equal(content_missing(w->content, now_us + 6, &m, NULL),
                     STATUS_NOT_FOUND);
    m = (struct content_missing){0};
    assert_missing(w, now_us + 7, &m, 1);
    assert_int_equal(m.tries, 1);
    telling_keep(w, 1);
    assert_true(content_at(w->content)->due_us == CONTENT_NEVER);
    assert_int_equal(note(w, 1, now_us), STATUS_NOT_FOUND);
    assert_int_equal(content_at(w->content)->missing, 2);
}

static void
assert_loose(struct telling *w, unsigned n)
{
    struct digest digests[TELLING_TEXTS];
    size_t n_loose = TELLING_TEXTS;

    assert_int_equal(content_loose(w->content, NULL, digests, &n_loose, NULL),
                     STATUS_OK);
    assert_int_equal(n_loose, n);
}

/* However many entries name the same bytes, one step is bounded: the caller has
 * other things to do, too. */
TEST(what_came_for_many_entries_is_kept_a_step_at_a_time)
{
    int64_t now_us = clock_now_us() + 60000000;
    struct content_missing m = {0};
    struct telling *w = *state;

    for (unsigned i = 1; i <= 500; i++)
        telling_tell(w, i % TELLING_RESOURCES, false, true, 1);
    telling_fold_to(w, 500);
    telling_place(w, 1);
    assert_int_equal(content_missing(w->content, now_us, &m, NULL), STATUS_OK);
    assert_true(m.is_settled);
    assert_int_equal(content_at(w->content)->missing, 499);
    while (!content_missing(w->content, now_us, &m, NULL))
        assert_true(m.is_settled);
    assert_int_equal(content_at(w->content)->missing, 0);
}

/* Equal bytes are kept once; they may go when every entry that names them is
 * forgotten by the log and overtaken by a later change of its resource. */
TEST(files_go_with_the_last_entry_that_tells_of_them)
{
    struct digest digest;
    struct telling *w = *state;

    telling_place(w, 1);
    telling_place(w, 2);
    telling_tell(w, 1, false, true, 1);
    telling_tell(w, 2, false, true, 1);
    telling_tell(w, 1, false, true, 2);
    telling_fold_to(w, 3);
    assert_int_equal(content_at(w->content)->files, 2);
    telling_forget(w, 3); /* the second entry is its resource's latest */
    assert_loose(w, 0);
    telling_tell(w, 2, true, false, 0);
    telling_fold_to(w, 4);
    assert_loose(w, 0);
    telling_forget(w, 3);
    telling_check(w);
    assert_loose(w, 1);
    telling_reopen(w);
    assert_loose(w, 1);

    telling_tell(w, 3, false, true, 1); /* named again before it went */
    telling_fold_to(w, 5);
    assert_loose(w, 0);
    telling_tell(w, 3, true, false, 1);
    telling_fold_to(w, 6);
    telling_forget(w, 5);
    assert_loose(w, 1);
    kept_digest(&digest, 1);
    assert_int_equal(content_file_unlink(w->dir, &digest, false, NULL),
                     STATUS_OK);
    w->is_placed[1] = false;
    assert_int_equal(content_let_go(w->content, &digest, 1, NULL), STATUS_OK);
    assert_loose(w, 0);
    telling_tell(w, 4, false, true, 1); /* it is not there any more */
    telling_fold_to(w, 7);
    telling_check(w);
}

static void
assert_complete(struct telling *w, uint64_t after, uint64_t last, bool should)
{
    bool is = !should, is_lacking;

    assert_int_equal(
        content_is_complete(w->content, after, last, &is, &is_lacking, NULL),
        STATUS_OK);
    assert_int_equal(is, should);
}

/* a dump is complete or it is not offered. */
TEST(says_what_is_complete)
{
    struct resources_at all = {.is_whole = true};
    struct telling *w = *state;

    telling_place(w, 1);
    telling_tell(w, 1, false, true, 1);
    telling_tell(w, 2, false, true, 2);
    telling_tell(w, 3, false, true, 1);
    telling_tell(w, 2, false, true, 1);
    telling_tell(w, 3, true, false, 0);
    assert_complete(w, 0, 1, false); /* not folded yet */
    telling_fold_to(w, 5);
    assert_complete(w, 0, 1, true);
    assert_complete(w, 0, 2, false);
    assert_complete(w, 1, 3, false);
    assert_complete(w, 2, 5, true);
    assert_complete(w, 2, 6, false);

    all.seq = 5;
    all.n = 2;
    assert_true(content_has_all(w->content, &all));
    all.n = 3; /* one from before the rows began */
    assert_false(content_has_all(w->content, &all));
    all.n = 2;
    all.seq = 4;
    assert_false(content_has_all(w->content, &all));
    telling_tell(w, 4, false, true, 2);
    telling_fold_to(w, 6);
    all.seq = 6;
    all.n = 3;
    assert_false(content_has_all(w->content, &all));
    telling_keep(w, 6);
    assert_true(content_has_all(w->content, &all));

    telling_forget(w, 2);
    assert_complete(w, 1, 5, false);
    assert_complete(w, 2, 6, true);
    assert_int_equal(fold_db_begin(fold_db_of(w->content), 6, NULL), STATUS_OK);
    assert_complete(w, 5, 6, false);
    assert_false(content_has_all(w->content, &all));
}

/* The entries that lost their bytes to a limit: those with a '.'. */
static void
check_thinned(struct telling *w, const char *kept)
{
    for (unsigned i = 0; kept[i]; i++)
        if (kept[i] == '.') {
            w->told[i + 1].is_there = false;
            w->told[i + 1].is_thinned = true;
        }
    telling_check(w);
}

/* Tells of versions of a resource: each a text, '-' is a deletion. Folds each
 * by itself, or all at once. */
static void
tell_versions(struct telling *w, const char *versions, const char *hours,
              bool is_each)
{
    for (unsigned i = 0; versions[i]; i++) {
        bool is_deleted = versions[i] == '-';

        w->later_us = (hours[i] - '0') * INT64_C(3600000000);
        telling_tell(w, 1, is_deleted, !is_deleted,
                     is_deleted ? 0 : (unsigned)(versions[i] - '0'));
        if (is_each || !versions[i + 1])
            telling_fold_to(w, i + 1);
    }
}

/* The number of versions, or how long ago they were current, limits which keep
 * their bytes. The bytes of another version stay. */
TEST(thins_the_versions_beyond_the_limit)
{
    static const struct {
        uint64_t limit;
        const char *versions, *hours, *kept;
    } rows[] = {
        {OPTION_KEEP_ALL, "12345", "01239", "     "},
        {1, "1", "0", " "},
        {1, "1234", "0000", "... "},
        {2, "1234", "0000", "..  "},
        {3, "1234", "0000", ".   "},
        {4, "1234", "0000", "    "},
        {1000, "1234", "0000", "    "},
        {1, "111", "000", ".. "},
        {2, "1213", "0000", "..  "},
        {1, "12-", "000", ".  "},
        {1, "12-3", "0000", "..  "},
        {2, "1-2-", "0009", "    "},
        {OPTION_KEEP_AGE + 2, "1", "9", " "},
        {OPTION_KEEP_AGE + 2, "12", "09", "  "},
        {OPTION_KEEP_AGE + 2, "123", "019", ".  "},
        {OPTION_KEEP_AGE + 2, "1234", "0123", ".   "},
        {OPTION_KEEP_AGE + 2, "1234", "0122", "    "},
        {OPTION_KEEP_AGE + 2, "1234", "0009", "..  "},
        {OPTION_KEEP_AGE + 2, "1231", "0009", "..  "},
        {OPTION_KEEP_AGE + 2, "12-", "009", "   "},
        {OPTION_KEEP_AGE + 2, "12-3", "0009", ".   "},
        {OPTION_KEEP_AGE + 1000 * 24, "1234", "0129", "    "},
    };

    for (size_t i = 0; i < 2 * N_ELEMENTS(rows); i++) {
        void *made;
        struct telling *w;

        telling_setup(&made);
        w = made;
        fold_db_of(w->content)->versions = rows[i / 2].limit;
        for (unsigned text = 1; text <= 5; text++)
            telling_place(w, text);
        tell_versions(w, rows[i / 2].versions, rows[i / 2].hours, i % 2);
        check_thinned(w, rows[i / 2].kept);
        telling_reopen(w);
        telling_check(w);
        telling_teardown(&made);
    }
}

/* Other resources keep theirs, and bytes without a version may go. A thinned
 * version is not one that is to be fetched, nor counted as missing, but nothing
 * that has it is complete. */
TEST(knows_thinned_versions_from_missing_ones)
{
    struct content_missing m = {0};
    bool is_complete = true, is_lacking = false;
    struct telling *w = *state;

    fold_db_of(w->content)->versions = 1;
    telling_place(w, 1);
    telling_place(w, 2);
    tell_versions(w, "123", "000", true);
    telling_tell(w, 2, false, true, 1);
    telling_fold_to(w, 4);
    check_thinned(w, ".");
    assert_loose(w, 0); /* the other resource has them, and 3 is not there */
    assert_missing(w, INT64_MAX - 1, &m, 3);
    telling_keep(w, 3);
    check_thinned(w, "..");
    assert_loose(w, 1);
    m = (struct content_missing){0};
    assert_int_equal(content_missing(w->content, INT64_MAX - 1, &m, NULL),
                     STATUS_NOT_FOUND);
    assert_int_equal(note(w, 1, 0), STATUS_NOT_FOUND);
    assert_int_equal(
        content_is_complete(w->content, 0, 4, &is_complete, &is_lacking, NULL),
        STATUS_OK);
    assert_false(is_complete);
    assert_true(is_lacking);
    assert_complete(w, 2, 4, true);
    telling_forget(w, 2);
    telling_check(w);

    /* Bytes that come late are of an old version at once. */
    telling_tell(w, 1, false, true, 4);
    telling_tell(w, 1, false, true, 5);
    telling_fold_to(w, 6);
    telling_keep(w, 6);
    check_thinned(w, "  .");
    telling_keep(w, 5);
    check_thinned(w, "    .");
}

/* A lower limit holds from the next version on. */
TEST(thins_all_that_a_lower_limit_leaves)
{
    struct telling *w = *state;

    for (unsigned text = 1; text <= 5; text++)
        telling_place(w, text);
    tell_versions(w, "1234", "0000", true);
    fold_db_of(w->content)->versions = 2;
    telling_check(w);
    telling_tell(w, 1, false, true, 5);
    telling_fold_to(w, 5);
    check_thinned(w, "...");
    assert_loose(w, 3);
}

/* A look at all versions applies a lower limit at once, in steps, also to the
 * many versions of one resource. */
TEST(thins_former_versions_step_by_step)
{
    const unsigned n = 1900, last_of_other = 1891;
    struct telling *w = *state;
    struct content_bytes bytes;
    uint64_t after = 0, before = 0;
    unsigned steps = 0;

    telling_place(w, 1);
    for (unsigned i = 0; i < n; i++)
        telling_tell(w, i % 10 ? 1 : 2, false, true, 1);
    telling_fold_to(w, n);
    fold_db_of(w->content)->versions = 1;
    for (; after != UINT64_MAX; steps++) {
        before = after;
        assert_int_equal(content_thin(w->content, &after, NULL), STATUS_OK);
        assert_true(after >= before);
    }
    assert_in_range(steps, 3, 5);
    for (unsigned seq = 1; seq <= n; seq++) {
        assert_int_equal(content_find(w->content, seq, &bytes, NULL),
                         STATUS_OK);
        assert_int_equal(bytes.is_there, seq == n || seq == last_of_other);
    }
    assert_loose(w, 0); /* both have the same bytes */
    assert_int_equal(content_at(w->content)->missing, 0);
}
