/*
 * backup_test.c - files that change their names while a backup copies them. The
 * rest is in tests/e2e/backup_test.py.
 */
#include "broker/backup/backup.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/db.h"
#include "broker/store/store.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"

/* The upload of a data directory, and what becomes of it between the backup's
 * look at the folder and its copy. */
struct upload {
    char path[700];  /* "": nothing is to happen any more */
    char later[700]; /* its new name; "": it is deleted */
};

static bool
move_upload(void *user)
{
    struct upload *u = user;

    if (u->path[0] && u->later[0])
        assert_int_equal(rename(u->path, u->later), 0);
    else if (u->path[0])
        assert_int_equal(unlink(u->path), 0);
    u->path[0] = '\0';
    return false;
}

static void
make_data(const char *dir, const char *upload)
{
    struct engine *engine;
    atomic_size_t forms;
    struct problem why = {""};
    sqlite3 *db;

    atomic_init(&forms, 0);
    if (store_open(&engine, dir, &forms, &why))
        fail_msg("%s", why.text);
    engine->ops->close(engine);
    assert_int_equal(sqlite3_open(upload, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "CREATE TABLE t (x)", NULL, NULL, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

TEST(an_upload_that_ends_meanwhile_is_not_missing)
{
    static const struct {
        const char *name, *later;
        bool is_copied;
    } rows[] = {
        {"a.whole", "a.taken", true},
        {"a.whole", NULL, false},
        {"a.taken", NULL, false},
    };

    for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
        struct tempdir dir;
        struct upload upload = {""};
        struct problem why = {""};
        char data[500], copies[500], at[600];
        struct backup_job job = {.data = data,
                                 .dir = copies,
                                 .is_stopped = move_upload,
                                 .user = &upload};

        tempdir_open(&dir);
        snprintf(data, sizeof(data), "%s/data", dir.path);
        snprintf(copies, sizeof(copies), "%s/copies", dir.path);
        snprintf(at, sizeof(at), "%s/uploads", data);
        assert_int_equal(mkdir(data, 0700), 0);
        assert_int_equal(mkdir(at, 0700), 0);
        snprintf(upload.path, sizeof(upload.path), "%s/%s", at, rows[i].name);
        if (rows[i].later)
            snprintf(upload.later, sizeof(upload.later), "%s/%s", at,
                     rows[i].later);
        make_data(data, upload.path);
        if (backup_make(&job, &why))
            fail_msg("%s", why.text);
        assert_int_equal(job.n_missing, 0);
        snprintf(at, sizeof(at), "%s/000001/uploads/a.taken", copies);
        assert_int_equal(!access(at, F_OK), rows[i].is_copied);
        tempdir_close(&dir);
    }
}
