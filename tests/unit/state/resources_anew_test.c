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
#include "tests/support/fold_dbs.h"
#include "tests/test.h"
#include "tests/unit/state/folded.h"

FIXTURE(folded_setup, folded_teardown);

/* A removed set of that name had another epoch. */
TEST(begins_anew_in_another_epoch)
{
    struct folded *w = *state;

    folded_open(w, 4, 50, 20);
    folded_to(w, folded_last(w));
    folded_close_state(w);
    assert_int_equal(
        resources_open(&w->resources, w->dir.path, "fedcba9876543210", NULL),
        0);
    assert_int_equal(resources_at(w->resources)->seq, 0);
    folded_check(w);
    folded_reopen(w);
    folded_check_all(w);
}

/* It was folded up to the end of batch `i`, made firm, and closed. */
static void
close_at(struct folded *w, size_t i)
{
    folded_to_batch(w, i);
    assert_int_equal(resources_keep(w->resources, NULL), STATUS_OK);
    folded_close_state(w);
}

/* It is empty, and becomes what it should be. */
static void
assert_begins_anew(struct folded *w)
{
    assert_int_equal(resources_at(w->resources)->seq, 0);
    assert_true(resources_at(w->resources)->is_whole);
    folded_check_all(w);
}

/* Writes `size` bytes of nonsense at `at` into its file. */
static void
damage(struct folded *w, off_t at, size_t size)
{
    int fd = openat(w->dir.fd, RESOURCES_FILE, O_WRONLY);
    char *nonsense = malloc(size);

    assert_true(fd >= 0);
    assert_non_null(nonsense);
    memset(nonsense, 0xa5, size);
    assert_int_equal(pwrite(fd, nonsense, size, at), size);
    free(nonsense);
    close(fd);
}

/* All but the first five pages, which a start reads. */
static void
damage_rows(struct folded *w)
{
    struct stat st;

    assert_int_equal(fstatat(w->dir.fd, RESOURCES_FILE, &st, 0), 0);
    assert_in_range(st.st_size, 20 * 4096, 10 << 20);
    damage(w, (off_t)5 * 4096, (size_t)st.st_size - (size_t)5 * 4096);
}

static void
run_sql(struct folded *w, const char *sql)
{
    char path[4096];
    sqlite3 *db;

    snprintf(path, sizeof(path), "%s/" RESOURCES_FILE, w->dir.path);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

/* The state folds a damaged file, or a newer program's, anew from the log. */
TEST(begins_anew_what_it_cannot_read)
{
    static const struct {
        const char *name, *sql;
        off_t at;
        size_t size; /* of the damage; 0: nothing is left of the file */
    } rows[] = {
        {"a damaged head", NULL, 0, 100},
        {"all is damaged", NULL, 4096, 3 * 4096},
        {"an empty file", NULL, 0, 0},
        {"a newer program's", "PRAGMA user_version=99", 0, 0},
        {"another program's", "DROP TABLE state", 0, 0},
    };
    struct folded *w = *state;

    folded_open(w, 4, 50, 20);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        print_message("%s\n", rows[i].name);
        close_at(w, 3);
        if (rows[i].sql)
            run_sql(w, rows[i].sql);
        else if (rows[i].size)
            damage(w, rows[i].at, rows[i].size);
        else
            tempdir_write(w->dir.fd, RESOURCES_FILE, "");
        folded_open_state(w);
        assert_begins_anew(w);
    }
}

/* The same where the damage shows only later: then it is folded from the
 * beginning again. */
TEST(begins_anew_when_damage_is_found_in_folding)
{
    struct folded *w = *state;
    uint64_t last;

    folded_open(w, 30, 200, 1000);
    last = w->batches[20]->last;
    close_at(w, 20);
    damage_rows(w);
    folded_open_state(w);
    assert_int_equal(resources_at(w->resources)->seq, last);
    folded_on(w, last, UINT64_MAX);
    assert_int_equal(fold_db_commit(fold_db_of(w->resources), NULL),
                     STATUS_AGAIN);
    assert_begins_anew(w);
}

/* The same if a reader finds it, in a set without posts. */
TEST(begins_anew_when_a_reader_has_found_damage)
{
    struct resources_entry e = {.id = 0};
    struct folded *w = *state;
    enum status rc = STATUS_OK;

    folded_open(w, 30, 200, 1000);
    close_at(w, 29);
    damage_rows(w);
    folded_open_state(w);
    assert_int_equal(resources_at(w->resources)->seq, folded_last(w));
    assert_false(fold_db_has_failed(fold_db_of(w->resources)));
    while (!rc)
        rc = resources_next(w->resources, e.id, &e, NULL);
    assert_int_equal(rc, STATUS_IO);
    assert_true(fold_db_has_failed(fold_db_of(w->resources)));
    folded_reopen(w);
    assert_false(fold_db_has_failed(fold_db_of(w->resources)));
    assert_begins_anew(w);
}

/* An older copy of the log was put in its place, and went on in another way:
 * the same seqs are other entries. */
TEST(begins_anew_when_the_log_is_another_one)
{
    struct digest digest;
    struct folded *w = *state;
    uint64_t after = 0;

    folded_open(w, 6, 50, 20);
    folded_to_batch(w, 3);
    folded_reopen(w);
    digest_sha256(&digest, SLICE(EPOCH));
    for (size_t i = 0; i < w->n_batches; i++) {
        unsigned n = (unsigned)w->batches[i]->n_entries;

        batch_unref(w->batches[i]);
        w->batches[i] = model_batch(&after, &digest, &w->random, n, 20);
    }
    assert_int_equal(fold_db_add(fold_db_of(w->resources), w->batches[4],
                                 w->batches[4]->last, NULL),
                     STATUS_AGAIN);
    assert_begins_anew(w);
}

static void
begin_behind(struct folded *w, uint64_t seq)
{
    assert_int_equal(fold_db_begin(fold_db_of(w->resources), seq, NULL),
                     STATUS_OK);
}

static void
heal(struct folded *w, uint64_t began, uint64_t until)
{
    assert_int_equal(resources_heal(w->resources, began, until, NULL),
                     STATUS_OK);
}

/* Folds what is behind entry `after`, up to `last`. */
static void
fold_between(struct folded *w, uint64_t after, uint64_t last)
{
    folded_on(w, after, last);
    folded_commit(w);
}

static void
assert_whole(struct folded *w, bool should)
{
    assert_int_equal(resources_at(w->resources)->is_whole, should);
}

/* Where the log does not reach back it says that something may be missing. */
TEST(is_not_whole_where_it_begins_later)
{
    struct folded *w = *state;

    folded_open(w, 6, 50, 20);
    folded_to_batch(w, 1);
    assert_whole(w, true);
    begin_behind(w, w->batches[2]->last);
    assert_whole(w, false);
    assert_int_equal(resources_at(w->resources)->seq, w->batches[2]->last);
    assert_int_equal(resources_at(w->resources)->n, 0);
    folded_to(w, folded_last(w));
    assert_int_equal(resources_at(w->resources)->seq, folded_last(w));
    assert_true(resources_at(w->resources)->n > 0);
    folded_reopen(w);
    assert_whole(w, false);
    begin_behind(w, 0);
    assert_whole(w, true);
}

/* The log has all that the source has stated, up to an entry: so the state is
 * whole when it is folded up to there, and not before. */
TEST(is_whole_again_when_all_was_told_and_folded)
{
    struct folded *w = *state;
    uint64_t lasts[6];

    folded_open(w, 6, 50, 20);
    for (int i = 0; i < 6; i++)
        lasts[i] = w->batches[i]->last;
    begin_behind(w, lasts[2]);
    heal(w, lasts[2], lasts[4]);
    folded_reopen(w);
    fold_between(w, lasts[2], lasts[3]);
    assert_whole(w, false);
    folded_reopen(w);
    fold_between(w, lasts[3], lasts[4]);
    assert_whole(w, true);
    assert_int_equal(resources_at(w->resources)->began, lasts[2]);
    folded_reopen(w);
    assert_whole(w, true);
    fold_between(w, lasts[4], lasts[5]);
    assert_whole(w, true);

    /* It is there already. */
    begin_behind(w, lasts[5]);
    assert_whole(w, false);
    heal(w, lasts[5], lasts[5]);
    assert_whole(w, true);
}

/* The comparison was with another state. */
TEST(is_not_whole_when_it_has_begun_anew_meanwhile)
{
    struct folded *w = *state;

    folded_open(w, 4, 50, 20);
    begin_behind(w, w->batches[1]->last);
    heal(w, w->batches[0]->last, w->batches[1]->last);
    assert_whole(w, false);

    /* Nor does it remember its earlier state. */
    heal(w, w->batches[1]->last, w->batches[3]->last);
    begin_behind(w, w->batches[2]->last);
    fold_between(w, w->batches[2]->last, w->batches[3]->last);
    assert_whole(w, false);
}
