/*
 * mirror_test.c - `tidings sync` killed at each of its writes, syncs and
 * renames, and without room on the disk: the next one makes the mirror what the
 * source is.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sqlite3.h>

#include "tests/support/faults.h"
#include "tests/support/mirrored.h"
#include "tests/test.h"

/* Round `n`: some are updated, some deleted, some there again. */
static void
turn_source(struct mirrored *m, unsigned n)
{
    char text[32];
    char path[32];

    for (unsigned i = 0; i < 6; i++) {
        snprintf(path, sizeof(path), "/d%u/%u.txt", i / 2, i);
        snprintf(text, sizeof(text), "%u in round %u", i, n);
        mirrored_change(m, path, (n + i) % 3 ? text : NULL);
    }
    mirrored_post(m);
}

static void
kill_at_each(struct mirrored *m, int calls, const char *name)
{
    struct faults f;
    unsigned n = 0;
    int n_met;

    do {
        turn_source(m, n);
        faults_open(&f);
        faults_arm_once(&f, calls, name, (int)n, PLAN_KILL);
        mirrored_sync(m, NULL);
        n_met = faults_disarm(&f);
        faults_close(&f);
        if (mirrored_sync(m, NULL))
            fail_msg("after a kill at call %u of %s: %s", n, name,
                     m->command.err_text);
        mirrored_assert_same(m);
        assert_int_equal(mirrored_audit(m, NULL), 0);
        n++;
    } while (n_met > 0);
    assert_true(n > 2);
}

FIXTURE(mirrored_setup, mirrored_teardown);

TEST(survives_a_kill_at_each_write_of_its_state)
{
    kill_at_each(*state, PLAN_WRITE, "mirror.db-wal");
}

TEST(survives_a_kill_at_each_sync)
{
    kill_at_each(*state, PLAN_SYNC, "/m");
}

TEST(survives_a_kill_at_each_rename)
{
    kill_at_each(*state, PLAN_RENAME, ".txt");
}

TEST(survives_a_kill_at_each_write_of_a_file)
{
    kill_at_each(*state, PLAN_WRITE, "/incoming/");
}

/* Kills a sync before the file of /a.txt has its name, and tells where it is
 * then. */
static void
kill_at_its_name(struct mirrored *m, char *incoming, size_t size)
{
    struct dirent *entry;
    struct faults f;
    DIR *dir;

    mirrored_change(m, "/a.txt", "whole");
    mirrored_post(m);
    faults_open(&f);
    faults_arm_once(&f, PLAN_RENAME, ".txt", 0, PLAN_KILL);
    mirrored_sync(m, NULL);
    assert_int_equal(faults_disarm(&f), 1);
    faults_close(&f);
    snprintf(incoming, size, "%s/.tidings/incoming", m->dir);
    dir = opendir(incoming);
    assert_non_null(dir);
    while ((entry = readdir(dir)))
        if (entry->d_name[0] != '.')
            snprintf(incoming, size, "%s/.tidings/incoming/%s", m->dir,
                     entry->d_name);
    closedir(dir);
    assert_int_equal(site_count(m->site, "/a.txt"), 1);
}

TEST(what_came_whole_before_a_kill_is_not_fetched_again)
{
    struct mirrored *m = *state;
    char incoming[600];

    kill_at_its_name(m, incoming, sizeof(incoming));
    assert_int_equal(mirrored_sync(m, NULL), 0);
    mirrored_assert_same(m);
    assert_int_equal(site_count(m->site, "/a.txt"), 1);
}

/* As a power cut may leave it. */
TEST(what_came_whole_and_was_damaged_since_is_fetched_again)
{
    struct mirrored *m = *state;
    char incoming[600];
    FILE *file;

    kill_at_its_name(m, incoming, sizeof(incoming));
    file = fopen(incoming, "r+");
    assert_non_null(file);
    assert_int_equal(fwrite("\0\0\0", 1, 3, file), 3);
    fclose(file);
    assert_int_equal(mirrored_sync(m, NULL), 0);
    mirrored_assert_same(m);
    assert_int_equal(site_count(m->site, "/a.txt"), 2);
}

static void
fill_disk(struct mirrored *m, int calls, const char *name)
{
    struct faults f;

    turn_source(m, 0);
    assert_int_equal(mirrored_sync(m, NULL), 0);
    turn_source(m, 1);
    faults_open(&f);
    faults_arm(&f, calls, name, 0, ENOSPC);
    assert_int_equal(mirrored_sync(m, NULL), 1);
    assert_true(faults_disarm(&f) > 0);
    faults_close(&f);
    if (!strstr(m->command.err_text, "No space") &&
        !strstr(m->command.err_text, "full") &&
        !strstr(m->command.err_text, "room"))
        fail_msg("it said: %s", m->command.err_text);
    assert_int_equal(mirrored_sync(m, NULL), 0);
    mirrored_assert_same(m);
}

/* All is kept, and it says what is wrong. */
TEST(ends_where_there_is_no_room_for_a_file)
{
    fill_disk(*state, PLAN_WRITE, "/incoming/");
}

TEST(ends_where_there_is_no_room_for_its_state)
{
    fill_disk(*state, PLAN_WRITE, "mirror.db");
}

TEST(ends_where_a_file_cannot_be_put)
{
    fill_disk(*state, PLAN_RENAME, ".txt");
}

/* How many files the book tells of. */
static int
count_noted(struct mirrored *m)
{
    char path[400];
    sqlite3 *db = NULL;
    sqlite3_stmt *count = NULL;
    int n;

    snprintf(path, sizeof(path), "%s/.tidings/mirror.db", m->dir);
    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL),
                     SQLITE_OK);
    assert_int_equal(
        sqlite3_prepare_v2(db, "SELECT count(*) FROM resources WHERE have", -1,
                           &count, NULL),
        SQLITE_OK);
    assert_int_equal(sqlite3_step(count), SQLITE_ROW);
    n = sqlite3_column_int(count, 0);
    sqlite3_finalize(count);
    sqlite3_close(db);
    return n;
}

/* The syncs of what has `name` in its path fail while the first files come.
 * What nobody knows to be on the disk is not noted; and has it a name? */
static void
fail_sync(struct mirrored *m, const char *name, bool has_name)
{
    struct faults f;

    mirrored_change(m, "/first.txt", "first");
    mirrored_post(m);
    assert_int_equal(mirrored_sync(m, NULL), 0);
    assert_int_equal(count_noted(m), 1);

    mirrored_change(m, "/d/new.txt", "new");
    mirrored_post(m);
    faults_open(&f);
    faults_arm(&f, PLAN_SYNC, name, 0, EIO);
    assert_int_equal(mirrored_sync(m, NULL), 1);
    assert_true(faults_disarm(&f) > 0);
    faults_close(&f);
    assert_non_null(strstr(m->command.err_text, strerror(EIO)));
    assert_int_equal(count_noted(m), 1);
    assert_int_equal(!access(mirrored_file(m, "/d/new.txt"), F_OK), has_name);

    assert_int_equal(mirrored_sync(m, NULL), 0);
    assert_int_equal(count_noted(m), 2);
    mirrored_assert_same(m);
}

TEST(a_file_has_no_name_before_its_bytes_are_on_the_disk)
{
    fail_sync(*state, "/incoming/", false);
}

TEST(the_book_tells_of_no_file_before_its_directory_is_on_the_disk)
{
    fail_sync(*state, "/m/127.0.0.1", true);
}

/* Nor before those above it: they are new as well. */
TEST(the_book_tells_of_no_file_before_all_above_it_is_on_the_disk)
{
    fail_sync(*state, "/d", true);
}

/* Of a removal, too. */
TEST(the_book_forgets_no_file_before_its_directory_is_on_the_disk)
{
    struct mirrored *m = *state;
    struct faults f;

    mirrored_change(m, "/d/a.txt", "a");
    mirrored_change(m, "/d/b.txt", "b");
    mirrored_post(m);
    assert_int_equal(mirrored_sync(m, NULL), 0);
    mirrored_change(m, "/d/a.txt", NULL);
    mirrored_post(m);
    faults_open(&f);
    faults_arm(&f, PLAN_SYNC, "/d", 0, EIO);
    assert_int_equal(mirrored_sync(m, NULL), 1);
    assert_true(faults_disarm(&f) > 0);
    faults_close(&f);
    assert_int_equal(count_noted(m), 2);

    assert_int_equal(mirrored_sync(m, NULL), 0);
    assert_int_equal(count_noted(m), 1);
    mirrored_assert_same(m);
}
