/*
 * watch_db_test.c - posted files, and their state after a crash during a post.
 */
#include "client/watch/watch_db.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/tempdir.h"
#include "tests/test.h"

#define SET  "http://127.0.0.1:8787/sets/files"
#define BASE "http://example.com/"

static struct watch_db *
open_ledger(void **state)
{
    static struct watch_db ledger;
    static struct problem why;

    problem_clear(&why);
    if (!watch_db_open(&ledger, tempdir_path(state), SET, BASE, &why))
        fail_msg("%s", why.text);
    return &ledger;
}

/* Reopens the database as after a crash: uncommitted changes are lost. */
static struct watch_db *
crash(void **state, struct watch_db *l)
{
    watch_db_close(l);
    return open_ledger(state);
}

static struct file_stamp
mark_of(int n)
{
    struct file_stamp mark = {.size = n,
                              .mtime_ns = -n,
                              .ctime_ns = n * 10,
                              .ino = UINT64_MAX - (uint64_t)n};

    memset(mark.sha256.bytes, n, DIGEST_SIZE);
    return mark;
}

static void
add(struct watch_db *l, const char *path, int n)
{
    struct file_stamp mark = mark_of(n);

    assert_true(watch_db_add(l, path, n ? &mark : NULL));
}

#define assert_known(l, path, n)                                             \
    do {                                                                     \
        if (known(l, path) != n)                                             \
            fail_msg("%s is not as %d, but as %d", path, n, known(l, path)); \
    } while (0)

/* Which mark_of it is known as; 0: not known. */
static int
known(struct watch_db *l, const char *path)
{
    struct file_stamp mark;
    struct file_stamp wanted;
    bool is_known;

    assert_true(watch_db_file(l, path, &is_known, &mark));
    if (!is_known)
        return 0;
    wanted = mark_of((int)mark.size);
    assert_true(digest_is_equal(&mark.sha256, &wanted.sha256));
    assert_int_equal(mark.mtime_ns, wanted.mtime_ns);
    assert_int_equal(mark.ctime_ns, wanted.ctime_ns);
    assert_true(mark.ino == wanted.ino);
    return (int)mark.size;
}

static void
post(struct watch_db *l)
{
    bool is_new_log;

    assert_true(watch_db_seal(l, "[]", 2, 1));
    assert_true(watch_db_posted(l, "epoch", &is_new_log));
    assert_false(is_new_log);
}

static bool
unfinished(struct watch_db *l, struct watch_db_post *found)
{
    bool is_there;

    assert_true(watch_db_unfinished(l, found, &is_there));
    return is_there;
}

FIXTURE(tempdir_setup, tempdir_teardown);

/* a crash at each point of a post. */
TEST(neither_loses_nor_doubles_a_post)
{
    struct watch_db *l = open_ledger(state);
    struct watch_db_post first;
    struct watch_db_post again;
    bool is_new_log;

    add(l, "old", 1);
    add(l, "gone", 2);
    post(l);

    /* A crash before the seal leaves nothing of the post, and the watch finds
     * the changes again. */
    add(l, "old", 3);
    add(l, "gone", 0);
    assert_known(l, "old", 3);
    assert_known(l, "gone", 0);
    l = crash(state, l);
    assert_known(l, "old", 1);
    assert_known(l, "gone", 2);
    assert_false(unfinished(l, &first));

    /* Sealed, sent or not: the same bytes with the same key. */
    add(l, "old", 3);
    add(l, "gone", 0);
    add(l, "new", 4);
    assert_true(watch_db_seal(l, "[the \0 body]", 12, 3));
    assert_true(unfinished(l, &first));
    l = crash(state, l);
    assert_true(unfinished(l, &again));
    assert_string_equal(first.key, again.key);
    assert_int_equal(strlen(first.key), 32);
    assert_int_equal(again.size, 12);
    assert_memory_equal(again.body, "[the \0 body]", 12);
    assert_int_equal(again.n_entries, 3);
    free(again.body);

    /* Answered: the files are so, nothing is left to do. */
    assert_true(watch_db_posted(l, "epoch", &is_new_log));
    l = crash(state, l);
    assert_false(unfinished(l, &again));
    assert_known(l, "old", 3);
    assert_known(l, "gone", 0);
    assert_known(l, "new", 4);

    /* The next post has a key of its own. */
    add(l, "new", 5);
    assert_true(watch_db_seal(l, "[]", 2, 1));
    assert_true(unfinished(l, &again));
    assert_string_not_equal(first.key, again.key);
    free(first.body);
    free(again.body);
    watch_db_close(l);
}

/* The database forgets a post that was refused as a whole: the watch finds its
 * changes again. */
TEST(forgets_what_was_refused)
{
    struct watch_db *l = open_ledger(state);
    struct watch_db_post found;

    add(l, "a", 1);
    post(l);
    add(l, "a", 2);
    assert_true(watch_db_seal(l, "[]", 2, 1));
    assert_true(watch_db_drop(l));
    l = crash(state, l);
    assert_false(unfinished(l, &found));
    assert_known(l, "a", 1);

    add(l, "a", 2);
    watch_db_undo(l);
    assert_known(l, "a", 1);
    watch_db_close(l);
}

/* Only size and times: kept with the next save. */
TEST(notes_what_was_only_touched)
{
    struct watch_db *l = open_ledger(state);
    struct file_stamp mark = mark_of(1);
    bool is_known;

    add(l, "a", 1);
    post(l);
    mark.mtime_ns = 77;
    assert_true(watch_db_note(l, "a", &mark));
    assert_true(watch_db_save(l));
    l = crash(state, l);
    assert_true(watch_db_file(l, "a", &is_known, &mark));
    assert_int_equal(mark.mtime_ns, 77);
    watch_db_close(l);
}

/* In byte order, below a folder, with the paths of the current post. */
TEST(goes_through_the_paths_below_a_folder)
{
    static const char *const in_order[] = {"a",     "a b",    "a/b",
                                           "a/b/c", "a/\xff", "a0"};
    struct watch_db *l = open_ledger(state);
    char path[FILE_URI_PATH_MAX + 1] = "";
    bool is_there;
    size_t n = 0;

    for (size_t i = 0; i < 6; i += 2)
        add(l, in_order[i], 1);
    post(l);
    for (size_t i = 1; i < 6; i += 2)
        add(l, in_order[i], 2);
    add(l, "a/b", 0);

    for (;;) {
        assert_true(watch_db_next(l, "", path, &is_there));
        if (!is_there)
            break;
        assert_string_equal(path, in_order[n++]);
    }
    assert_int_equal(n, 6);

    path[0] = '\0';
    n = 0;
    while (watch_db_next(l, "a/", path, &is_there) && is_there)
        assert_string_equal(path, in_order[2 + n++]);
    assert_int_equal(n, 3);
    path[0] = '\0';
    assert_true(watch_db_next(l, "b/", path, &is_there));
    assert_false(is_there);
    watch_db_close(l);
}

/* The set has another log: changes that the watch posted to the old one are
 * missing in it. */
TEST(forgets_what_another_log_has)
{
    struct watch_db *l = open_ledger(state);
    bool is_new_log;

    add(l, "a", 1);
    post(l);
    add(l, "b", 2);
    assert_true(watch_db_seal(l, "[]", 2, 1));
    assert_true(watch_db_posted(l, "another", &is_new_log));
    assert_true(is_new_log);
    assert_known(l, "a", 0);
    assert_known(l, "b", 2);
    watch_db_close(l);
}

static void
refuses(void **state, const char *set_url, const char *base, const char *words)
{
    struct problem why = {""};
    struct watch_db l;

    assert_false(watch_db_open(&l, tempdir_path(state), set_url, base, &why));
    watch_db_close(&l);
    if (!strstr(why.text, words))
        fail_msg("%s", why.text);
}

/* One process at a time; one set and one base URI for good. */
TEST(belongs_to_one_watch)
{
    struct watch_db *l = open_ledger(state);

    refuses(state, SET, BASE, "is in use by process");
    watch_db_close(l);
    l = open_ledger(state);
    add(l, "a", 1);
    assert_true(watch_db_seal(l, "[]", 2, 1));
    watch_db_close(l);
    refuses(state, SET "2", BASE, "choose another --state");
    refuses(state, SET, BASE "b/", "choose another --state");

    /* Nothing was ever posted: it is nobody's again. */
    l = open_ledger(state);
    assert_true(watch_db_drop(l));
    watch_db_close(l);
    assert_true(watch_db_open(l, tempdir_path(state), SET "2", BASE,
                              &(struct problem){""}));
    watch_db_close(l);
}

/* Damage of the state is reported, and the file stays as it is. */
TEST(says_that_it_is_damaged)
{
    char noise[4000];

    memset(noise, 'x', sizeof(noise));
    noise[sizeof(noise) - 1] = '\0';
    tempdir_write(tempdir_fd(state), "watch.db", noise);
    refuses(state, SET, BASE, "not a database");
    assert_file(tempdir_fd(state), "watch.db", noise);
}
