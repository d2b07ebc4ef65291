/*
 * zfile_test.c - a gzip file for everybody, from any byte on, that proves
 * itself.
 */
#include "broker/builds/zfile.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <zlib.h>

#include "proto/buf.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"

/* Lines of digits until there are `size` bytes; the same each time. */
static void
make_lines(struct buf *to, size_t size)
{
    buf_init(to, 2 * size + 4096);
    for (unsigned i = 0; to->size < size; i++)
        buf_add_format(to, "%u %u %u\n", i, i * 2654435761u, i % 7);
    assert_false(to->failed);
}

/* Writes `plain` in pieces of up to 1,000 bytes. */
static struct zfile
write_file(int dir_fd, struct slice plain)
{
    struct zfile_writer *writer;
    struct zfile zfile;

    assert_int_equal(zfile_begin(&writer, dir_fd, "x.gz", NULL), STATUS_OK);
    while (plain.size > 0) {
        size_t n = plain.size < 1000 ? plain.size : 1000;

        assert_int_equal(zfile_add(writer, (struct slice){plain.data, n}, NULL),
                         STATUS_OK);
        plain.data += n;
        plain.size -= n;
    }
    assert_int_equal(zfile_finish(writer, &zfile, NULL), STATUS_OK);
    return zfile;
}

static int
open_file(int dir_fd)
{
    int fd = openat(dir_fd, "x.gz", O_RDWR | O_CLOEXEC);

    assert_true(fd >= 0);
    return fd;
}

/* Reads the body from `first` on; false: it was cut off. */
static bool
read_from(int dir_fd, uint64_t first, struct buf *to)
{
    struct body *body;
    struct slice piece;
    enum body_result result;

    assert_int_equal(zfile_body(open_file(dir_fd), &body, NULL), STATUS_OK);
    buf_init(to, ZFILE_PLAIN_MAX + 1);
    if (first > 0)
        body->seek(body, first);
    if (body->size > first)
        assert_int_equal(body->next(body, false, &piece), BODY_WAITS);
    while ((result = body->next(body, true, &piece)) == BODY_DATA)
        buf_add_slice(to, piece);
    body->free(body);
    return result == BODY_END;
}

/* As any reader of gzip takes it. */
static void
check_gzip(void **state, struct slice plain)
{
    char path[400];
    char *back = malloc(plain.size + 1);
    gzFile file;

    assert_non_null(back);
    snprintf(path, sizeof(path), "%s/x.gz", tempdir_path(state));
    file = gzopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(gzread(file, back, (unsigned)plain.size + 1), plain.size);
    assert_int_equal(gzclose(file), Z_OK);
    assert_memory_equal(back, plain.size ? plain.data : "", plain.size);
    free(back);
}

FIXTURE(tempdir_setup, tempdir_teardown);

TEST(what_went_in_comes_out_and_is_gzip)
{
    static const size_t sizes[] = {0, 1, 262143, 262144, 700000};
    int dir_fd = tempdir_fd(state);

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct buf plain, back;
        struct zfile zfile, seen;
        struct stat st;
        int fd;

        make_lines(&plain, sizes[i]);
        zfile = write_file(dir_fd, buf_slice(&plain));
        assert_int_equal(zfile.plain, plain.size);
        fd = open_file(dir_fd);
        assert_int_equal(fstat(fd, &st), 0);
        assert_int_equal(zfile.packed, st.st_size);
        assert_int_equal(zfile_look(fd, &seen, NULL, NULL), STATUS_OK);
        assert_memory_equal(&seen, &zfile, sizeof(seen));
        close(fd);

        assert_true(read_from(dir_fd, 0, &back));
        assert_int_equal(back.size, plain.size);
        assert_memory_equal(back.data ? back.data : "",
                            plain.data ? plain.data : "", plain.size);
        buf_fini(&back);

        check_gzip(state, buf_slice(&plain));
        buf_fini(&plain);
    }
}

TEST(it_can_be_entered_at_any_byte)
{
    static const uint64_t at[] = {1,      262143, 262144,  262145, 524288,
                                  600000, 999999, 1048576, 1099999};
    int dir_fd = tempdir_fd(state);
    struct buf plain, back;

    make_lines(&plain, 1100000);
    write_file(dir_fd, buf_slice(&plain));
    for (size_t i = 0; i < sizeof(at) / sizeof(at[0]); i++) {
        assert_true(read_from(dir_fd, at[i], &back));
        assert_int_equal(back.size, plain.size - at[i]);
        assert_memory_equal(back.data, plain.data + at[i], back.size);
        buf_fini(&back);
    }
    buf_fini(&plain);
}

/* A reader that enters a body late reads little: the rest could be missing. */
TEST(what_stands_before_is_not_read)
{
    int dir_fd = tempdir_fd(state);
    struct buf plain, back;
    int fd;

    make_lines(&plain, 1100000);
    write_file(dir_fd, buf_slice(&plain));
    fd = open_file(dir_fd);
    assert_int_equal(pwrite(fd, "damage", 6, 100000), 6);
    close(fd);
    assert_true(read_from(dir_fd, plain.size - 10, &back));
    assert_int_equal(back.size, 10);
    buf_fini(&back);
    assert_false(read_from(dir_fd, 0, &back));
    assert_true(back.size < plain.size);
    buf_fini(&back);
    buf_fini(&plain);
}

/* Every byte of a small file, changed: the header, the blocks, the checksum. */
TEST(damage_is_never_told_as_the_whole)
{
    int dir_fd = tempdir_fd(state);
    struct buf plain;
    struct zfile zfile;

    make_lines(&plain, 3000);
    zfile = write_file(dir_fd, buf_slice(&plain));
    for (uint64_t i = 0; i < zfile.packed; i++) {
        int fd = open_file(dir_fd);
        struct zfile seen;
        struct buf back;
        uint8_t was, is;

        assert_int_equal(pread(fd, &was, 1, (off_t)i), 1);
        is = was ^ 0x55;
        assert_int_equal(pwrite(fd, &is, 1, (off_t)i), 1);
        if (!zfile_look(fd, &seen, NULL, NULL)) {
            if (read_from(dir_fd, 0, &back)) {
                assert_int_equal(back.size, plain.size);
                assert_memory_equal(back.data, plain.data, plain.size);
            }
            buf_fini(&back);
        }
        assert_int_equal(pwrite(fd, &was, 1, (off_t)i), 1);
        close(fd);
    }
    buf_fini(&plain);
}

TEST(what_is_abandoned_leaves_nothing)
{
    int dir_fd = tempdir_fd(state);
    struct zfile_writer *writer;

    assert_int_equal(zfile_begin(&writer, dir_fd, "x.gz", NULL), STATUS_OK);
    assert_int_equal(zfile_add(writer, SLICE("some"), NULL), STATUS_OK);
    zfile_abandon(writer);
    zfile_abandon(NULL);
    assert_int_equal(openat(dir_fd, "x.gz", O_RDONLY), -1);
    assert_int_equal(openat(dir_fd, "x.gz.new", O_RDONLY), -1);
}

TEST(no_file_has_more_than_its_blocks_can_tell)
{
    int dir_fd = tempdir_fd(state);
    struct zfile_writer *writer;
    struct zfile zfile;
    struct problem why = {""};
    char *zeros = calloc(1, (size_t)1 << 20);

    assert_non_null(zeros);
    assert_int_equal(zfile_begin(&writer, dir_fd, "x.gz", NULL), STATUS_OK);
    for (uint64_t size = 0; size < ZFILE_PLAIN_MAX; size += 1 << 20)
        assert_int_equal(
            zfile_add(writer, (struct slice){zeros, (size_t)1 << 20}, NULL),
            STATUS_OK);
    assert_int_equal(zfile_add(writer, SLICE("x"), &why), STATUS_INVALID);
    assert_non_null(strstr(why.text, "x.gz"));
    assert_int_equal(zfile_finish(writer, &zfile, NULL), STATUS_OK);
    assert_int_equal(zfile.plain, ZFILE_PLAIN_MAX);
    free(zeros);
}
