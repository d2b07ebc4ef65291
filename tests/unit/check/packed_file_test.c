/*
 * packed_file_test.c - every bit of a gzip file of the broker counts.
 */
#include "broker/check/packed_file.h"

#include <fcntl.h>
#include <unistd.h>

#include "broker/builds/zfile.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"

static struct buf plain;

/* Writes x.gz: two blocks. */
static void
write_file(int dir_fd)
{
    struct zfile_writer *writer;
    struct zfile zfile;

    buf_init(&plain, 1 << 20);
    assert_int_equal(zfile_begin(&writer, dir_fd, "x.gz", NULL), STATUS_OK);
    for (unsigned i = 0; plain.size < 300000; i++) {
        size_t from = plain.size;

        buf_add_format(&plain, "%u %u\n", i % 1000, i % 7);
        assert_int_equal(
            zfile_add(writer,
                      (struct slice){plain.data + from, plain.size - from},
                      NULL),
            STATUS_OK);
    }
    assert_int_equal(zfile_finish(writer, &zfile, NULL), STATUS_OK);
}

/* What a check knows of the file while it reads. */
struct look {
    struct zfile_header header;
    uint64_t size;
};

static bool
find_place(size_t n, uint64_t *at, uint64_t *to, void *user)
{
    return zfile_block(&((struct look *)user)->header, n, at, to);
}

static enum status
on_plain(struct slice bytes, void *user, struct problem *why)
{
    struct look *look = user;

    if (look->size + bytes.size > plain.size ||
        memcmp(plain.data + look->size, bytes.data, bytes.size) != 0)
        return problem(why, STATUS_DIFFERENT, "other bytes");
    look->size += bytes.size;
    return STATUS_OK;
}

/* False: the file is damaged. */
static bool
is_sound(int fd)
{
    struct inspection in = {.data = ""};
    struct look look = {.size = 0};
    struct zfile zfile;
    const struct packed_file file = {
        .head = {(const char *)look.header.bytes, sizeof(look.header.bytes)},
        .max_plain = ZFILE_PLAIN_MAX,
        .place = find_place,
        .on_plain = on_plain,
        .user = &look,
    };
    struct digest digest;
    bool are_places_right = false;

    if (zfile_look(fd, &zfile, &look.header, NULL))
        return false;
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    if (packed_file_read(&in, fd, &file, &are_places_right, NULL))
        return false;
    digest_sha256(&digest, buf_slice(&plain));
    return are_places_right && look.size == zfile.plain &&
           digest_is_equal(&digest, &zfile.digest);
}

/* Flips each bit of the bytes from `from` to `to`, one at a time. */
static void
flip_all(int fd, off_t from, off_t to)
{
    for (off_t at = from; at < to; at++)
        for (int bit = 0; bit < 8; bit++) {
            char byte, flipped;

            assert_int_equal(pread(fd, &byte, 1, at), 1);
            flipped = (char)(byte ^ 1 << bit);
            assert_int_equal(pwrite(fd, &flipped, 1, at), 1);
            if (is_sound(fd))
                fail_msg("nobody sees bit %d of byte %lld", bit, (long long)at);
            assert_int_equal(pwrite(fd, &byte, 1, at), 1);
        }
}

FIXTURE(tempdir_setup, tempdir_teardown);

/* The head with its places, the bytes around the second block, the end. */
TEST(a_flipped_bit_is_found)
{
    int dir_fd = tempdir_fd(state);
    struct zfile_header header;
    uint64_t at, to;
    struct zfile zfile;
    int fd;

    write_file(dir_fd);
    fd = openat(dir_fd, "x.gz", O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(zfile_look(fd, &zfile, &header, NULL), STATUS_OK);
    assert_true(zfile_block(&header, 1, &at, &to));
    assert_false(zfile_block(&header, 2, &at, &to));
    assert_true(is_sound(fd));

    flip_all(fd, 0, 90);
    flip_all(fd, ZFILE_HEADER_SIZE - 2, ZFILE_HEADER_SIZE + 2);
    flip_all(fd, (off_t)at - 8, (off_t)at + 4);
    flip_all(fd, (off_t)zfile.packed - 12, (off_t)zfile.packed);

    assert_true(is_sound(fd));
    close(fd);
    buf_fini(&plain);
}

/* A byte more, and a byte less. */
TEST(a_file_of_another_size_is_found)
{
    int dir_fd = tempdir_fd(state);
    struct zfile zfile;
    int fd;

    write_file(dir_fd);
    fd = openat(dir_fd, "x.gz", O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(zfile_look(fd, &zfile, NULL, NULL), STATUS_OK);
    assert_int_equal(ftruncate(fd, (off_t)zfile.packed + 1), 0);
    assert_false(is_sound(fd));
    assert_int_equal(ftruncate(fd, (off_t)zfile.packed - 1), 0);
    assert_false(is_sound(fd));
    close(fd);
    buf_fini(&plain);
}
