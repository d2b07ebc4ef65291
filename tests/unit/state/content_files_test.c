#include "broker/state/content_files.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/folder.h"
#include "tests/support/kept.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"

struct folders {
    char set[300], arriving[300];
};

static struct folders
folders_of(void **state)
{
    struct folders f;

    snprintf(f.set, sizeof(f.set), "%s/sets/demo", tempdir_path(state));
    snprintf(f.arriving, sizeof(f.arriving), "%s/arriving",
             tempdir_path(state));
    assert_int_equal(arriving_clear(f.arriving, NULL), STATUS_OK);
    return f;
}

/* The path of text `n` in the test's directory. */
static char *
below_set(char to[KEPT_PATH_SIZE + 16], unsigned n)
{
    strcpy(to, "sets/demo/");
    kept_path(to + strlen(to), n);
    return to;
}

static void
assert_text(void **state, unsigned n)
{
    char path[KEPT_PATH_SIZE + 16], text[KEPT_SIZE];

    kept_text(text, n);
    assert_file(tempdir_fd(state), below_set(path, n), text);
}

FIXTURE(tempdir_setup, tempdir_teardown);

/* bytes that differ from the stated ones get no name, and
 * nothing of them is left. */
TEST(only_what_was_told_arrives)
{
    struct folders f = folders_of(state);
    char hash[DIGEST_TEXT_SIZE + 1], text[KEPT_SIZE];
    struct problem why = {""};
    struct arriving a;

    kept_hash(hash, 1);
    kept_text(text, 2);
    assert_int_equal(
        arriving_begin(&a, f.arriving, slice_of(hash), LENGTH_NONE, &why),
        STATUS_OK);
    assert_int_equal(folder_count(f.arriving), 1);
    assert_int_equal(arriving_add(&a, slice_of(text), &why), STATUS_OK);
    assert_int_equal(arriving_end(&a, &why), STATUS_INVALID);
    assert_non_null(strstr(why.text, "sha-256 is "));
    assert_non_null(strstr(why.text, hash + strlen("sha-256:")));
    arriving_abandon(&a);
    assert_int_equal(folder_count(f.arriving), 0);

    assert_int_equal(arriving_begin(&a, f.arriving, SLICE(""), 3, &why),
                     STATUS_OK);
    assert_int_equal(arriving_add(&a, SLICE("abc"), &why), STATUS_OK);
    assert_int_equal(arriving_add(&a, SLICE("d"), &why), STATUS_INVALID);
    arriving_abandon(&a);
    assert_int_equal(arriving_begin(&a, f.arriving, SLICE(""), 3, &why),
                     STATUS_OK);
    assert_int_equal(arriving_add(&a, SLICE("ab"), &why), STATUS_OK);
    assert_int_equal(arriving_end(&a, &why), STATUS_INVALID);
    assert_string_equal(why.text, "has 2 bytes, the source announced 3");
    arriving_abandon(&a);
    arriving_abandon(&a); /* harmless */
    assert_int_equal(folder_count(f.arriving), 0);
}

/* Equal bytes are one file, under the name that their digest says. */
TEST(equal_bytes_are_one_file)
{
    struct folders f = folders_of(state);
    struct digest digest;
    uint64_t length;

    kept_digest(&digest, 1);
    assert_int_equal(content_file_look(f.set, &digest, &length, NULL),
                     STATUS_NOT_FOUND);
    kept_place(f.set, f.arriving, 1);
    kept_place(f.set, f.arriving, 1);
    kept_place(f.set, f.arriving, 2);
    assert_int_equal(folder_count(f.arriving), 0);
    assert_true(kept_is_there(f.set, 1));
    assert_true(kept_is_there(f.set, 2));
    assert_false(kept_is_there(f.set, 3));
    assert_int_equal(content_file_look(f.set, &digest, &length, NULL),
                     STATUS_OK);
    assert_int_equal(length, kept_length(1));
    assert_text(state, 1);
}

/* A new post of the bytes mends a file that the disk has damaged. */
TEST(a_damaged_file_is_replaced)
{
    struct folders f = folders_of(state);
    char path[KEPT_PATH_SIZE + 16];

    kept_place(f.set, f.arriving, 1);
    tempdir_write(tempdir_fd(state), below_set(path, 1), "damaged");
    kept_place(f.set, f.arriving, 1);
    assert_text(state, 1);
    assert_int_equal(folder_count(f.arriving), 0);
}

/* A reader has an open file to the end, even after its deletion. */
TEST(what_is_open_outlives_its_name)
{
    struct folders f = folders_of(state);
    char text[KEPT_SIZE], is[KEPT_SIZE];
    struct digest digest;
    uint64_t length;
    int fd;

    kept_place(f.set, f.arriving, 1);
    kept_digest(&digest, 1);
    kept_text(text, 1);
    assert_int_equal(content_file_open(f.set, &digest, &fd, &length, NULL),
                     STATUS_OK);
    assert_int_equal(content_file_unlink(f.set, &digest, false, NULL),
                     STATUS_OK);
    assert_int_equal(content_file_unlink(f.set, &digest, false, NULL),
                     STATUS_OK);
    assert_false(kept_is_there(f.set, 1));
    assert_int_equal(read(fd, is, sizeof(is)), (ssize_t)length);
    assert_memory_equal(is, text, length);
    close(fd);
    assert_int_equal(content_file_open(f.set, &digest, &fd, &length, NULL),
                     STATUS_NOT_FOUND);
}

static enum status
count(const struct digest *digest, void *user, struct problem *why)
{
    unsigned *n = user;

    (void)digest;
    (void)why;
    ++*n;
    return STATUS_OK;
}

/* A look at all files skips names that are not ours. */
TEST(names_that_are_not_ours_are_passed_by)
{
    struct folders f = folders_of(state);
    char path[KEPT_PATH_SIZE + 16];
    unsigned n = 0;

    for (unsigned i = 0; i < 50; i++)
        kept_place(f.set, f.arriving, i);
    below_set(path, 1);
    path[strlen(path) - 1] = 'G';
    tempdir_write(tempdir_fd(state), path, "x");
    path[strlen(path) - 2] = '\0';
    tempdir_write(tempdir_fd(state), path, "x");
    for (unsigned i = 0; i < CONTENT_FOLDERS; i++)
        assert_int_equal(content_files_each(f.set, i, count, &n, NULL),
                         STATUS_OK);
    assert_int_equal(n, 50);
}

/* A crash leaves what was arriving; the next start does not. */
TEST(what_was_arriving_is_cleared_at_the_start)
{
    struct folders f = folders_of(state);
    struct arriving a;

    assert_int_equal(
        arriving_begin(&a, f.arriving, SLICE(""), LENGTH_NONE, NULL),
        STATUS_OK);
    assert_int_equal(arriving_add(&a, SLICE("abc"), NULL), STATUS_OK);
    assert_int_equal(arriving_end(&a, NULL), STATUS_OK);
    assert_int_equal(folder_count(f.arriving), 1);
    assert_int_equal(arriving_clear(f.arriving, NULL), STATUS_OK);
    assert_int_equal(folder_count(f.arriving), 0);
}
