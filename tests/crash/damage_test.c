/*
 * damage_test.c - files of the data directory that are damaged, missing or
 * somebody else's: found before anything is written over, and named.
 */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sqlite3.h>

#include "tests/support/data.h"
#include "tests/support/gzip.h"
#include "tests/support/lists.h"
#include "tests/support/patience.h"
#include "tests/support/refusal.h"
#include "tests/support/source.h"
#include "tests/test.h"

#define DB        "tidings.db"
#define PAGE_SIZE 16384

struct stage {
    struct lists lists;
    char said[4000];
};

static int
set_stage(void **state)
{
    *state = calloc(1, sizeof(struct stage));
    return *state ? 0 : -1;
}

static int
clear_stage(void **state)
{
    struct stage *s = *state;

    if (s->lists.http.handle)
        lists_close(&s->lists);
    free(s);
    return 0;
}

/* A broker's directory: three closed lists with files, and entries that are in
 * the database alone. */
static void
begin(struct stage *s)
{
    LISTS_OPEN(&s->lists, "--rotate-entries", "100", "--tail-bytes", "1M");
    source_post(&s->lists.http, LISTS_SET, 1, 350, 3000);
    lists_await_file(&s->lists, 3);
}

/* A file of the data directory; lent until the next call. */
static const char *
path_in(const struct stage *s, const char *name)
{
    static char path[600];

    snprintf(path, sizeof(path), "%s/%s", s->lists.broker.data, name);
    return path;
}

/* A start ends with 1, names the file, and has changed nothing. */
static void
assert_not_started(struct stage *s, const char *name, const char *reason)
{
    struct digest before = data_sum(s->lists.broker.data), after;
    int status;

    status = broker_run(s->said, sizeof(s->said), "--listen", "127.0.0.1:0",
                        "--data", s->lists.broker.data, NULL);
    after = data_sum(s->lists.broker.data);
    if (status != 1 || !strstr(s->said, path_in(s, name)) ||
        !strstr(s->said, reason) || strstr(s->said, "ready"))
        fail_msg("%d, not for %s: %s", status, reason, s->said);
    assert_memory_equal(before.bytes, after.bytes, DIGEST_SIZE);
}

/* Ways to damage a file */

static void
overwrite(const char *path, off_t at, const void *bytes, size_t size)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);

    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, bytes, size, at), size);
    close(fd);
}

static off_t
size_of(const char *path)
{
    struct stat st;

    assert_int_equal(stat(path, &st), 0);
    return st.st_size;
}

static void
copy(const char *from, const char *to)
{
    char command[1300];

    snprintf(command, sizeof(command), "cp -a '%s' '%s'", from, to);
    assert_int_equal(system(command), 0);
}

/* Does `spoil` to the database, looks at a start, and puts it back. */
static void
spoil_database(struct stage *s, void (*spoil)(const char *path),
               const char *reason)
{
    char kept[600], path[600];

    snprintf(path, sizeof(path), "%s", path_in(s, DB));
    snprintf(kept, sizeof(kept), "%s/kept", s->lists.broker.dir.path);
    copy(path, kept);
    spoil(path);
    assert_not_started(s, DB, reason);
    remove(path);
    assert_int_equal(rename(kept, path), 0);
}

static void
write_garbage(const char *path)
{
    char garbage[100];

    memset(garbage, 'x', sizeof(garbage));
    overwrite(path, 0, garbage, sizeof(garbage));
}

static void
cut_in_half(const char *path)
{
    assert_int_equal(truncate(path, size_of(path) / PAGE_SIZE / 2 * PAGE_SIZE),
                     0);
}

static void
cut_to_nothing(const char *path)
{
    assert_int_equal(truncate(path, 0), 0);
}

static void
take_away(const char *path)
{
    assert_int_equal(unlink(path), 0);
}

static void
put_a_directory(const char *path)
{
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0755), 0);
}

static void
put_a_text(const char *path)
{
    FILE *file = fopen(path, "we");

    assert_non_null(file);
    fputs("<html>this is not what you are looking for</html>\n", file);
    fclose(file);
}

/* Somebody else's; with and without a WAL of its own. */
static void
put_another(const char *path, const char *mode)
{
    sqlite3 *db;

    assert_int_equal(unlink(path), 0);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, mode, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db,
                                  "CREATE TABLE sets (a, b);"
                                  "INSERT INTO sets VALUES (1, 2)",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static void
put_another_without_wal(const char *path)
{
    put_another(path, "PRAGMA journal_mode=DELETE");
}

static void
put_another_with_wal(const char *path)
{
    put_another(path, "PRAGMA journal_mode=WAL");
}

static void
put_another_of_a_version(const char *path)
{
    put_another(path, "PRAGMA journal_mode=WAL; PRAGMA user_version=2");
}

static void
make_it_newer(const char *path)
{
    sqlite3 *db;

    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(
        sqlite3_exec(db, "PRAGMA user_version=4711", NULL, NULL, NULL),
        SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

/* An overflow page in the middle of a chain: it begins with the number of the
 * next one, and a page of a tree with its kind. */
static bool
is_in_chain(const unsigned char *page, off_t n_pages)
{
    off_t next = (off_t)page[1] << 16 | page[2] << 8 | page[3];

    return page[0] == 0 && next > 0 && next <= n_pages;
}

/* Whichever page it is, it is missed. Of those of a chain some will do. */
static void
check_zeroed_pages(struct stage *s)
{
    static const char zeros[PAGE_SIZE];
    static unsigned char page[PAGE_SIZE];
    unsigned n_trees = 0, n_chains = 0;
    char path[600];
    off_t size;

    snprintf(path, sizeof(path), "%s", path_in(s, DB));
    size = size_of(path);
    for (off_t at = PAGE_SIZE; at < size; at += PAGE_SIZE) {
        int fd = open(path, O_RDONLY | O_CLOEXEC);

        assert_true(fd >= 0);
        assert_int_equal(pread(fd, page, PAGE_SIZE, at), PAGE_SIZE);
        close(fd);
        if (page[0] == 0 &&
            (!is_in_chain(page, size / PAGE_SIZE) || n_chains++ % 10))
            continue;
        n_trees += page[0] != 0;
        overwrite(path, at, zeros, PAGE_SIZE);
        assert_not_started(s, DB, "");
        overwrite(path, at, page, PAGE_SIZE);
    }
    assert_true(n_trees >= 4 && n_chains >= 20);
}

/* One with the old entries of the set, which the WAL does not have. */
static void
zero_a_page(const char *path)
{
    static const char zeros[PAGE_SIZE];
    static unsigned char page[PAGE_SIZE];
    off_t size = size_of(path), at = size;
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    assert_true(fd >= 0);
    do {
        at -= PAGE_SIZE;
        assert_true(at > 0);
        assert_int_equal(pread(fd, page, PAGE_SIZE, at), PAGE_SIZE);
    } while (!is_in_chain(page, size / PAGE_SIZE) ||
             !memmem(page, PAGE_SIZE, "example.com/r/34", 16));
    close(fd);
    overwrite(path, at, zeros, PAGE_SIZE);
}

FIXTURE(set_stage, clear_stage);

/* what is there is what is left to be rescued. */
TEST(a_start_refuses_a_damaged_database_and_leaves_it)
{
    struct stage *s = *state;

    begin(s);
    broker_stop(&s->lists.broker);
    spoil_database(s, write_garbage, "not a database");
    spoil_database(s, cut_in_half, "malformed");
    spoil_database(s, cut_to_nothing, "missing or empty");
    spoil_database(s, take_away, "missing or empty");
    spoil_database(s, put_a_directory, "Is a directory");
    spoil_database(s, put_a_text, "not a database");
    spoil_database(s, put_another_without_wal, "journal mode");
    spoil_database(s, put_another_with_wal, "another program");
    spoil_database(s, put_another_of_a_version, "another program");
    spoil_database(s, make_it_newer, "version 4711");

    broker_restart(&s->lists.broker);
    walk_all(&s->lists.walk);
    assert_int_equal(s->lists.walk.trace.last, 350);
}

/* The same after a crash, when the WAL has not been copied into it: what cannot
 * be read must not swallow the WAL either. */
TEST(a_start_after_a_crash_leaves_the_log_of_a_damaged_database)
{
    struct stage *s = *state;

    begin(s);
    broker_stop(&s->lists.broker);
    broker_restart(&s->lists.broker);
    source_post(&s->lists.http, LISTS_SET, 351, 20, 3000);
    broker_kill9(&s->lists.broker);
    assert_true(size_of(path_in(s, DB "-wal")) > 20 * 3000);

    spoil_database(s, cut_to_nothing, "missing or empty");
    spoil_database(s, take_away, "missing or empty");
    spoil_database(s, put_a_directory, "Is a directory");
    spoil_database(s, zero_a_page, "damaged");

    broker_restart(&s->lists.broker);
    walk_all(&s->lists.walk);
    assert_int_equal(s->lists.walk.trace.last, 370);
}

/* The same for pages that hold nothing but zeros now. */
TEST(a_start_misses_every_page_of_the_database)
{
    struct stage *s = *state;

    LISTS_OPEN(&s->lists, "--rotate-age", "0");
    for (unsigned i = 0; i < 3; i++)
        source_post(&s->lists.http, LISTS_SET, 100 * i + 1, 100, 3000);
    broker_stop(&s->lists.broker);
    check_zeroed_pages(s);

    broker_restart(&s->lists.broker);
    walk_all(&s->lists.walk);
    assert_int_equal(s->lists.walk.trace.last, 300);
}

/* The first start may end anywhere: there is nothing to be lost yet. */
TEST(a_directory_that_never_had_a_database_is_no_damage)
{
    struct stage *s = *state;

    LISTS_OPEN(&s->lists, "--rotate-entries", "100");
    broker_stop(&s->lists.broker);
    cut_to_nothing(path_in(s, DB));
    broker_restart(&s->lists.broker);
    source_post(&s->lists.http, LISTS_SET, 1, 3, 0);
}

/* Bytes of entries that are other ones now: no page of SQLite's is amiss. They
 * are not told as history, nor filed; everything else is there. */
TEST(entries_that_are_damaged_are_not_served_nor_filed)
{
    static char bytes[1 << 22];
    struct stage *s = *state;
    const char *at;
    FILE *file;
    size_t size;

    LISTS_OPEN(&s->lists, "--rotate-entries", "100", "--tail-bytes", "1M");
    source_post(&s->lists.http, LISTS_SET, 1, 50, 3000);
    source_post(&s->lists.http, "other", 1, 50, 0);
    broker_stop(&s->lists.broker);
    file = fopen(path_in(s, DB), "re");
    assert_non_null(file);
    size = fread(bytes, 1, sizeof(bytes), file);
    fclose(file);
    at = memmem(bytes, size, "example.com/r/30<", 17);
    assert_non_null(at);
    overwrite(path_in(s, DB), at + 14 - bytes, "99", 2);

    broker_restart(&s->lists.broker);
    assert_int_not_equal(
        http_get(&s->lists.http, "/sets/" LISTS_SET "/changes?after=0"), 200);
    assert_true(broker_said(&s->lists.broker, "damaged"));
    source_rotate(&s->lists.http, LISTS_SET);
    source_rotate(&s->lists.http, "other");
    assert_int_equal(source_post(&s->lists.http, LISTS_SET, 51, 1, 0).last, 51);
    assert_int_equal(http_get(&s->lists.http, "/sets/other/changes?after=0"),
                     200);
    for (int left = PATIENCE_MS / LISTS_LOOK_MS;
         access(path_in(s, "sets/other/changes/000000000001.xml.gz"), F_OK);
         left--) {
        assert_true(left > 0);
        poll(NULL, 0, LISTS_LOOK_MS);
    }
    assert_false(lists_has_file(&s->lists, 1));
}

/* Files of closed lists */

static void
spoil_middle(const char *path)
{
    overwrite(path, size_of(path) / 2, "\xff\xff\xff\xff\xff\xff\xff\xff", 8);
}

static void
spoil_end(const char *path)
{
    assert_int_equal(truncate(path, size_of(path) - 20), 0);
}

/* A valid file, but of something else. */
static void
put_another_list(const char *path)
{
    struct buf packed;
    FILE *file = fopen(path, "we");

    assert_non_null(file);
    buf_init(&packed, 65536);
    gzip_add(&packed, SLICE("<urlset/>\n"));
    assert_int_equal(fwrite(packed.data, 1, packed.size, file), packed.size);
    fclose(file);
    buf_fini(&packed);
}

/* What is wrong with list 2 is not told as if it were right. */
static void
check_list_2(struct stage *s, long status, const struct buf *list)
{
    struct http *h = &s->lists.http;

    assert_int_equal(http_get(h, lists_path(&s->lists, 2)), status);
    if (status == 200)
        lists_assert(&s->lists, 2, list);
    if (status > 200)
        assert_refused(h, status, "");
    if (status > 200)
        http_get(h, "/sets/" LISTS_SET "/changes?after=100");
    if (status > 200)
        assert_refused(h, status, "");
    assert_true(broker_said(&s->lists.broker, "000000000002.xml.gz"));
}

/* Nothing else is touched by it. */
static void
check_others(struct stage *s, const struct buf *lists)
{
    struct http *h = &s->lists.http;

    lists_assert(&s->lists, 1, &lists[1]);
    lists_assert(&s->lists, 3, &lists[3]);
    assert_int_equal(http_get(h, "/sets/" LISTS_SET "/changelist.xml"), 200);
    assert_int_equal(http_get(h, "/sets/" LISTS_SET "/changelist-archive.xml"),
                     200);
    assert_int_equal(http_get(h, "/sets/" LISTS_SET "/changes?after=200"), 200);
    source_post(h, "other", 1, 1, 0);
}

/* A clear diagnostic and an error for that document; others
 * are served, changes taken; nothing is written over; and it is there again
 * when the file is. R-139 */
TEST(a_list_whose_file_is_damaged_is_missing_alone)
{
    static const struct {
        void (*spoil)(const char *);
        long status;    /* 0: it breaks off */
        bool is_packed; /* the file is still sent as gzip, whose own check
                           tells the client */
    } cases[] = {
        {take_away, 500, false},        {put_a_directory, 500, false},
        {cut_in_half, 500, false},      {cut_to_nothing, 500, false},
        {put_another_list, 500, false}, {spoil_end, 200, false},
        {spoil_middle, 0, true},
    };
    struct stage *s = *state;
    struct http *h = &s->lists.http;
    char path[600], kept[600];
    struct buf lists[4];

    begin(s);
    for (unsigned n = 1; n <= 3; n++)
        lists[n] = lists_copy(&s->lists, n);
    snprintf(path, sizeof(path), "%s",
             path_in(s, "sets/" LISTS_SET "/changes/000000000002.xml.gz"));
    snprintf(kept, sizeof(kept), "%s/kept", s->lists.broker.dir.path);
    copy(path, kept);

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        broker_stop(&s->lists.broker);
        cases[i].spoil(path);
        broker_restart(&s->lists.broker);
        check_list_2(s, cases[i].status, &lists[2]);
        http_ask(h, "GET", lists_path(&s->lists, 2), "Accept-Encoding: gzip",
                 NULL);
        assert_int_equal(http_header(h, "Content-Encoding") != NULL,
                         cases[i].is_packed);
        check_others(s, lists);

        remove(path);
        copy(kept, path);
        lists_assert(&s->lists, 2, &lists[2]);
    }
    for (unsigned n = 1; n <= 3; n++)
        buf_fini(&lists[n]);
}
