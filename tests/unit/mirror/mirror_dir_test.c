/*
 * mirror_dir_test.c - the directory of a mirror, and those who would lead out
 * of it.
 */
#include "client/mirror/mirror_dir.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/datetime.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"

/* The mirror is "m" in the test's directory: everything beside it is
 * outside. */
static struct tempdir home;
static char dir[300];
static struct mirror_dir *s;
static int m; /* the directory of the mirror */
static struct problem why;

static void
open_dir(void)
{
    s = mirror_dir_open(dir, true, &why);
    if (!s)
        fail_msg("%s", why.text);
}

static int
set_up(void **state)
{
    (void)state;
    why = (struct problem){.rc = STATUS_OK};
    tempdir_open(&home);
    snprintf(dir, sizeof(dir), "%s/m", home.path);
    open_dir();
    m = openat(home.fd, "m", O_RDONLY | O_DIRECTORY);
    return 0;
}

static void
close_dir(void)
{
    mirror_dir_close(s);
    s = NULL;
}

static int
tear_down(void **state)
{
    (void)state;
    close_dir();
    close(m);
    tempdir_close(&home);
    return 0;
}

static void
put(const char *path, const char *text)
{
    struct mirror_dir_mark mark;

    tempdir_write(s->incoming_fd, "1", text);
    if (mirror_dir_put(s, "1", path, DATETIME_NONE, &mark, &why))
        fail_msg("%s", why.text);
    assert_no_file(s->incoming_fd, "1");
}

static void
drop(const char *path)
{
    if (mirror_dir_remove(s, path, &why))
        fail_msg("%s", why.text);
}

#define assert_found(path, what)                                      \
    do {                                                              \
        struct mirror_dir_mark mark_;                                 \
        assert_int_equal(mirror_dir_look((s), (path), &mark_), what); \
    } while (0)

/* Once. */
static bool
no_further(void *user)
{
    ++*(unsigned *)user;
    return false;
}

FIXTURE(set_up, tear_down);

TEST(puts_looks_and_removes)
{
    struct mirror_dir_mark mark;
    struct mirror_dir_mark seen;
    char digest[MIRROR_DIR_DIGEST_SIZE];
    unsigned n_asked = 0;

    tempdir_write(s->incoming_fd, "1", "abc");
    assert_int_equal(mirror_dir_put(s, "1", "h/a/b.txt",
                                    INT64_C(1000000000123456), &mark, &why),
                     STATUS_OK);
    assert_file(m, "h/a/b.txt", "abc");
    assert_int_equal(mirror_dir_look(s, "h/a/b.txt", &seen), MIRROR_DIR_FILE);
    assert_int_equal(seen.size, 3);
    assert_int_equal(seen.mtime_ns, INT64_C(1000000000123456000));
    assert_memory_equal(&seen, &mark, sizeof(mark));
    assert_true(mirror_dir_digest(s, "h/a/b.txt", NULL, NULL, digest));
    assert_string_equal(digest, "sha-256:ba7816bf8f01cfea414140de5dae2223"
                                "b00361a396177a9cb410ff61f20015ad");
    assert_false(
        mirror_dir_digest(s, "h/a/b.txt", no_further, &n_asked, digest));
    assert_int_equal(n_asked, 1);

    put("h/a/b.txt", "new");
    put("h/a/c.txt", "other");
    assert_file(m, "h/a/b.txt", "new");
    assert_found("h/a", MIRROR_DIR_OTHER);
    assert_found("h/x/y", MIRROR_DIR_NOTHING);

    /* Directories go when they are empty, and not before. */
    drop("h/a/b.txt");
    assert_found("h/a/b.txt", MIRROR_DIR_NOTHING);
    assert_file(m, "h/a/c.txt", "other");
    drop("h/a/c.txt");
    assert_found("h", MIRROR_DIR_NOTHING);
    drop("h/a/c.txt");
    assert_int_equal(faccessat(m, ".tidings", F_OK, 0), 0);
}

TEST(is_one_process_at_a_time)
{
    assert_null(mirror_dir_open(dir, true, &why));
    assert_int_equal(why.rc, STATUS_IO);
    assert_non_null(strstr(why.text, "another process"));
    close_dir();
    open_dir();

    /* No mirror there, and none wanted. */
    assert_null(mirror_dir_open(home.path, false, &why));
    assert_non_null(strstr(why.text, "is no mirror"));
    assert_null(mirror_dir_open("/proc/nowhere/at/all", true, &why));
    assert_int_equal(why.rc, STATUS_IO);
}

/* Links that somebody puts into the mirror lead no write out of it. */
TEST(follows_no_link_out_of_the_mirror)
{
    int outside;
    struct mirror_dir_mark mark;
    char text[MIRROR_DIR_DIGEST_SIZE];

    assert_int_equal(mkdirat(home.fd, "out", 0755), 0);
    outside = openat(home.fd, "out", O_RDONLY | O_DIRECTORY);
    tempdir_write(outside, "a.txt", "theirs");
    assert_int_equal(mkdirat(m, "h", 0755), 0);
    assert_int_equal(symlinkat("../../out", m, "h/d"), 0);
    assert_int_equal(symlinkat("../../out/a.txt", m, "h/a.txt"), 0);
    assert_int_equal(symlinkat("/proc/nowhere", m, "h/e.txt"), 0);

    /* Seen as what they are. */
    assert_int_equal(mirror_dir_look(s, "h/d/a.txt", &mark), MIRROR_DIR_OTHER);
    assert_int_equal(mirror_dir_look(s, "h/a.txt", &mark), MIRROR_DIR_OTHER);
    assert_false(mirror_dir_digest(s, "h/a.txt", NULL, NULL, text));
    assert_false(mirror_dir_digest(s, "h/d/a.txt", NULL, NULL, text));

    /* Not removed, nor what they lead to. */
    drop("h/d/a.txt");
    drop("h/a.txt");
    assert_file(outside, "a.txt", "theirs");
    assert_found("h/a.txt", MIRROR_DIR_OTHER);

    /* Moved out of the way, as links; nothing is written through them. */
    put("h/d/a.txt", "ours");
    put("h/a.txt", "ours");
    put("h/e.txt", "ours");
    assert_file(outside, "a.txt", "theirs");
    assert_found("h/d/a.txt", MIRROR_DIR_FILE);
    assert_found("h/a.txt", MIRROR_DIR_FILE);
    assert_file(m, "h/e.txt", "ours");
    assert_int_equal(readlinkat(m, ".tidings/found/1/d", text, 5), 5);
    assert_int_equal(readlinkat(m, ".tidings/found/2/a.txt", text, 5), 5);
    assert_int_equal(why.rc, STATUS_OK);
    close(outside);
    close_dir();

    /* Nor is the state of a mirror one. */
    assert_int_equal(mkdirat(home.fd, "n", 0755), 0);
    assert_int_equal(symlinkat("../out", home.fd, "n/.tidings"), 0);
    snprintf(dir, sizeof(dir), "%s/n", home.path);
    assert_null(mirror_dir_open(dir, true, &why));
    assert_int_equal(why.rc, STATUS_IO);
}

/* A file where a directory has to be, a directory where a file has to be. */
TEST(keeps_what_was_in_its_way)
{
    char where[MIRROR_DIR_WHERE_SIZE] = "";

    tempdir_write(m, "h", "a file of the user");
    assert_int_equal(mkdirat(m, "g", 0755), 0);
    assert_int_equal(mkdirat(m, "g/a.txt", 0755), 0);
    tempdir_write(m, "g/a.txt/mine", "too");
    tempdir_write(m, "g/b.txt", "mine");

    put("h/a.txt", "1");
    put("g/a.txt", "2");
    assert_file(m, "h/a.txt", "1");
    assert_file(m, "g/a.txt", "2");
    assert_file(m, ".tidings/found/1/h", "a file of the user");
    assert_file(m, ".tidings/found/2/a.txt/mine", "too");

    assert_int_equal(mirror_dir_set_aside(s, "g/b.txt", where, &why),
                     STATUS_OK);
    assert_string_equal(where, ".tidings/found/3/b.txt");
    assert_file(m, where, "mine");
    assert_no_file(m, "g/b.txt");
    where[0] = '\0';
    assert_int_equal(mirror_dir_set_aside(s, "g/b.txt", where, &why),
                     STATUS_OK);
    assert_int_equal(mirror_dir_set_aside(s, "x/y/b.txt", where, &why),
                     STATUS_OK);
    assert_string_equal(where, "");
    close_dir();

    /* The next one does not overwrite it. */
    open_dir();
    assert_int_equal(mirror_dir_set_aside(s, "g/a.txt", where, &why),
                     STATUS_OK);
    assert_string_equal(where, ".tidings/found/4/a.txt");
}

/* A file that cannot be put stays as it was, with a reason. */
TEST(says_why_it_cannot_be_put)
{
    struct mirror_dir_mark mark;

    put("h/a.txt", "old");
    assert_int_equal(
        mirror_dir_put(s, "none", "h/a.txt", DATETIME_NONE, &mark, &why),
        STATUS_IO);
    assert_string_equal(why.text,
                        "cannot write h/a.txt: No such file or directory");
    assert_found("h/a.txt", MIRROR_DIR_FILE);
}

static bool
note(const char *path, void *user)
{
    char *seen = user;

    if (strlen(seen) + strlen(path) + 3 < 500)
        sprintf(seen + strlen(seen), "%s\n", path);
    return true;
}

TEST(goes_through_all_that_is_there)
{
    char seen[500] = "";

    put("h/a/b.txt", "1");
    assert_int_equal(mkdirat(m, "h/.tidings", 0755), 0);
    assert_int_equal(symlinkat("..", m, "h/.tidings/up"), 0);
    assert_int_equal(mkdirat(m, "empty", 0755), 0);
    tempdir_write(m, "x", "");
    assert_true(mirror_dir_walk(s, note, seen));
    assert_non_null(strstr(seen, "h/a/b.txt\n"));
    assert_non_null(strstr(seen, "h/.tidings/up\n"));
    assert_non_null(strstr(seen, "x\n"));
    assert_int_equal(strlen(seen), strlen("h/a/b.txt\nh/.tidings/up\nx\n"));
}

/* As on a file system that ignores case: the name leads to the same file. */
TEST(refuses_a_file_system_that_does_not_tell_case)
{
    close_dir();
    assert_int_equal(symlinkat(".tidings", m, ".TIDINGS"), 0);

    assert_null(mirror_dir_open(dir, true, &why));
    assert_int_equal(why.rc, STATUS_IO);
    assert_non_null(strstr(why.text, "ignores the case of names"));
    assert_null(mirror_dir_open(dir, false, &why));

    /* A directory that only bears the name is none of ours. */
    assert_int_equal(unlinkat(m, ".TIDINGS", 0), 0);
    assert_int_equal(mkdirat(m, ".TIDINGS", 0755), 0);
    open_dir();
}
