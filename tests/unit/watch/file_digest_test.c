/*
 * file_digest_test.c - what a file holds, at one moment.
 */
#include "client/watch/file_digest.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/clock.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"

#define SECOND_US INT64_C(1000000)

/* SHA-256 of "abc" (FIPS 180-4). */
static const unsigned char abc[DIGEST_SIZE] =
    "\xba\x78\x16\xbf\x8f\x01\xcf\xea\x41\x41\x40\xde\x5d\xae\x22\x23"
    "\xb0\x03\x61\xa3\x96\x17\x7a\x9c\xb4\x10\xff\x61\xf2\x00\x15\xad";

static int n_asked;

static bool
stop_at_once(void *user)
{
    (void)user;
    n_asked++;
    return false;
}

/* As the program does: a lease that is broken sends it. */
static int
set_up(void **state)
{
    signal(SIGIO, SIG_IGN);
    return tempdir_setup(state);
}

FIXTURE(set_up, tempdir_teardown);

static struct file_digester *
new_digester(void)
{
    struct file_digester *digester = calloc(1, sizeof(*digester));

    assert_non_null(digester);
    digester->check = digest_check_new(SLICE(""), LENGTH_NONE, true);
    assert_non_null(digester->check);
    return digester;
}

static void
free_digester(struct file_digester *digester)
{
    digest_check_free(digester->check);
    free(digester);
}

/* */
TEST(reads_digest_length_and_the_first_bytes)
{
    struct file_digester *digester = new_digester();
    struct file_digest hash;
    int dir = tempdir_fd(state);

    tempdir_write(dir, "a", "abc");
    assert_int_equal(file_digest_read(digester, dir, "a", &hash),
                     FILE_DIGEST_READ);
    assert_memory_equal(hash.mark.sha256.bytes, abc, sizeof(abc));
    assert_int_equal(hash.mark.size, 3);
    assert_int_equal(hash.head_size, 3);
    assert_memory_equal(hash.head, "abc", 3);

    tempdir_write(dir, "empty", "");
    assert_int_equal(file_digest_read(digester, dir, "empty", &hash),
                     FILE_DIGEST_READ);
    assert_int_equal(hash.mark.size, 0);
    assert_int_equal(hash.head_size, 0);
    free_digester(digester);
}

/* A file that is read while somebody writes it is half a file. */
TEST(does_not_read_what_is_open_for_writing)
{
    struct file_digester *digester = new_digester();
    struct file_digest hash;
    int dir = tempdir_fd(state);
    int fd;
    int reader;

    tempdir_write(dir, "a", "abc");
    fd = openat(dir, "a", O_WRONLY | O_APPEND | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(file_digest_read(digester, dir, "a", &hash),
                     FILE_DIGEST_WRITTEN);
    close(fd);

    reader = openat(dir, "a", O_RDONLY | O_CLOEXEC);
    assert_int_equal(file_digest_read(digester, dir, "a", &hash),
                     FILE_DIGEST_READ);
    close(reader);

    /* And the lease is given back: writers do not wait for us. */
    fd = openat(dir, "a", O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    assert_true(fd >= 0);
    close(fd);
    free_digester(digester);
}

TEST(reads_files_alone)
{
    struct file_digester *digester = new_digester();
    struct file_digest hash;
    int dir = tempdir_fd(state);

    tempdir_write(dir, "a", "abc");
    assert_int_equal(symlinkat("a", dir, "link"), 0);
    assert_int_equal(mkfifoat(dir, "fifo", 0600), 0);
    assert_int_equal(mkdirat(dir, "folder", 0755), 0);
    assert_int_equal(file_digest_read(digester, dir, "none", &hash),
                     FILE_DIGEST_GONE);
    assert_int_equal(file_digest_read(digester, dir, "link", &hash),
                     FILE_DIGEST_GONE);
    assert_int_equal(file_digest_read(digester, dir, "fifo", &hash),
                     FILE_DIGEST_GONE);
    assert_int_equal(file_digest_read(digester, dir, "folder", &hash),
                     FILE_DIGEST_GONE);
    assert_int_equal(file_digest_read(digester, -1, "a", &hash),
                     FILE_DIGEST_FAILED);
    assert_int_equal(errno, EBADF);
    free_digester(digester);
}

TEST(can_be_stopped_inside_a_large_file)
{
    struct file_digester *digester = new_digester();
    struct file_digest hash;
    int dir = tempdir_fd(state);
    int fd = openat(dir, "large", O_CREAT | O_WRONLY | O_CLOEXEC, 0644);

    assert_int_equal(ftruncate(fd, (off_t)64 << 20), 0);
    close(fd);
    digester->go_on = stop_at_once;
    n_asked = 0;
    assert_int_equal(file_digest_read(digester, dir, "large", &hash),
                     FILE_DIGEST_STOPPED);
    assert_int_equal(n_asked, 1);
    free_digester(digester);
}

/* A file that changed a moment ago may change again within the same tick of the
 * file system's clock: size and times do not show that. */
TEST(trusts_only_times_that_have_settled)
{
    struct file_stamp mark = {.size = 0};
    struct stat st;
    int dir = tempdir_fd(state);

    tempdir_write(dir, "a", "abc");
    assert_int_equal(fstatat(dir, "a", &st, 0), 0);
    st.st_ctim = (struct timespec){.tv_sec = clock_day_us() / SECOND_US};
    file_stamp_take(&mark, &st);
    assert_false(file_stamp_is_of(&mark, &st));

    clock_pass_us(3 * SECOND_US);
    file_stamp_take(&mark, &st);
    assert_true(file_stamp_is_of(&mark, &st));
    st.st_ctim.tv_nsec ^= 1;
    assert_false(file_stamp_is_of(&mark, &st));
    st.st_ctim.tv_nsec ^= 1;
    st.st_ino++;
    assert_false(file_stamp_is_of(&mark, &st));

    clock_set_us(-3600 * SECOND_US); /* the file is of the future now */
    file_stamp_take(&mark, &st);
    assert_false(file_stamp_is_of(&mark, &st));
}
