/* Files that are read again when they change. Each test writes two files, the
 * halves of a group: they belong together if they have the same text. */
#include "broker/base/watched_files.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/clock.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"

#define MS     1000
#define SECOND 1000000

struct halves {
    struct tempdir dir;
    char paths[2][600];
    struct watched_files *files;
    char used[40]; /* the text of both */
    unsigned n_reads, n_reports;
    struct problem report;
};

static enum status
read_half(const char *path, char text[40], struct problem *why)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, 39);

    if (fd >= 0)
        close(fd);
    if (n < 0)
        return problem_errno(why, "cannot read", path);
    text[n] = '\0';
    return STATUS_OK;
}

static enum status
read_halves(void *user, size_t group, struct problem *why)
{
    struct halves *h = user;
    char a[40], b[40];
    enum status rc = read_half(h->paths[0], a, why);

    assert_int_equal(group, 0);
    h->n_reads++;
    if (!rc)
        rc = read_half(h->paths[1], b, why);
    if (!rc && strcmp(a, b))
        rc = problem(why, STATUS_IO, "%s is not %s", a, b);
    if (!rc)
        memcpy(h->used, a, sizeof(a));
    return rc;
}

static void
report_halves(void *user, const struct problem *why)
{
    struct halves *h = user;

    h->n_reports++;
    h->report = *why;
}

static void
write_halves(struct halves *h, const char *a, const char *b)
{
    if (a)
        tempdir_write(h->dir.fd, "a", a);
    if (b)
        tempdir_write(h->dir.fd, "b", b);
}

/* Watches the files `a` and `b` below the directory; NULL: none. */
static void
watch_halves(struct halves *h, const char *a, const char *b)
{
    struct watched_group group = {
        .paths = {h->paths[0], h->paths[1]},
    };
    static const struct watched_calls calls = {read_halves, report_halves};

    snprintf(h->paths[0], sizeof(h->paths[0]), "%s/%s", h->dir.path, a);
    snprintf(h->paths[1], sizeof(h->paths[1]), "%s/%s", h->dir.path, b);
    h->files = watched_files_new(&group, 1, &calls, h);
    assert_non_null(h->files);
    watched_files_look(h->files);
    watched_files_settle(h->files);
    assert_int_equal(watched_files_wait_ms(h->files), -1);
}

static int
setup(void **state)
{
    struct halves *h = calloc(1, sizeof(*h));

    tempdir_open(&h->dir);
    *state = h;
    return 0;
}

static int
teardown(void **state)
{
    struct halves *h = *state;

    watched_files_free(h->files);
    tempdir_close(&h->dir);
    free(h);
    return 0;
}

FIXTURE(setup, teardown);

static void
turn_after_us(struct halves *h, int64_t us)
{
    watched_files_turn(h->files);
    clock_pass_us(us);
    watched_files_turn(h->files);
}

static void
assert_used(struct halves *h, const char *text)
{
    turn_after_us(h, 100 * MS);
    assert_string_equal(h->used, text);
    assert_int_equal(watched_files_wait_ms(h->files), -1);
}

/* Ways to replace a file */

static void
swap_link(struct halves *h, const char *target, const char *name)
{
    assert_int_equal(symlinkat(target, h->dir.fd, "new"), 0);
    assert_int_equal(renameat(h->dir.fd, "new", h->dir.fd, name), 0);
}

static void
make_pair(struct halves *h, const char *folder, const char *text)
{
    char path[300];

    assert_int_equal(mkdirat(h->dir.fd, folder, 0700), 0);
    snprintf(path, sizeof(path), "%s/a", folder);
    tempdir_write(h->dir.fd, path, text);
    snprintf(path, sizeof(path), "%s/b", folder);
    tempdir_write(h->dir.fd, path, text);
}

TEST(files_that_are_written_in_place_are_read)
{
    struct halves *h = *state;

    write_halves(h, "one", "one");
    watch_halves(h, "a", "b");
    write_halves(h, "two", "two");
    assert_used(h, "two");
    assert_int_equal(h->n_reads, 1);
}

TEST(files_that_are_renamed_over_others_are_read)
{
    struct halves *h = *state;

    write_halves(h, "one", "one");
    watch_halves(h, "a", "b");
    for (const char *const *text =
             (const char *const[]){"two", "three", "four", NULL};
         *text; text++) {
        tempdir_write(h->dir.fd, "a.new", *text);
        tempdir_write(h->dir.fd, "b.new", *text);
        assert_int_equal(renameat(h->dir.fd, "a.new", h->dir.fd, "a"), 0);
        assert_int_equal(renameat(h->dir.fd, "b.new", h->dir.fd, "b"), 0);
        assert_used(h, *text);
    }
    assert_int_equal(h->n_reads, 3);
}

/* As Kubernetes does: a -> ..data/a, ..data -> ..1, and then ..data -> ..2. */
TEST(a_link_to_a_folder_is_redirected)
{
    struct halves *h = *state;

    make_pair(h, "..1", "one");
    swap_link(h, "..1", "..data");
    swap_link(h, "..data/a", "a");
    swap_link(h, "..data/b", "b");
    watch_halves(h, "a", "b");
    make_pair(h, "..2", "two");
    swap_link(h, "..2", "..data");
    assert_used(h, "two");
    tempdir_write(h->dir.fd, "..2/a", "three");
    tempdir_write(h->dir.fd, "..2/b", "three");
    assert_used(h, "three");
    make_pair(h, "..3", "four");
    swap_link(h, "..3", "..data");
    assert_used(h, "four");
    assert_int_equal(h->n_reads, 3);
}

/* The folder of the files is a link, to an absolute path. */
TEST(a_link_on_the_way_is_redirected)
{
    struct halves *h = *state;
    char target[300];

    make_pair(h, "one", "one");
    make_pair(h, "two", "two");
    swap_link(h, "one", "now");
    watch_halves(h, "now/../now/./a", "now//b");
    snprintf(target, sizeof(target), "%s/two", h->dir.path);
    swap_link(h, target, "now");
    assert_used(h, "two");
}

TEST(a_folder_is_replaced)
{
    struct halves *h = *state;

    make_pair(h, "now", "one");
    make_pair(h, "next", "two");
    watch_halves(h, "now/a", "now/b");
    assert_int_equal(renameat(h->dir.fd, "now", h->dir.fd, "old"), 0);
    watched_files_turn(h->files);
    assert_int_equal(renameat(h->dir.fd, "next", h->dir.fd, "now"), 0);
    assert_used(h, "two");
    tempdir_write(h->dir.fd, "now/a", "three");
    tempdir_write(h->dir.fd, "now/b", "three");
    assert_used(h, "three");
}

TEST(files_that_are_missing_at_first_are_read)
{
    struct halves *h = *state;

    watch_halves(h, "deep/deeper/a", "deep/deeper/b");
    assert_int_equal(mkdirat(h->dir.fd, "deep", 0700), 0);
    watched_files_turn(h->files);
    make_pair(h, "deep/deeper", "one");
    assert_used(h, "one");
}

TEST(links_in_a_circle_are_no_files)
{
    struct halves *h = *state;

    swap_link(h, "b", "a");
    swap_link(h, "a", "b");
    watch_halves(h, "a", "b");
    assert_int_equal(unlinkat(h->dir.fd, "a", 0), 0);
    assert_int_equal(unlinkat(h->dir.fd, "b", 0), 0);
    write_halves(h, "one", "one");
    assert_used(h, "one");
}

/* When */

TEST(other_files_of_the_folder_cause_nothing)
{
    struct halves *h = *state;

    write_halves(h, "one", "one");
    watch_halves(h, "a", "b");
    tempdir_write(h->dir.fd, "c", "two");
    turn_after_us(h, SECOND);
    assert_int_equal(h->n_reads, 0);
    assert_int_equal(watched_files_wait_ms(h->files), -1);
}

/* Nobody notices the moment when the halves do not fit. */
TEST(the_second_half_comes_later)
{
    struct halves *h = *state;

    write_halves(h, "one", "one");
    watch_halves(h, "a", "b");
    write_halves(h, "two", NULL);
    turn_after_us(h, 100 * MS);
    assert_int_equal(h->n_reads, 1);
    turn_after_us(h, 1900 * MS);
    write_halves(h, NULL, "two");
    assert_used(h, "two");
    turn_after_us(h, 10 * SECOND);
    assert_int_equal(h->n_reports, 0);
}

TEST(halves_that_do_not_fit_are_reported_once)
{
    struct halves *h = *state;

    write_halves(h, "one", "one");
    watch_halves(h, "a", "b");
    write_halves(h, "two", NULL);
    turn_after_us(h, 100 * MS);
    assert_int_equal(watched_files_wait_ms(h->files), 2000);
    turn_after_us(h, 1999 * MS);
    assert_int_equal(h->n_reports, 0);
    turn_after_us(h, MS);
    assert_int_equal(h->n_reports, 1);
    assert_string_equal(h->report.text, "two is not one");
    turn_after_us(h, 60 * SECOND);
    assert_int_equal(h->n_reports, 1);
    assert_int_equal(h->n_reads, 1);

    write_halves(h, NULL, "three"); /* wrong again */
    turn_after_us(h, 100 * MS);
    turn_after_us(h, 2 * SECOND);
    assert_int_equal(h->n_reports, 2);
    write_halves(h, NULL, "two");
    assert_used(h, "two");
    assert_int_equal(h->n_reports, 2);
}

TEST(changes_without_a_pause_are_read_once_a_second)
{
    struct halves *h = *state;

    write_halves(h, "one", "one");
    watch_halves(h, "a", "b");
    for (int i = 0; i < 30; i++) {
        write_halves(h, i % 2 ? "x" : "two", "two");
        turn_after_us(h, 90 * MS);
    }
    assert_int_equal(h->n_reads, 2);
}

TEST(a_change_that_the_owner_has_read_is_done)
{
    struct halves *h = *state;

    write_halves(h, "one", "one");
    watch_halves(h, "a", "b");
    write_halves(h, "two", NULL);
    turn_after_us(h, 100 * MS); /* bad */
    write_halves(h, NULL, "two");
    watched_files_look(h->files);
    watched_files_settle(h->files);
    turn_after_us(h, 10 * SECOND);
    assert_int_equal(h->n_reads, 1);
    assert_int_equal(h->n_reports, 0);
}

/* A reload gives the settings other files. */
TEST(other_names_are_other_files)
{
    struct halves *h = *state;

    write_halves(h, "one", "one");
    make_pair(h, "other", "two");
    watch_halves(h, "a", "b");
    snprintf(h->paths[0], sizeof(h->paths[0]), "%s/other/a", h->dir.path);
    snprintf(h->paths[1], sizeof(h->paths[1]), "%s/other/b", h->dir.path);
    watched_files_look(h->files);
    assert_used(h, "two");
    write_halves(h, "three", "three"); /* nobody watches these any more */
    turn_after_us(h, SECOND);
    assert_int_equal(h->n_reads, 1);
}

TEST(no_files_need_no_watching)
{
    struct watched_group group = {.paths = {"", NULL}};
    struct watched_files *files = watched_files_new(&group, 1, NULL, NULL);

    (void)state;
    watched_files_look(files);
    assert_int_equal(watched_files_fd(files), -1);
    assert_int_equal(watched_files_wait_ms(files), -1);
    watched_files_turn(files);
    watched_files_free(files);
}
