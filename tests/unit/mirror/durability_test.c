/*
 * durability_test.c - the files of a mirror survive a power failure.
 */
#include <stdio.h>

#include "client/lib/client.h"
#include "client/mirror/file_commit.h"
#include "client/mirror/mirror.h"
#include "proto/datetime.h"
#include "proto/resourcesync/change.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"
#include "tests/unit/base/syncs.h"

#define LOC "https://h/d/a.txt"

static void
on_out(int64_t id, bool is_removal, void *user)
{
    assert_true(id > 0);
    assert_false(is_removal);
    *(bool *)user = true;
}

/* The file of LOC has come. */
static void
add_file(struct mirror *m, struct file_commit *group)
{
    struct mirror_db_description description = {.loc = slice_of(LOC),
                                                .when_us = 1,
                                                .lastmod_us = DATETIME_NONE,
                                                .length = LENGTH_NONE};
    char position[TD_POSITION_SIZE], name[DOWNLOAD_NAME_MAX];
    struct mirror_db_resource r;
    int64_t set, id;

    assert_true(
        mirror_db_set(&m->db, "http://example.com/sets/a", &set, position));
    assert_true(mirror_db_begin(&m->db));
    assert_true(mirror_db_describe(&m->db, set, &description, &id));
    assert_true(mirror_db_expect(&m->db, id));
    assert_true(mirror_db_commit(&m->db));
    assert_true(mirror_db_get(&m->db, id, &r));
    file_commit_name(name, r.id, r.version);
    tempdir_write(m->dir->incoming_fd, name, "text");
    assert_true(file_commit_add(group, &r, false));
}

FIXTURE(tempdir_setup, tempdir_teardown);

/* file_commit.h: bytes, then name, then the directories. */
TEST(a_file_is_on_the_disk_before_it_is_noted)
{
    struct td_sync_options options = {.user = NULL};
    struct problem why = {.rc = STATUS_OK};
    bool is_out = false;
    struct file_commit *group;
    struct mirror m;
    char dir[300];

    snprintf(dir, sizeof(dir), "%s/m", tempdir_path(state));
    mirror_init(&m, td_open(), &options);
    m.dir = mirror_dir_open(dir, true, &why);
    assert_non_null(m.dir);
    assert_true(mirror_db_open(&m.db, m.dir->state, "mirror.db", &why));
    group = file_commit_new(&m, on_out, &is_out);
    assert_non_null(group);
    add_file(&m, group);
    syncs_begin();

    file_commit_start(group);
    while (!is_out)
        assert_int_equal(handle_loop_service(m.client->loop), STATUS_OK);

    assert_true(syncs_keep_file(tempdir_fd(state), "m/h/d/a.txt"));
    assert_true(syncs_keep_directory(tempdir_fd(state), "m/h"));
    assert_true(syncs_keep_directory(tempdir_fd(state), "m"));
    file_commit_free(group);
    mirror_fini(&m);
    td_close(m.client);
}
