/*
 * content_anew_test.c - content that is thrown away and begun again.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/db.h"
#include "broker/state/content.h"
#include "tests/support/fold_dbs.h"
#include "tests/support/model.h"
#include "tests/support/telling.h"
#include "tests/test.h"

FIXTURE(telling_setup, telling_teardown);

/* Facts about a removed set of that name do not count for this one; but bytes
 * are bytes: an entry has its file if the folder has the bytes. */
TEST(another_epoch_begins_anew)
{
    struct telling *w = *state;

    telling_place(w, 1);
    telling_tell(w, 1, false, true, 1);
    telling_fold_to(w, 1);
    telling_end(w);
    assert_int_equal(
        content_open(&w->content, w->dir, "fedcba9876543210", NULL), STATUS_OK);
    assert_int_equal(content_at(w->content)->seq, 0);
    assert_int_equal(content_at(w->content)->files, 0);
    w->folded = 0;
    telling_fold_to(w, 1);
    telling_check(w);
}

static void
write_at(const char *dir, const char *name, off_t at, const char *text)
{
    char path[400];
    int fd;

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    fd = open(path, O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, text, strlen(text), at), (ssize_t)strlen(text));
    close(fd);
}

static void
make_newer(const char *dir)
{
    struct db db;
    char path[400];

    snprintf(path, sizeof(path), "%s/" CONTENT_FILE, dir);
    assert_int_equal(db_open(&db, path, DB_SMALL, NULL), STATUS_OK);
    assert_int_equal(db_exec(&db, "PRAGMA user_version=99", NULL), STATUS_OK);
    db_close(&db);
}

/* A damaged file, or a newer program's, is folded again. */
TEST(a_file_that_cannot_be_read_begins_anew)
{
    struct telling *w = *state;

    telling_place(w, 1);
    telling_tell(w, 1, false, true, 1);
    telling_fold_to(w, 1);
    telling_end(w);
    write_at(w->dir, CONTENT_FILE, 0, "this is no database, not at all");
    telling_begin(w);
    telling_begin_anew(w);
    telling_fold_to(w, 1);
    telling_check(w);

    telling_end(w);
    make_newer(w->dir);
    telling_begin(w);
    assert_int_equal(content_at(w->content)->seq, 0);
}

static void
damage_rows(const char *dir)
{
    static const char nonsense[4096] = "nonsense";
    char path[400];
    struct db db;
    struct stat st;
    int fd;

    snprintf(path, sizeof(path), "%s/" CONTENT_FILE, dir);
    assert_int_equal(db_open(&db, path, DB_SMALL, NULL), STATUS_OK);
    assert_int_equal(sqlite3_wal_checkpoint_v2(db.handle, NULL,
                                               SQLITE_CHECKPOINT_TRUNCATE, NULL,
                                               NULL),
                     SQLITE_OK);
    db_close(&db);
    fd = open(path, O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &st), 0);
    assert_true(st.st_size > (off_t)50 * 4096);
    for (off_t at = (off_t)40 * 4096; at < st.st_size; at += 4096)
        assert_int_equal(pwrite(fd, nonsense, sizeof(nonsense), at), 4096);
    close(fd);
}

/* The same if a reader finds the damage while no change arrives. */
TEST(damage_that_a_reader_finds_begins_anew)
{
    struct content_missing m = {0};
    struct telling *w = *state;
    enum status rc = STATUS_OK;

    for (unsigned i = 0; i < 1000; i++)
        telling_tell(w, i % TELLING_RESOURCES, false, true,
                     2 + i % (TELLING_TEXTS - 2));
    telling_fold_to(w, 1000);
    telling_end(w);
    damage_rows(w->dir);
    telling_begin(w);
    assert_int_equal(content_at(w->content)->seq, 1000);
    while (!rc)
        rc = content_missing(w->content, INT64_MAX - 1, &m, NULL);
    assert_int_equal(rc, STATUS_IO);
    assert_true(fold_db_has_failed(fold_db_of(w->content)));
    telling_reopen(w);
    assert_false(fold_db_has_failed(fold_db_of(w->content)));
    telling_begin_anew(w);
    telling_fold_to(w, 1000);
    telling_check(w);
}

/* An older copy of the log was put in its place, and went other ways. */
TEST(another_log_begins_anew)
{
    struct problem why = {""};
    struct telling *w = *state;
    struct batch *other;
    struct digest digest;

    telling_tell(w, 1, false, true, 1);
    telling_tell(w, 2, false, true, 2);
    telling_fold_to(w, 2);
    telling_reopen(w);
    other = w->batch;
    digest_sha256(&digest, SLICE(TELLING_EPOCH));
    w->batch = batch_new(0, MODEL_TIME(0), &digest, NULL);
    telling_add_change(w, 7, CHANGE_CREATED, NULL, LENGTH_NONE);
    telling_add_change(w, 8, CHANGE_CREATED, NULL, LENGTH_NONE);
    telling_add_change(w, 9, CHANGE_CREATED, NULL, LENGTH_NONE);
    assert_int_equal(fold_db_add(fold_db_of(w->content), w->batch, 3, &why),
                     STATUS_AGAIN);
    assert_int_equal(content_at(w->content)->seq, 0);
    batch_unref(other);
}
