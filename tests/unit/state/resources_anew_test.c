/*
 * A state that is thrown away and begun again, whole or not.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sqlite3.h>

#include "broker/state/resources.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"
#include "tests/unit/state/folded.h"

FIXTURE(tempdir_setup, tempdir_teardown);

/* A set of that name that was removed had another epoch. */
TEST(begins_anew_in_another_epoch)
{
    struct folded w;

    folded_open(&w, state, 4, 50, 20);
    folded_to(&w, folded_last(&w));
    resources_close(w.resources);
    assert_int_equal(
        resources_open(&w.resources, w.dir, "fedcba9876543210", NULL), 0);
    assert_int_equal(resources_at(w.resources)->seq, 0);
    folded_check(&w);
    folded_reopen(&w);
    folded_to(&w, folded_last(&w));
    folded_check(&w);
    folded_close(&w);
}

/* Writes `size` bytes of nonsense at `at` into its file. */
static void
damage(void **state, off_t at, size_t size)
{
    int fd = openat(tempdir_fd(state), RESOURCES_FILE, O_WRONLY);
    char *nonsense = malloc(size);

    assert_true(fd >= 0);
    assert_non_null(nonsense);
    memset(nonsense, 0xa5, size);
    assert_int_equal(pwrite(fd, nonsense, size, at), size);
    free(nonsense);
    close(fd);
}

static void
run_sql(void **state, const char *sql)
{
    char path[4096];
    sqlite3 *db;

    snprintf(path, sizeof(path), "%s/" RESOURCES_FILE, tempdir_path(state));
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

/* What is damaged, and what a newer program has made, is made anew of the log:
 * whatever it is that is wrong. */
TEST(begins_anew_what_it_cannot_read)
{
    static const char *const ways[] = {"head", "all", "empty", "newer",
                                       "other"};
    struct folded w;

    folded_open(&w, state, 4, 50, 20);
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        folded_to(&w, folded_last(&w));
        assert_int_equal(resources_keep(w.resources, NULL), STATUS_OK);
        resources_close(w.resources);
        if (!strcmp(ways[i], "head"))
            damage(state, 0, 100);
        else if (!strcmp(ways[i], "all"))
            damage(state, 4096, 3 * 4096);
        else if (!strcmp(ways[i], "empty"))
            assert_int_equal(truncate(strcat(strcpy((char[4096]){0}, w.dir),
                                             "/" RESOURCES_FILE),
                                      0),
                             0);
        else if (!strcmp(ways[i], "newer"))
            run_sql(state, "PRAGMA user_version=99");
        else
            run_sql(state, "DROP TABLE state");
        folded_open_state(&w);
        assert_int_equal(resources_at(w.resources)->seq, 0);
        assert_true(resources_at(w.resources)->is_whole);
        folded_to(&w, folded_last(&w));
        folded_check(&w);
    }
    folded_close(&w);
}

/* The same where the damage shows only later: then it is folded from the
 * beginning again. */
TEST(begins_anew_when_damage_is_found_in_folding)
{
    struct folded w;
    struct stat st;

    folded_open(&w, state, 30, 200, 1000);
    folded_to(&w, w.batches[20]->last);
    assert_int_equal(resources_keep(w.resources, NULL), STATUS_OK);
    resources_close(w.resources);
    assert_int_equal(fstatat(tempdir_fd(state), RESOURCES_FILE, &st, 0), 0);
    assert_in_range(st.st_size, 20 * 4096, 10 << 20);
    damage(state, (off_t)5 * 4096, (size_t)st.st_size - (size_t)5 * 4096);
    folded_open_state(&w);
    assert_int_equal(resources_at(w.resources)->seq, w.batches[20]->last);
    folded_on(&w, w.batches[20]->last, UINT64_MAX);
    assert_int_equal(resources_commit(w.resources, NULL), STATUS_AGAIN);
    assert_int_equal(resources_at(w.resources)->seq, 0);
    folded_to(&w, folded_last(&w));
    folded_check(&w);
    folded_close(&w);
}

/* The same where a reader finds it, of a set that nobody posts to. */
TEST(begins_anew_when_a_reader_has_found_damage)
{
    struct resources_entry e = {.id = 0};
    enum status rc = STATUS_OK;
    struct folded w;
    struct stat st;

    folded_open(&w, state, 30, 200, 1000);
    folded_to(&w, folded_last(&w));
    assert_int_equal(resources_keep(w.resources, NULL), STATUS_OK);
    resources_close(w.resources);
    assert_int_equal(fstatat(tempdir_fd(state), RESOURCES_FILE, &st, 0), 0);
    damage(state, (off_t)5 * 4096, (size_t)st.st_size - (size_t)5 * 4096);
    folded_open_state(&w);
    assert_int_equal(resources_at(w.resources)->seq, folded_last(&w));
    assert_false(resources_is_damaged(w.resources));
    while (!rc)
        rc = resources_next(w.resources, e.id, &e, NULL);
    assert_int_equal(rc, STATUS_IO);
    assert_true(resources_is_damaged(w.resources));
    folded_reopen(&w);
    assert_false(resources_is_damaged(w.resources));
    assert_int_equal(resources_at(w.resources)->seq, 0);
    folded_to(&w, folded_last(&w));
    folded_check(&w);
    folded_close(&w);
}

/* An older copy of the log was put in its place, and went on in another way:
 * the same seqs are other entries. */
TEST(begins_anew_when_the_log_is_another_one)
{
    struct digest digest;
    struct folded w;
    uint64_t after = 0;

    folded_open(&w, state, 6, 50, 20);
    folded_to(&w, w.batches[3]->last);
    folded_reopen(&w);
    digest_start(&digest, SLICE(EPOCH));
    for (size_t i = 0; i < w.n_batches; i++) {
        unsigned n = (unsigned)w.batches[i]->n_entries;

        batch_unref(w.batches[i]);
        w.batches[i] = model_batch(&after, &digest, &w.random, n, 20);
    }
    assert_int_equal(
        resources_fold(w.resources, w.batches[4], w.batches[4]->last, NULL),
        STATUS_AGAIN);
    assert_int_equal(resources_at(w.resources)->seq, 0);
    folded_to(&w, folded_last(&w));
    folded_check(&w);
    folded_close(&w);
}

/* Where the log does not reach back it says that something may be missing. */
TEST(is_not_whole_where_it_begins_later)
{
    struct folded w;

    folded_open(&w, state, 6, 50, 20);
    folded_to(&w, w.batches[1]->last);
    assert_true(resources_at(w.resources)->is_whole);
    assert_int_equal(resources_begin(w.resources, w.batches[2]->last, NULL),
                     STATUS_OK);
    assert_false(resources_at(w.resources)->is_whole);
    assert_int_equal(resources_at(w.resources)->seq, w.batches[2]->last);
    assert_int_equal(resources_at(w.resources)->n, 0);
    folded_to(&w, folded_last(&w));
    assert_int_equal(resources_at(w.resources)->seq, folded_last(&w));
    assert_true(resources_at(w.resources)->n > 0);
    folded_reopen(&w);
    assert_false(resources_at(w.resources)->is_whole);
    assert_int_equal(resources_begin(w.resources, 0, NULL), STATUS_OK);
    assert_true(resources_at(w.resources)->is_whole);
    folded_close(&w);
}

/* What the source has told is in the log up to an entry: so it is whole when it
 * is folded up to there, and not before. */
TEST(is_whole_again_when_all_was_told_and_folded)
{
    struct folded w;
    uint64_t began;

    folded_open(&w, state, 6, 50, 20);
    began = w.batches[2]->last;
    assert_int_equal(resources_begin(w.resources, began, NULL), STATUS_OK);
    assert_int_equal(
        resources_heal(w.resources, began, w.batches[4]->last, NULL),
        STATUS_OK);
    folded_reopen(&w);
    folded_on(&w, began, w.batches[3]->last);
    folded_commit(&w);
    assert_false(resources_at(w.resources)->is_whole);
    folded_reopen(&w);
    folded_on(&w, w.batches[3]->last, w.batches[4]->last);
    folded_commit(&w);
    assert_true(resources_at(w.resources)->is_whole);
    assert_int_equal(resources_at(w.resources)->began, began);
    folded_reopen(&w);
    assert_true(resources_at(w.resources)->is_whole);
    folded_on(&w, w.batches[4]->last, folded_last(&w));
    folded_commit(&w);
    assert_true(resources_at(w.resources)->is_whole);

    /* It is there already. */
    assert_int_equal(resources_begin(w.resources, folded_last(&w), NULL), 0);
    assert_false(resources_at(w.resources)->is_whole);
    assert_int_equal(
        resources_heal(w.resources, folded_last(&w), folded_last(&w), NULL), 0);
    assert_true(resources_at(w.resources)->is_whole);
    folded_close(&w);
}

/* What was compared was another state. */
TEST(is_not_whole_when_it_has_begun_anew_meanwhile)
{
    struct folded w;

    folded_open(&w, state, 4, 50, 20);
    assert_int_equal(resources_begin(w.resources, w.batches[1]->last, NULL), 0);
    assert_int_equal(resources_heal(w.resources, w.batches[0]->last,
                                    w.batches[1]->last, NULL),
                     0);
    assert_false(resources_at(w.resources)->is_whole);

    /* Nor does it remember what it was. */
    assert_int_equal(resources_heal(w.resources, w.batches[1]->last,
                                    w.batches[3]->last, NULL),
                     0);
    assert_int_equal(resources_begin(w.resources, w.batches[2]->last, NULL), 0);
    folded_on(&w, w.batches[2]->last, w.batches[3]->last);
    folded_commit(&w);
    assert_false(resources_at(w.resources)->is_whole);
    folded_close(&w);
}
