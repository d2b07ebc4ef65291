/*
 * scratch_dir_test.c - the directory of packages while they are read.
 */
#include "client/dumps/scratch_dir.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/tempdir.h"
#include "tests/test.h"

static void
make_file(int dir_fd, const char *name)
{
    int fd = openat(dir_fd, name, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    close(fd);
}

static bool
is_there(int dir_fd, const char *name)
{
    return faccessat(dir_fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

TEST(it_is_made_and_removed)
{
    struct tempdir dir;
    struct scratch scratch;
    struct problem why;
    struct stat st;
    char path[300];

    tempdir_open(&dir);
    snprintf(path, sizeof(path), "%s/new", dir.path);
    assert_int_equal(scratch_open(&scratch, path, &why), STATUS_OK);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    make_file(scratch.fd, "m1");
    make_file(scratch.fd, SCRATCH_PACKAGE "1");
    scratch_close(&scratch, true);
    assert_int_equal(unlinkat(dir.fd, "new", AT_REMOVEDIR), 0); /* is empty */
    scratch_close(&scratch, true);                              /* again */

    snprintf(path, sizeof(path), "%s/no/new", dir.path);
    assert_int_equal(scratch_open(&scratch, path, &why), STATUS_IO);
    assert_non_null(strstr(why.text, path));
    make_file(dir.fd, "file");
    snprintf(path, sizeof(path), "%s/file", dir.path);
    assert_int_equal(scratch_open(&scratch, path, &why), STATUS_IO);
    assert_non_null(strstr(why.text, "Not a directory"));
    tempdir_close(&dir);
}

TEST(two_have_a_directory_each)
{
    struct tempdir dir;
    struct scratch one, two, three;
    struct problem why;

    tempdir_open(&dir);
    assert_int_equal(scratch_open(&one, dir.path, &why), STATUS_OK);
    make_file(one.fd, "m1");
    assert_int_equal(scratch_open(&two, dir.path, &why), STATUS_OK);
    assert_string_not_equal(one.name, two.name);
    assert_false(is_there(two.fd, "m1"));
    assert_true(is_there(one.fd, "m1"));
    make_file(two.fd, "m1");
    scratch_close(&one, true);
    assert_int_equal(scratch_open(&three, dir.path, &why), STATUS_OK);
    assert_string_equal(three.name, "tidings-scratch-0");
    assert_true(is_there(two.fd, "m1"));
    scratch_close(&two, true);
    scratch_close(&three, true);
    assert_no_file(dir.fd, "tidings-scratch-0");
    assert_no_file(dir.fd, "tidings-scratch-1");
    tempdir_close(&dir);
}

/* A killed process leaves two of them; directories of other programs stay. */
TEST(what_a_crash_left_is_removed)
{
    static const char *const others[] = {"tidings-data", "tidings-scratch-",
                                         "tidings-scratch-1-of-mine"};
    struct tempdir dir;
    struct scratch scratch;
    struct problem why;
    char path[100];
    int status = 0;
    pid_t pid;

    tempdir_open(&dir);
    make_file(dir.fd, "mine");
    assert_int_equal(mkdirat(dir.fd, "m1", 0700), 0);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(mkdirat(dir.fd, others[i], 0700), 0);
        snprintf(path, sizeof(path), "%s/file", others[i]);
        make_file(dir.fd, path);
    }
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct scratch two;

        if (scratch_open(&scratch, dir.path, &why) ||
            scratch_open(&two, dir.path, &why))
            _exit(1);
        make_file(scratch.fd, "m1");
        make_file(scratch.fd, "history.zip");
        make_file(scratch.fd, SCRATCH_PACKAGE "1");
        make_file(scratch.fd, SCRATCH_PACKAGE "1.of");
        make_file(two.fd, SCRATCH_PACKAGE "2");
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_true(is_there(dir.fd, "tidings-scratch-1"));

    assert_int_equal(scratch_open(&scratch, dir.path, &why), STATUS_OK);
    assert_string_equal(scratch.name, "tidings-scratch-0");
    assert_no_file(scratch.fd, "m1");
    assert_no_file(scratch.fd, "history.zip");
    assert_true(
        is_there(scratch.fd, SCRATCH_PACKAGE "1")); /* is gone on with */
    assert_true(is_there(scratch.fd, SCRATCH_PACKAGE "1.of"));
    assert_no_file(dir.fd, "tidings-scratch-1");
    make_file(scratch.fd, "m2");
    scratch_close(&scratch, false);
    assert_true(is_there(dir.fd, "tidings-scratch-0/" SCRATCH_PACKAGE "1"));
    assert_no_file(dir.fd, "tidings-scratch-0/m2");
    assert_true(is_there(dir.fd, "mine"));
    assert_true(is_there(dir.fd, "m1"));
    for (size_t i = 0; i < 3; i++) {
        snprintf(path, sizeof(path), "%s/file", others[i]);
        assert_true(is_there(dir.fd, path));
    }
    tempdir_close(&dir);
}

/* The scratch code enters no directory that another user of the machine may
 * have put there. */
TEST(a_stranger_s_directory_is_passed_over)
{
    struct tempdir dir;
    struct scratch scratch;
    struct problem why;

    tempdir_open(&dir);
    assert_int_equal(mkdirat(dir.fd, "elsewhere", 0700), 0);
    make_file(dir.fd, "elsewhere/file");
    assert_int_equal(symlinkat("elsewhere", dir.fd, "tidings-scratch-0"), 0);
    assert_int_equal(mkdirat(dir.fd, "tidings-scratch-1", 0700), 0);
    assert_int_equal(fchmodat(dir.fd, "tidings-scratch-1", 0777, 0), 0);
    assert_int_equal(scratch_open(&scratch, dir.path, &why), STATUS_OK);
    assert_string_equal(scratch.name, "tidings-scratch-2");
    assert_true(is_there(dir.fd, "elsewhere/file"));
    scratch_close(&scratch, true);
    tempdir_close(&dir);
}
