/*
 * file_commit_test.c - files made durable together, while feeds report changes.
 */
#include "client/mirror/file_commit.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "client/lib/client.h"
#include "client/mirror/mirror.h"
#include "proto/datetime.h"
#include "proto/resourcesync/change.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"

/* The mirror is "m" of the directory; nothing follows anybody. */
struct stage {
    struct tempdir home;
    struct td_sync_options options;
    struct mirror m;
    struct file_commit *group;
    struct problem why;
    int64_t set;
    int64_t now_us;
    unsigned n_out;
    unsigned n_removals; /* of these */
    unsigned n_written;
    unsigned n_deleted;
};

static struct stage s;

static void
on_event(const struct td_sync_event *event, void *user)
{
    (void)user;
    s.n_written += event->what == TD_SYNC_WRITTEN;
    s.n_deleted += event->what == TD_SYNC_DELETED;
}

static void
on_out(int64_t id, bool is_removal, void *user)
{
    (void)user;
    assert_true(id > 0);
    s.n_out++;
    s.n_removals += is_removal;
}

static int
set_stage(void **state)
{
    char dir[300];
    char position[TD_POSITION_SIZE];

    (void)state;
    memset(&s, 0, sizeof(s));
    tempdir_open(&s.home);
    snprintf(dir, sizeof(dir), "%s/m", s.home.path);
    s.options = (struct td_sync_options){.on_event = on_event};
    mirror_init(&s.m, td_open(), &s.options);
    s.m.dir = mirror_dir_open(dir, true, &s.why);
    assert_non_null(s.m.dir);
    assert_true(mirror_open_db(&s.m, s.m.dir, "mirror.db", &s.why));
    s.group = file_commit_new(&s.m, on_out, NULL);
    assert_non_null(s.group);
    assert_true(
        mirror_db_set(&s.m.db, "http://example.com/sets/a", &s.set, position));
    return 0;
}

static int
clear_stage(void **state)
{
    (void)state;
    file_commit_free(s.group);
    mirror_fini(&s.m);
    td_close(s.m.client);
    tempdir_close(&s.home);
    return 0;
}

static const char *
path_of(unsigned n)
{
    static char path[64];

    snprintf(path, sizeof(path), "m/h/d%u/%u.txt", n / 100, n);
    return path;
}

/* A feed reports resource `n` as changed or deleted. */
static int64_t
tell_hash(unsigned n, bool is_deleted, const char *hash)
{
    char loc[64];
    struct mirror_db_description t = {.is_deleted = is_deleted,
                                      .when_us = ++s.now_us,
                                      .lastmod_us = DATETIME_NONE,
                                      .hash = slice_of(hash),
                                      .length = LENGTH_NONE};
    int64_t id;

    snprintf(loc, sizeof(loc), "https://h/d%u/%u.txt", n / 100, n);
    t.loc = slice_of(loc);
    assert_true(mirror_db_commit(&s.m.db));
    assert_true(mirror_db_begin(&s.m.db));
    assert_true(mirror_db_describe(&s.m.db, s.set, &t, &id));
    assert_true(mirror_db_commit(&s.m.db));
    return id;
}

static int64_t
tell(unsigned n, bool is_deleted)
{
    return tell_hash(n, is_deleted, "");
}

static struct mirror_db_resource
look(int64_t id)
{
    struct mirror_db_resource r;

    assert_true(mirror_db_get(&s.m.db, id, &r));
    return r;
}

/* The wanted file arrives. */
static void
come(int64_t id, const char *text)
{
    struct mirror_db_resource r = look(id);
    char name[DOWNLOAD_NAME_MAX];

    assert_int_equal(r.todo, MIRROR_DB_FETCH);
    file_commit_name(name, r.id, r.version);
    tempdir_write(s.m.dir->incoming_fd, name, text);
    assert_true(mirror_write(&s.m));
    assert_true(mirror_db_expect(&s.m.db, r.id));
    r = look(id);
    assert_true(file_commit_add(s.group, &r, false));
}

/* The loop turns until that many are out. */
static void
turn(unsigned n_out)
{
    file_commit_start(s.group);
    while (s.n_out < n_out) {
        assert_int_equal(handle_loop_service(s.m.client->loop), STATUS_OK);
        if (s.m.why.rc)
            fail_msg("%s", s.m.why.text);
    }
}

static void
assert_nothing_incoming(void)
{
    struct mirror_db_resource r = {.id = 0};
    char name[DOWNLOAD_NAME_MAX];

    for (r.id = 1; r.id < 4; r.id++)
        for (r.version = 1; r.version < 9; r.version++) {
            file_commit_name(name, r.id, r.version);
            assert_no_file(s.m.dir->incoming_fd, name);
        }
}

FIXTURE(set_stage, clear_stage);

TEST(many_are_put_and_noted_together)
{
    enum { N = 300 };

    char digest[MIRROR_DIR_DIGEST_SIZE];
    int64_t ids[N];

    for (unsigned n = 0; n < N; n++) {
        ids[n] = tell(n, false);
        come(ids[n], "text");
    }
    turn(N);

    assert_int_equal(s.n_written, N);
    assert_int_equal(s.m.db.counts.n_have, N);
    assert_int_equal(s.m.db.counts.n_fetch, 0);
    assert_false(s.m.db.is_writing);
    for (unsigned n = 0; n < N; n++) {
        struct mirror_db_resource r = look(ids[n]);

        assert_file(s.home.fd, path_of(n), "text");
        assert_true(r.is_there);
        assert_int_equal(r.have_mark.size, 4);
        /* The source stated no digest: the database has ours. */
        assert_true(
            mirror_dir_digest(s.m.dir, path_of(n) + 2, NULL, NULL, digest));
        assert_true(slice_is(r.have_hash, digest));
    }
    assert_nothing_incoming();
}

TEST(what_was_overtaken_before_it_has_a_name_is_dropped)
{
    int64_t a = tell(1, false);
    int64_t b = tell(2, false);

    come(a, "old");
    come(b, "unwanted");
    tell(1, false);
    tell(2, true);
    turn(3); /* the group removes a partial file of the second */

    assert_int_equal(s.n_written, 0);
    assert_no_file(s.home.fd, path_of(1));
    assert_no_file(s.home.fd, path_of(2));
    assert_int_equal(look(a).todo, MIRROR_DB_FETCH);
    assert_false(look(a).is_there);
    assert_nothing_incoming();

    come(a, "new");
    turn(4);
    assert_file(s.home.fd, path_of(1), "new");
    assert_int_equal(look(a).todo, MIRROR_DB_NOTHING);
}

/* Turns until the file has its name; the database may not know yet. */
static void
turn_to_the_name(unsigned n)
{
    file_commit_start(s.group);
    while (faccessat(s.home.fd, path_of(n), F_OK, 0))
        assert_int_equal(handle_loop_service(s.m.client->loop), STATUS_OK);
    assert_int_equal(s.n_out, 0);
}

TEST(what_is_overtaken_after_it_has_a_name_is_noted_as_what_it_is)
{
    int64_t a = tell(1, false);
    int64_t version = look(a).version;

    come(a, "old");
    turn_to_the_name(1);
    tell(1, false);
    assert_true(look(a).version > version);
    turn(1);

    assert_true(look(a).is_there);
    assert_int_equal(look(a).have_version, version);
    assert_int_equal(look(a).todo, MIRROR_DB_FETCH);
    come(a, "new");
    turn(2);
    assert_file(s.home.fd, path_of(1), "new");
    assert_int_equal(look(a).todo, MIRROR_DB_NOTHING);
}

TEST(what_is_deleted_after_it_has_a_name_is_removed_and_forgotten)
{
    int64_t a = tell(1, false);

    come(a, "old");
    turn_to_the_name(1);
    tell(1, true);
    turn(1);
    assert_int_equal(look(a).todo, MIRROR_DB_REMOVE);

    turn(2);
    assert_no_file(s.home.fd, path_of(1));
    assert_no_file(s.home.fd, "m/h");
    assert_int_equal(look(a).id, 0);
    assert_int_equal(s.n_deleted, 1);
    assert_int_equal(s.m.db.counts.n_have, 0);
}

/* It comes back before its removal is noted, with the same digest: the file is
 * not there, and nobody takes it for that at any moment. */
TEST(what_is_wanted_again_while_it_is_removed_is_fetched)
{
    const char *md5 = "md5:149603e6c03516362a8da23f624db945"; /* of "old" */
    int64_t a = tell_hash(1, false, md5);

    come(a, "old");
    turn(1);
    tell(1, true);
    file_commit_start(s.group); /* with no files, so the removal is immediate */
    assert_no_file(s.home.fd, path_of(1));
    assert_int_equal(s.n_out, 1);
    tell_hash(1, false, md5);
    assert_int_equal(look(a).todo, MIRROR_DB_FETCH);
    come(a, "old"); /* it waits for the next group */
    turn(2);

    assert_int_equal(s.n_removals, 1); /* which ends no wait */
    assert_false(look(a).is_there);
    assert_int_equal(look(a).todo, MIRROR_DB_FETCH);
    turn(3);
    assert_int_equal(s.n_removals, 1);
    assert_file(s.home.fd, path_of(1), "old");
}

TEST(what_is_at_its_path_already_is_noted_unless_it_is_gone_by_then)
{
    int64_t a = tell(1, false);
    int64_t b = tell(2, false);
    struct mirror_db_resource r;

    come(a, "old");
    turn(1);
    assert_true(mirror_write(&s.m));
    assert_true(mirror_db_note_loss(&s.m.db, a));
    assert_true(mirror_db_expect(&s.m.db, b));
    tempdir_write(s.home.fd, path_of(2), "also");
    r = look(a);
    assert_true(file_commit_add(s.group, &r, true));
    r = look(b);
    assert_true(file_commit_add(s.group, &r, true));
    assert_int_equal(unlinkat(s.home.fd, path_of(2), 0), 0);
    turn(3);

    assert_true(look(a).is_there);
    assert_int_equal(look(a).todo, MIRROR_DB_NOTHING);
    assert_false(look(b).is_there);
    assert_int_equal(look(b).todo, MIRROR_DB_FETCH);
}

TEST(finishing_waits_for_all_that_was_added)
{
    int64_t ids[20];

    for (unsigned n = 0; n < 20; n++) {
        ids[n] = tell(n, false);
        come(ids[n], "text");
        if (n == 9)
            file_commit_start(s.group);
    }
    assert_true(file_commit_finish(s.group));
    assert_int_equal(s.n_out, 20);
    for (unsigned n = 0; n < 20; n++) {
        assert_file(s.home.fd, path_of(n), "text");
        assert_true(look(ids[n]).is_there);
    }
    /* Nothing is called back for it later. */
    assert_int_equal(handle_loop_service(s.m.client->loop), STATUS_OK);
    assert_int_equal(s.n_out, 20);
}

/* The run ends between names and database, and the source goes back to what was
 * there before. */
TEST(what_replaced_a_file_and_was_not_noted_is_not_taken_for_it)
{
    char digest[MIRROR_DIR_DIGEST_SIZE];
    struct mirror_dir_mark mark;
    int64_t a = tell(1, false);

    come(a, "old");
    turn(1);
    assert_true(mirror_dir_digest(s.m.dir, path_of(1) + 2, NULL, NULL, digest));
    tell(1, false);
    come(a, "other");
    file_commit_start(s.group);
    do {
        assert_int_equal(handle_loop_service(s.m.client->loop), STATUS_OK);
        assert_int_equal(mirror_dir_look(s.m.dir, path_of(1) + 2, &mark),
                         MIRROR_DIR_FILE);
    } while (mark.size != 5);
    assert_int_equal(s.n_out, 1);
    file_commit_free(s.group);
    mirror_db_close(&s.m.db);
    assert_true(mirror_open_db(&s.m, s.m.dir, "mirror.db", &s.why));
    s.group = file_commit_new(&s.m, on_out, NULL);
    assert_non_null(s.group);

    assert_int_equal(tell_hash(1, false, digest), a);
    assert_int_equal(look(a).todo, MIRROR_DB_FETCH);
    assert_int_equal(s.m.db.counts.n_have, 1);
    come(a, "old");
    turn(2);
    assert_file(s.home.fd, path_of(1), "old");
    assert_int_equal(look(a).todo, MIRROR_DB_NOTHING);
}

/* Freeing the group at any moment leaves no thread at work and no note in the
 * database. */
TEST(is_freed_at_any_moment)
{
    int64_t ids[50];

    for (unsigned n = 0; n < 50; n++) {
        ids[n] = tell(n, false);
        come(ids[n], "text");
    }
    file_commit_start(s.group);
    file_commit_free(s.group);
    s.group = NULL;
    assert_int_equal(handle_loop_service(s.m.client->loop), STATUS_OK);
    for (unsigned n = 0; n < 50; n++)
        assert_false(look(ids[n]).is_there);
    assert_int_equal(s.n_out, 0);
}
