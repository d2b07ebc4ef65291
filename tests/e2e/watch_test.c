/*
 * watch_test.c - tidings watch: real files, a real broker.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/broker.h"
#include "tests/support/command.h"
#include "tests/support/fold.h"

#define TIDINGS BIN_DIR "/tidings"
#define BASE    "http://example.com/files/"

struct stage {
    struct broker broker;
    struct tempdir home;
    char dir[300]; /* what is watched */
    char set_url[128];
    struct command command;
    struct fold fold;
};

static int
set_stage(void **state)
{
    struct stage *s = calloc(1, sizeof(*s));

    assert_non_null(s);
    *state = s;
    broker_open(&s->broker, NULL);
    tempdir_open(&s->home);
    snprintf(s->dir, sizeof(s->dir), "%s/files", s->home.path);
    assert_int_equal(mkdir(s->dir, 0755), 0);
    snprintf(s->set_url, sizeof(s->set_url), "%s/sets/files", s->broker.url);
    fold_open(&s->fold, s->broker.url, "files", BASE);
    return 0;
}

static int
clear_stage(void **state)
{
    struct stage *s = *state;

    fold_close(&s->fold);
    broker_close(&s->broker);
    tempdir_close(&s->home);
    free(s);
    return 0;
}

/* Files, by path from the directory on */

static const char *
at(struct stage *s, const char *path)
{
    static char full[700];

    snprintf(full, sizeof(full), "%s/%s", s->dir, path);
    return full;
}

static void
write_file(struct stage *s, const char *path, const char *text)
{
    FILE *f = fopen(at(s, path), "we");

    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static void
make_folder(struct stage *s, const char *path)
{
    assert_int_equal(mkdir(at(s, path), 0755), 0);
}

static void
move(struct stage *s, const char *from, const char *to)
{
    char old[700];

    snprintf(old, sizeof(old), "%s", at(s, from));
    assert_int_equal(rename(old, at(s, to)), 0);
}

/* Starts a watch; behind `s` more arguments. */
static void
begin(struct stage *s, const char *const *more)
{
    const char *argv[20] = {TIDINGS,    "watch",      s->dir,
                            s->set_url, "--base-uri", BASE};

    for (size_t i = 0; more[i]; i++)
        argv[6 + i] = more[i];
    command_start(&s->command, argv);
}

static void
await_ready(struct stage *s)
{
    assert_memory_equal(command_line(&s->command), "tidings: watching ", 18);
}

#define WATCH(s, ...) \
    (begin(s, (const char *const[]){__VA_ARGS__, NULL}), await_ready(s))

#define WATCH_PLAINLY(s) (begin(s, (const char *const[]){NULL}), await_ready(s))

/* Runs it to its end. */
#define RUN(s, ...)                                      \
    (begin(s, (const char *const[]){__VA_ARGS__, NULL}), \
     command_end(&(s)->command))

static void
stop(struct stage *s)
{
    assert_int_equal(kill(s->command.pid, SIGTERM), 0);
    assert_int_equal(command_end(&s->command), 0);
}

/* What was done before is posted when this is: paths are looked at in the order
 * in which they were heard of. */
static void
await_mark(struct stage *s)
{
    static unsigned n;
    char name[40];

    snprintf(name, sizeof(name), "mark-%u", ++n);
    write_file(s, name, name);
    fold_await_change(&s->fold, name, "created");
}

/* Issue 3, point 5.: what an entry tells of a file.
 */
static void
tells_what_a_file_is(void **state)
{
    struct stage *s = *state;
    struct timespec times[2] = {{1775067000, 0}, {1775067000, 125000000}};
    const struct folded *r;

    WATCH_PLAINLY(s);
    write_file(s, "a.html", "<p>hello</p>");
    r = fold_await_change(&s->fold, "a.html", "created");
    assert_string_equal(r->type, "text/html");
    assert_int_equal(r->length, 12);
    fold_await(&s->fold, s->dir);

    write_file(s, "a.html", "<p>hello again</p>");
    assert_int_equal(utimensat(AT_FDCWD, at(s, "a.html"), times, 0), 0);
    r = fold_await_change(&s->fold, "a.html", "updated");
    assert_int_equal(r->length, 18);
    assert_string_equal(r->lastmod, "2026-04-01T18:10:00.125Z");
    fold_await(&s->fold, s->dir);

    assert_int_equal(unlink(at(s, "a.html")), 0);
    fold_await_change(&s->fold, "a.html", "deleted");
    write_file(s, "a.html", "<p>once more</p>");
    fold_await_change(&s->fold, "a.html", "created");
    stop(s);
}

/* Issue 3, point 5: a rename is deleted and created; also of a folder. */
static void
tells_of_renames(void **state)
{
    struct stage *s = *state;

    make_folder(s, "old");
    make_folder(s, "old/deep");
    write_file(s, "old/deep/a", "a");
    write_file(s, "old/b", "b");
    WATCH_PLAINLY(s);
    fold_await(&s->fold, s->dir);

    move(s, "old/b", "old/c");
    fold_await_change(&s->fold, "old/c", "created");
    move(s, "old", "new");
    fold_await_change(&s->fold, "new/deep/a", "created");
    fold_await(&s->fold, s->dir);
    assert_string_equal(fold_of(&s->fold, "old/b")->change, "deleted");

    /* It is watched where it went. */
    write_file(s, "new/deep/a", "another a");
    fold_await_change(&s->fold, "new/deep/a", "updated");
    move(s, "new", "old");
    write_file(s, "old/deep/a", "a third a");
    fold_await(&s->fold, s->dir);
    stop(s);
}

/* Issue 3, point 5: folders that come with content, and go with it. */
static void
tells_of_folders_that_come_and_go(void **state)
{
    struct stage *s = *state;

    WATCH_PLAINLY(s);
    make_folder(s, "../outside");
    make_folder(s, "../outside/deep");
    write_file(s, "../outside/deep/a", "a");
    write_file(s, "../outside/b", "b");

    move(s, "../outside", "inside");
    fold_await_change(&s->fold, "inside/deep/a", "created");
    fold_await(&s->fold, s->dir);
    write_file(s, "inside/deep/a", "changed inside");
    fold_await_change(&s->fold, "inside/deep/a", "updated");

    move(s, "inside", "../outside");
    fold_await_change(&s->fold, "inside/deep/a", "deleted");
    fold_await(&s->fold, s->dir);

    /* And it is not watched any more. */
    write_file(s, "../outside/b", "changed outside");
    await_mark(s);
    fold_await(&s->fold, s->dir);
    stop(s);
}

/* Issue 3, point 5: what is written into a folder before it is watched. */
static void
misses_nothing_in_new_folders(void **state)
{
    struct stage *s = *state;
    char path[100];

    WATCH_PLAINLY(s);
    for (unsigned i = 0; i < 60; i++) {
        snprintf(path, sizeof(path), "n%u", i);
        make_folder(s, path);
        snprintf(path, sizeof(path), "n%u/b", i);
        make_folder(s, path);
        snprintf(path, sizeof(path), "n%u/b/c", i);
        make_folder(s, path);
        snprintf(path, sizeof(path), "n%u/b/c/file", i);
        write_file(s, path, path);
    }
    fold_await(&s->fold, s->dir);
    for (unsigned i = 0; i < 60; i++) {
        snprintf(path, sizeof(path), "n%u/b/c/file", i);
        assert_int_equal(fold_count(&s->fold, path), 1);
    }
    stop(s);
}

/* Issue 3, point 5: a half-written file is posted once, when closed; also one
 * that was begun before the watch, and one in a folder that is new. */
static void
posts_a_half_written_file_once(void **state)
{
    static const char *const paths[] = {"before", "after", "new/inside"};
    struct stage *s = *state;
    FILE *files[3];

    files[0] = fopen(at(s, paths[0]), "we");
    assert_true(fputs("half", files[0]) >= 0 && !fflush(files[0]));
    WATCH_PLAINLY(s);
    make_folder(s, "new");
    for (size_t i = 1; i < 3; i++) {
        files[i] = fopen(at(s, paths[i]), "we");
        assert_true(fputs("half", files[i]) >= 0 && !fflush(files[i]));
    }
    await_mark(s);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(fold_count(&s->fold, paths[i]), 0);

    for (size_t i = 0; i < 3; i++) {
        assert_true(fputs(" and whole", files[i]) >= 0);
        assert_int_equal(fclose(files[i]), 0);
        assert_int_equal(
            fold_await_change(&s->fold, paths[i], "created")->length, 14);
        assert_int_equal(fold_count(&s->fold, paths[i]), 1);
    }
    fold_await(&s->fold, s->dir);
    stop(s);
}

/* Issue 3, point 5: at the start it compares with what it posted before. */
static void
tells_what_changed_meanwhile(void **state)
{
    struct stage *s = *state;

    make_folder(s, "folder");
    write_file(s, "folder/kept", "kept");
    write_file(s, "folder/changed", "changed");
    write_file(s, "folder/deleted", "deleted");
    write_file(s, "folder.txt", "sorts between a folder and what is in it");
    WATCH_PLAINLY(s);
    fold_await(&s->fold, s->dir);
    stop(s);

    write_file(s, "folder/changed", "CHANGED"); /* as long, as young perhaps */
    assert_int_equal(unlink(at(s, "folder/deleted")), 0);
    write_file(s, "folder/new", "new");
    WATCH_PLAINLY(s);
    fold_await(&s->fold, s->dir);
    assert_int_equal(fold_count(&s->fold, "folder/kept"), 1);
    assert_int_equal(fold_count(&s->fold, "folder/changed"), 2);
    stop(s);

    /* A folder where a file was, and a file where a folder was. */
    assert_int_equal(unlink(at(s, "folder.txt")), 0);
    make_folder(s, "folder.txt");
    write_file(s, "folder.txt/inside", "inside");
    move(s, "folder", "../folder");
    write_file(s, "folder", "a file");
    assert_int_equal(RUN(s, "--once"), 0);
    fold_await(&s->fold, s->dir);
}

/* Issue 3, point 5: what was only touched is what it was. */
static void
does_not_post_what_was_only_touched(void **state)
{
    struct stage *s = *state;

    write_file(s, "a", "a");
    WATCH_PLAINLY(s);
    fold_await_change(&s->fold, "a", "created");
    assert_int_equal(utimensat(AT_FDCWD, at(s, "a"), NULL, 0), 0);
    write_file(s, "a", "a");
    assert_int_equal(chmod(at(s, "a"), 0600), 0);
    await_mark(s);
    stop(s);
    assert_int_equal(RUN(s, "--once"), 0);
    fold_read(&s->fold);
    assert_int_equal(fold_count(&s->fold, "a"), 1);
}

/* Issue 3, point 5: symbolic links and special files are no files; every other
 * name is one, whatever its bytes. */
static void
publishes_files_alone_and_all_of_them(void **state)
{
    struct stage *s = *state;

    make_folder(s, "../outside");
    write_file(s, "../outside/secret", "secret");
    write_file(s, "a b\xc3\xa9\xff%?#&\"'<\n", "any bytes");
    write_file(s, ".hidden", "hidden");
    write_file(s, "empty", "");
    assert_int_equal(symlink("../outside", at(s, "folder-link")), 0);
    assert_int_equal(symlink(".hidden", at(s, "file-link")), 0);
    assert_int_equal(mkfifo(at(s, "fifo"), 0600), 0);
    WATCH_PLAINLY(s);
    fold_await(&s->fold, s->dir);
    assert_int_equal(fold_count(&s->fold, "a b\xc3\xa9\xff%?#&\"'<\n"), 1);

    assert_int_equal(symlink("../outside/secret", at(s, "late-link")), 0);
    assert_int_equal(mkfifo(at(s, "late-fifo"), 0600), 0);
    assert_int_equal(unlink(at(s, ".hidden")), 0);
    assert_int_equal(symlink("empty", at(s, ".hidden")), 0);
    await_mark(s);
    fold_await_change(&s->fold, ".hidden", "deleted");
    fold_await(&s->fold, s->dir);

    /* A folder that becomes a link: what was in it is no more. */
    make_folder(s, "folder");
    write_file(s, "folder/secret", "mine");
    fold_await_change(&s->fold, "folder/secret", "created");
    move(s, "folder", "../mine");
    assert_int_equal(symlink("../outside", at(s, "folder")), 0);
    fold_await_change(&s->fold, "folder/secret", "deleted");
    stop(s);
    assert_int_equal(RUN(s, "--once"), 0);
    fold_await(&s->fold, s->dir);
}

/* Issue 3, point 5: --exclude, and the state, are never published. */
static void
leaves_out_what_it_is_told_to(void **state)
{
    struct stage *s = *state;
    char inside[400];

    make_folder(s, "build");
    make_folder(s, "sub");
    make_folder(s, "sub/.tidings");
    write_file(s, "sub/.tidings/other", "of another watch");
    write_file(s, "build/a.o", "o");
    write_file(s, "a.tmp", "tmp");
    write_file(s, "sub/b.tmp", "tmp");
    write_file(s, "sub/c.txt", "c");
    snprintf(inside, sizeof(inside), "%s/own-state", s->dir);
    WATCH(s, "--exclude", "*.tmp", "--exclude", "build", "--state", inside);
    fold_await_change(&s->fold, "sub/c.txt", "created");
    write_file(s, "sub/d.tmp", "tmp");
    write_file(s, "build/e", "e");
    make_folder(s, "sub/build");
    write_file(s, "sub/build/f", "f");
    write_file(s, "sub/.tidings/g", "g");
    await_mark(s);
    stop(s);
    fold_read(&s->fold);
    assert_int_equal(s->fold.last, 2);

    /* Without it they are published; with it again, they are deleted. */
    assert_int_equal(RUN(s, "--once", "--state", inside), 0);
    fold_read(&s->fold);
    assert_int_equal(s->fold.last, 2 + 6);
    assert_int_equal(fold_count(&s->fold, "own-state/watch.db"), 0);
    assert_int_equal(RUN(s, "--once", "--state", inside, "--exclude", "sub/b*"),
                     0);
    fold_await_change(&s->fold, "sub/b.tmp", "deleted");
    fold_await_change(&s->fold, "sub/build/f", "deleted");
    assert_int_equal(s->fold.last, 2 + 6 + 2);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_stage, clear_stage)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(tells_what_a_file_is),
        TEST(tells_of_renames),
        TEST(tells_of_folders_that_come_and_go),
        TEST(misses_nothing_in_new_folders),
        TEST(posts_a_half_written_file_once),
        TEST(tells_what_changed_meanwhile),
        TEST(does_not_post_what_was_only_touched),
        TEST(publishes_files_alone_and_all_of_them),
        TEST(leaves_out_what_it_is_told_to),
    };

    return cmocka_run_group_tests_name("watch", tests, NULL, NULL);
}
