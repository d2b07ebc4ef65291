/*
 * tar_body_test.c - archives of files that the broker sends.
 */
#include "broker/backup/tar_body.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/tempdir.h"
#include "tests/test.h"

#define GIGABYTE ((int64_t)1 << 30)

/* Makes a sparse file. */
static void
make_file(const struct tempdir *dir, const char *name, int64_t size)
{
    char path[PATH_MAX];
    int fd;

    snprintf(path, sizeof(path), "%s/%s", dir->path, name);
    fd = open(path, O_CREAT | O_WRONLY, 0600);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, size), 0);
    close(fd);
}

static void
note_end(bool is_whole, void *user)
{
    int *ended = user;

    *ended = is_whole ? 2 : 1;
}

/* Reads all of the body; returns its bytes. */
static uint64_t
read_all(struct body *body)
{
    struct slice piece;
    uint64_t n = 0;

    assert_int_equal(body->next(body, false, &piece), BODY_WAITS);
    while (body->next(body, true, &piece) == BODY_DATA)
        n += piece.size;
    return n;
}

TEST(an_archive_has_the_size_that_it_announces)
{
    static const int64_t sizes[] = {0, 1, 511, 512, 513, 100000};
    struct tempdir dir;
    struct tar_list list;
    struct body *body;
    int ended = 0;
    char name[300];

    tempdir_open(&dir);
    tar_list_init(&list, dir.path);
    for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        memset(name, 'a', sizeof(name));
        snprintf(name + 40 * i, 10, "%u", i); /* long names, too */
        make_file(&dir, name, sizes[i]);
        assert_int_equal(tar_list_add(&list, name, NULL), STATUS_OK);
    }
    body = tar_body_new(&list, note_end, &ended);
    assert_non_null(body);
    assert_int_equal(read_all(body), list.bytes);
    assert_int_equal(body->size, list.bytes);
    assert_int_equal(list.bytes % 512, 0);
    body->free(body);
    assert_int_equal(ended, 2);
    tar_list_fini(&list);
    tempdir_close(&dir);
}

TEST(a_file_may_have_more_than_8_gb)
{
    struct tempdir dir;
    struct tar_list list;
    struct slice piece;
    struct body *body;
    int ended = 0;

    tempdir_open(&dir);
    make_file(&dir, "a", 9 * GIGABYTE);
    tar_list_init(&list, dir.path);
    assert_int_equal(tar_list_add(&list, "a", NULL), STATUS_OK);
    body = tar_body_new(&list, note_end, &ended);
    assert_non_null(body);
    assert_int_equal(body->next(body, true, &piece), BODY_DATA);
    assert_int_equal(list.bytes, piece.size + 9 * GIGABYTE + 1024);
    assert_non_null(memmem(piece.data, piece.size, " size=9663676416\n", 17));
    body->free(body);
    assert_int_equal(ended, 1);
    tar_list_fini(&list);
    tempdir_close(&dir);
}

/* The answer is cut off, rather than wrong. */
TEST(a_file_that_changes_ends_the_body)
{
    struct tempdir dir;
    struct tar_list list;
    struct body *body;
    int ended = 0;

    tempdir_open(&dir);
    make_file(&dir, "a", 100);
    tar_list_init(&list, dir.path);
    assert_int_equal(tar_list_add(&list, "a", NULL), STATUS_OK);
    make_file(&dir, "a", 99);
    body = tar_body_new(&list, note_end, &ended);
    assert_non_null(body);
    assert_int_equal(read_all(body), 0);
    body->free(body);
    assert_int_equal(ended, 1);
    tar_list_fini(&list);
    tempdir_close(&dir);
}
