/*
 * verify_directory_test.c - td_verify of directories: it sorts and proves their
 * files under any names, and finds damage where it is.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <zlib.h>

#include "client/tidings.h"
#include "tests/support/made_lists.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"

#define EPOCH "0123456789abcdef"
#define OTHER "fedcba9876543210"

struct stage {
    struct history history;
    struct history other;
    struct tempdir dir;
    struct td_client *client;
    struct buf text;
    struct td_proof proof;
    char told[1024]; /* by on_list */
};

static struct stage s;

static int
set_stage(void **state)
{
    (void)state;
    memset(&s, 0, sizeof(s));
    history_init(&s.history, EPOCH);
    history_init(&s.other, OTHER);
    tempdir_open(&s.dir);
    buf_init(&s.text, 1 << 20);
    s.client = td_open();
    assert_non_null(s.client);
    return 0;
}

static int
clear_stage(void **state)
{
    (void)state;
    td_close(s.client);
    history_fini(&s.history);
    history_fini(&s.other);
    tempdir_close(&s.dir);
    buf_fini(&s.text);
    return 0;
}

/* Writes s.text to the file, as gzip if it is called so. */
static void
save(const char *name)
{
    char path[600];
    bool is_gzip = strstr(name, ".gz") != NULL;
    gzFile gz;

    snprintf(path, sizeof(path), "%s/%s", s.dir.path, name);
    gz = gzopen(path, is_gzip ? "wb" : "wbT");
    assert_non_null(gz);
    assert_int_equal(gzwrite(gz, s.text.data, (unsigned)s.text.size),
                     s.text.size);
    assert_int_equal(gzclose(gz), Z_OK);
}

static void
make(const struct history *h, unsigned number, uint64_t after, uint64_t last,
     bool is_open)
{
    buf_clear(&s.text);
    made_list(&s.text, h, number, after, last, is_open);
}

/* Lists 1 to 4 with five entries each, the last one open with three. */
static void
save_all(void)
{
    for (unsigned i = 1; i <= 3; i++) {
        char name[40];

        make(&s.history, i, (i - 1) * 5, i * 5, false);
        snprintf(name, sizeof(name), "%012u.xml%s", i, i == 2 ? "" : ".gz");
        save(name);
    }
    make(&s.history, 4, 15, 18, true);
    save("000000000004.xml");
}

static void
on_list(const char *list, const struct td_proof *proof, void *user)
{
    (void)user;
    size_t n = strlen(s.told);

    snprintf(s.told + n, sizeof(s.told) - n, "%s:%llu ", strrchr(list, '/') + 1,
             (unsigned long long)proof->last);
}

static enum td_status
verify(void)
{
    s.told[0] = '\0';
    return td_verify(s.client, s.dir.path, on_list, NULL, &s.proof);
}

static void
assert_breaks(const char *file, uint64_t last, uint64_t at, const char *reason)
{
    assert_int_equal(verify(), TD_DIFFERENT);
    if (!strstr(td_problem(s.client), reason))
        fail_msg("\"%s\" is not in \"%s\"", reason, td_problem(s.client));
    assert_string_equal(strrchr(s.proof.broken_in, '/') + 1, file);
    assert_int_equal(s.proof.last, last);
    assert_int_equal(s.proof.broken_at, at);
}

FIXTURE(set_stage, clear_stage);

/* a copy is proven without its broker. */
TEST(a_copy_is_proven)
{
    save_all();
    assert_int_equal(verify(), TD_OK);

    assert_string_equal(s.told, "000000000001.xml.gz:5 000000000002.xml:10 "
                                "000000000003.xml.gz:15 000000000004.xml:18 ");
    assert_string_equal(td_problem(s.client), "");
    assert_int_equal(s.proof.n_lists, 4);
    assert_int_equal(s.proof.first, 1);
    assert_int_equal(s.proof.last, 18);
    assert_true(s.proof.is_from_start);
    assert_string_equal(s.proof.position, EPOCH "-18");
    assert_string_equal(s.proof.from, "2026-01-01T00:00:00.000000Z");
    assert_string_equal(s.proof.until, "2026-01-01T00:00:18.000000Z");
    assert_memory_equal(s.proof.digest, "sha-256:", 8);
    assert_string_equal(s.proof.broken_in, "");
}

/* Lists may lie anywhere, among other documents and under other names. */
TEST(lists_are_found_wherever_they_are)
{
    char path[600];

    snprintf(path, sizeof(path), "%s/a", s.dir.path);
    assert_int_equal(mkdir(path, 0755), 0);
    strcat(path, "/b");
    assert_int_equal(mkdir(path, 0755), 0);
    save_all();
    buf_clear(&s.text);
    BUF_ADD(&s.text, "<html><body>no list</body></html>\n");
    save("index.xml");
    make(&s.history, 1, 0, 5, false);
    made_edit(&s.text, "changelist", "resourcelist");
    save("a/000000000001.xml");
    make(&s.history, 5, 18, 20, true);
    save("a/b/newest.xml.gz");
    make(&s.history, 4, 15, 18, false);
    save("000000000004.xml");

    assert_int_equal(verify(), TD_OK);

    assert_int_equal(s.proof.last, 20);
    assert_int_equal(s.proof.n_lists, 5);
}

TEST(a_copy_without_its_beginning_is_proven_from_there)
{
    save_all();
    assert_int_equal(unlinkat(s.dir.fd, "000000000001.xml.gz", 0), 0);
    assert_int_equal(verify(), TD_OK);

    assert_false(s.proof.is_from_start);
    assert_int_equal(s.proof.first, 6);
    assert_int_equal(s.proof.last, 18);
}

TEST(a_missing_file_is_found)
{
    save_all();
    assert_int_equal(unlinkat(s.dir.fd, "000000000002.xml", 0), 0);

    assert_breaks("000000000003.xml.gz", 5, 5, "entries 6 to 10 are missing");
}

TEST(a_flipped_byte_is_found_in_its_file)
{
    save_all();
    make(&s.history, 2, 5, 10, false);
    made_edit(&s.text, "n=7&amp;", "n=1&amp;");
    save("000000000002.xml");

    assert_breaks("000000000002.xml", 5, 5,
                  "an entry from 6 to 10 was altered");
}

/* Two files that changed their names are the same two lists; two that changed
 * their content are not. */
TEST(swapped_lists_are_found)
{
    save_all();
    make(&s.history, 2, 10, 15, false);
    save("000000000002.xml");
    make(&s.history, 3, 5, 10, false);
    save("000000000003.xml.gz");

    assert_breaks("000000000003.xml.gz", 5, 5,
                  "its link prev is 000000000002.xml");
}

TEST(a_damaged_file_is_named)
{
    int fd;

    save_all();
    fd = openat(s.dir.fd, "000000000003.xml.gz", O_RDWR);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, 300), 0);
    assert_breaks("000000000003.xml.gz", 10, 10, "its gzip is damaged");
    assert_int_equal(ftruncate(fd, 0), 0);
    assert_breaks("000000000003.xml.gz", 10, 10, "it ends");
    close(fd);

    /* The last of all has no next one to be missed by. */
    buf_clear(&s.text);
    save_all();
    make(&s.history, 4, 15, 18, true);
    s.text.size = 40;
    save("000000000004.xml");
    assert_breaks("000000000004.xml", 15, 15, "it ends");
}

/* No path has a query or a fragment. */
TEST(a_damaged_file_is_named_whatever_its_directory_is_called)
{
    assert_int_equal(mkdirat(s.dir.fd, "a#b?c", 0755), 0);
    make(&s.history, 1, 0, 5, false);
    save("a#b?c/000000000001.xml");
    make(&s.history, 2, 5, 10, false);
    s.text.size = 40;
    save("a#b?c/000000000002.xml");
    assert_breaks("000000000002.xml", 5, 5, "it ends");
}

TEST(a_file_of_another_history_is_found)
{
    save_all();
    make(&s.other, 2, 5, 10, false);
    save("000000000002.xml");

    assert_breaks("000000000002.xml", 5, 5, "another history");
}

/* An older copy of the open list has a part of the same entries. */
TEST(copies_of_a_list_have_to_tell_the_same)
{
    save_all();
    make(&s.history, 3, 10, 12, true);
    save("latest.xml");
    make(&s.history, 3, 10, 15, false);
    save("copy.xml.gz");
    assert_int_equal(verify(), TD_OK);
    assert_int_equal(s.proof.n_lists, 4);

    made_edit(&s.text, "news/000000000004", "olds/000000000004");
    save("copy.xml.gz");
    assert_int_equal(verify(), TD_DIFFERENT);
    assert_non_null(strstr(td_problem(s.client),
                           "a closed list is there twice, with other bytes"));
    assert_int_equal(unlinkat(s.dir.fd, "copy.xml.gz", 0), 0);

    made_edit(&s.text, "rel=\"next\"", "rel=\"none\"");
    make(&s.history, 3, 10, 12, true);
    made_edit(&s.text, "n=11&amp;", "n=71&amp;");
    save("latest.xml");
    assert_int_equal(verify(), TD_DIFFERENT);
    assert_string_equal(strrchr(s.proof.broken_in, '/'), "/latest.xml");
}

TEST(histories_of_several_sets_are_one_at_a_time)
{
    char path[600];

    snprintf(path, sizeof(path), "%s/a", s.dir.path);
    assert_int_equal(mkdir(path, 0755), 0);
    save_all();
    make(&s.other, 1, 0, 5, false);
    save("a/000000000001.xml");

    assert_int_equal(verify(), TD_INVALID);
    assert_non_null(strstr(td_problem(s.client), "lists of several sets"));
}

TEST(a_directory_without_lists_is_no_proof)
{
    assert_int_equal(verify(), TD_IO);
    assert_non_null(strstr(td_problem(s.client), "only the broker has"));
    assert_int_equal(
        td_verify(s.client, "/proc/nowhere/at/all", NULL, NULL, NULL), TD_IO);
    assert_non_null(strstr(td_problem(s.client), "/proc/nowhere/at/all"));
    assert_int_equal(td_verify(s.client, "", NULL, NULL, NULL), TD_INVALID);
}

TEST(it_can_be_stopped)
{
    save_all();
    td_stop(s.client);

    assert_int_equal(verify(), TD_STOPPED);
    assert_int_equal(verify(), TD_OK);
}
