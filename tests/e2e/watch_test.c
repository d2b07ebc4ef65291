/*
 * watch_test.c - tidings watch: real files, a real broker.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/watched.h"
#include "tests/test.h"

FIXTURE(watched_setup, watched_teardown);

/* what an entry tells of a file.
 */
TEST(tells_what_a_file_is)
{
    struct watched *s = *state;
    struct timespec times[2] = {{1775067000, 0}, {1775067000, 125000000}};
    const struct folded *r;

    WATCHED_START_PLAINLY(s);
    watched_write(s, "a.html", "<p>hello</p>");
    r = fold_await_change(&s->fold, "a.html", "created");
    assert_string_equal(r->type, "text/html");
    assert_int_equal(r->length, 12);
    fold_await(&s->fold, s->dir);

    /* Elsewhere: it might be told before it has its time. */
    watched_write(s, "../a.html", "<p>hello again</p>");
    assert_int_equal(utimensat(AT_FDCWD, watched_at(s, "../a.html"), times, 0),
                     0);
    watched_move(s, "../a.html", "a.html");
    r = fold_await_change(&s->fold, "a.html", "updated");
    assert_int_equal(r->length, 18);
    assert_string_equal(r->lastmod, "2026-04-01T18:10:00.125Z");
    fold_await(&s->fold, s->dir);

    watched_unlink(s, "a.html");
    fold_await_change(&s->fold, "a.html", "deleted");
    watched_write(s, "a.html", "<p>once more</p>");
    fold_await_change(&s->fold, "a.html", "created");
    watched_stop(s);
}

/* A rename is deleted and created; also of a folder. */
TEST(tells_of_renames)
{
    struct watched *s = *state;

    watched_mkdir(s, "old");
    watched_mkdir(s, "old/deep");
    watched_write(s, "old/deep/a", "a");
    watched_write(s, "old/b", "b");
    WATCHED_START_PLAINLY(s);
    fold_await(&s->fold, s->dir);

    watched_move(s, "old/b", "old/c");
    fold_await_change(&s->fold, "old/c", "created");
    watched_move(s, "old", "new");
    fold_await_change(&s->fold, "new/deep/a", "created");
    fold_await(&s->fold, s->dir);
    assert_string_equal(fold_of(&s->fold, "old/b")->change, "deleted");

    /* It is watched where it went. */
    watched_write(s, "new/deep/a", "another a");
    fold_await_change(&s->fold, "new/deep/a", "updated");
    watched_move(s, "new", "old");
    watched_write(s, "old/deep/a", "a third a");
    fold_await(&s->fold, s->dir);
    watched_stop(s);
}

/* Folders that come with content, and go with it. */
TEST(tells_of_folders_that_come_and_go)
{
    struct watched *s = *state;

    WATCHED_START_PLAINLY(s);
    watched_mkdir(s, "../outside");
    watched_mkdir(s, "../outside/deep");
    watched_write(s, "../outside/deep/a", "a");
    watched_write(s, "../outside/b", "b");

    watched_move(s, "../outside", "inside");
    fold_await_change(&s->fold, "inside/deep/a", "created");
    fold_await(&s->fold, s->dir);
    watched_write(s, "inside/deep/a", "changed inside");
    fold_await_change(&s->fold, "inside/deep/a", "updated");

    watched_move(s, "inside", "../outside");
    fold_await_change(&s->fold, "inside/deep/a", "deleted");
    fold_await(&s->fold, s->dir);

    /* And it is not watched any more. */
    watched_write(s, "../outside/b", "changed outside");
    watched_mark(s);
    fold_await(&s->fold, s->dir);
    watched_stop(s);
}

/* What is written into a folder before it is watched. */
TEST(misses_nothing_in_new_folders)
{
    struct watched *s = *state;
    char path[100];

    WATCHED_START_PLAINLY(s);
    for (unsigned i = 0; i < 60; i++) {
        snprintf(path, sizeof(path), "n%u", i);
        watched_mkdir(s, path);
        snprintf(path, sizeof(path), "n%u/b", i);
        watched_mkdir(s, path);
        snprintf(path, sizeof(path), "n%u/b/c", i);
        watched_mkdir(s, path);
        snprintf(path, sizeof(path), "n%u/b/c/file", i);
        watched_write(s, path, path);
    }
    fold_await(&s->fold, s->dir);
    for (unsigned i = 0; i < 60; i++) {
        snprintf(path, sizeof(path), "n%u/b/c/file", i);
        assert_int_equal(fold_count(&s->fold, path), 1);
    }
    watched_stop(s);
}

/* A half-written file is posted once, when closed; also one
 * that was begun before the watch, and one in a folder that is new. */
TEST(posts_a_half_written_file_once)
{
    static const char *const paths[] = {"before", "after", "new/inside"};
    struct watched *s = *state;
    FILE *files[3];

    files[0] = fopen(watched_at(s, paths[0]), "we");
    assert_true(fputs("half", files[0]) >= 0 && !fflush(files[0]));
    WATCHED_START_PLAINLY(s);
    watched_mkdir(s, "new");
    for (size_t i = 1; i < 3; i++) {
        files[i] = fopen(watched_at(s, paths[i]), "we");
        assert_true(fputs("half", files[i]) >= 0 && !fflush(files[i]));
    }
    watched_mark(s);
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
    watched_stop(s);
}

/* At the start it compares with what it posted before. */
TEST(tells_what_changed_meanwhile)
{
    struct watched *s = *state;

    watched_mkdir(s, "folder");
    watched_write(s, "folder/kept", "kept");
    watched_write(s, "folder/changed", "changed");
    watched_write(s, "folder/deleted", "deleted");
    watched_write(s, "folder.txt", "sorts between a folder and what is in it");
    WATCHED_START_PLAINLY(s);
    fold_await(&s->fold, s->dir);
    watched_stop(s);

    watched_write(s, "folder/changed",
                  "CHANGED"); /* as long, as young perhaps */
    watched_unlink(s, "folder/deleted");
    watched_write(s, "folder/new", "new");
    WATCHED_START_PLAINLY(s);
    fold_await(&s->fold, s->dir);
    assert_int_equal(fold_count(&s->fold, "folder/kept"), 1);
    assert_int_equal(fold_count(&s->fold, "folder/changed"), 2);
    watched_stop(s);

    /* A folder where a file was, and a file where a folder was. */
    watched_unlink(s, "folder.txt");
    watched_mkdir(s, "folder.txt");
    watched_write(s, "folder.txt/inside", "inside");
    watched_move(s, "folder", "../folder");
    watched_write(s, "folder", "a file");
    assert_int_equal(WATCHED_RUN(s, "--once"), 0);
    fold_await(&s->fold, s->dir);
}

/* What was only touched is what it was. */
TEST(does_not_post_what_was_only_touched)
{
    struct watched *s = *state;

    watched_write(s, "a", "a");
    WATCHED_START_PLAINLY(s);
    fold_await_change(&s->fold, "a", "created");
    assert_int_equal(utimensat(AT_FDCWD, watched_at(s, "a"), NULL, 0), 0);
    watched_write(s, "a", "a");
    assert_int_equal(chmod(watched_at(s, "a"), 0600), 0);
    watched_mark(s);
    watched_stop(s);
    assert_int_equal(WATCHED_RUN(s, "--once"), 0);
    fold_read(&s->fold);
    assert_int_equal(fold_count(&s->fold, "a"), 1);
}

/* Symbolic links and special files are no files; every other
 * name is one, whatever its bytes. */
TEST(publishes_files_alone_and_all_of_them)
{
    struct watched *s = *state;

    watched_mkdir(s, "../outside");
    watched_write(s, "../outside/secret", "secret");
    watched_write(s, "a b\xc3\xa9\xff%?#&\"'<\n", "any bytes");
    watched_write(s, ".hidden", "hidden");
    watched_write(s, "empty", "");
    assert_int_equal(symlink("../outside", watched_at(s, "folder-link")), 0);
    assert_int_equal(symlink(".hidden", watched_at(s, "file-link")), 0);
    assert_int_equal(mkfifo(watched_at(s, "fifo"), 0600), 0);
    WATCHED_START_PLAINLY(s);
    fold_await(&s->fold, s->dir);
    assert_int_equal(fold_count(&s->fold, "a b\xc3\xa9\xff%?#&\"'<\n"), 1);

    assert_int_equal(symlink("../outside/secret", watched_at(s, "late-link")),
                     0);
    assert_int_equal(mkfifo(watched_at(s, "late-fifo"), 0600), 0);
    watched_unlink(s, ".hidden");
    assert_int_equal(symlink("empty", watched_at(s, ".hidden")), 0);
    watched_mark(s);
    fold_await_change(&s->fold, ".hidden", "deleted");
    fold_await(&s->fold, s->dir);

    /* A folder that becomes a link: what was in it is no more. */
    watched_mkdir(s, "folder");
    watched_write(s, "folder/secret", "mine");
    fold_await_change(&s->fold, "folder/secret", "created");
    watched_move(s, "folder", "../mine");
    assert_int_equal(symlink("../outside", watched_at(s, "folder")), 0);
    fold_await_change(&s->fold, "folder/secret", "deleted");
    watched_stop(s);
    assert_int_equal(WATCHED_RUN(s, "--once"), 0);
    fold_await(&s->fold, s->dir);
}

/* --exclude, and the state, are never published. */
TEST(leaves_out_what_it_is_told_to)
{
    struct watched *s = *state;
    char inside[400];

    watched_mkdir(s, "build");
    watched_mkdir(s, "sub");
    watched_mkdir(s, "sub/.tidings");
    watched_write(s, "sub/.tidings/other", "of another watch");
    watched_write(s, "build/a.o", "o");
    watched_write(s, "a.tmp", "tmp");
    watched_write(s, "sub/b.tmp", "tmp");
    watched_write(s, "sub/c.txt", "c");
    snprintf(inside, sizeof(inside), "%s/own-state", s->dir);
    WATCHED_START(s, "--exclude", "*.tmp", "--exclude", "build", "--state",
                  inside);
    fold_await_change(&s->fold, "sub/c.txt", "created");
    watched_write(s, "sub/d.tmp", "tmp");
    watched_write(s, "build/e", "e");
    watched_mkdir(s, "sub/build");
    watched_write(s, "sub/build/f", "f");
    watched_write(s, "sub/.tidings/g", "g");
    watched_mark(s);
    watched_stop(s);
    fold_read(&s->fold);
    assert_int_equal(s->fold.last, 2);

    /* Without it they are published; with it again, they are deleted. */
    assert_int_equal(WATCHED_RUN(s, "--once", "--state", inside), 0);
    fold_read(&s->fold);
    assert_int_equal(s->fold.last, 2 + 6);
    assert_int_equal(fold_count(&s->fold, "own-state/watch.db"), 0);
    assert_int_equal(
        WATCHED_RUN(s, "--once", "--state", inside, "--exclude", "sub/b*"), 0);
    fold_await_change(&s->fold, "sub/b.tmp", "deleted");
    fold_await_change(&s->fold, "sub/build/f", "deleted");
    assert_int_equal(s->fold.last, 2 + 6 + 2);
}
