/*
 * survey_test.c - readings of a list, compared and numbered.
 */
#include "client/survey/survey.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <sqlite3.h>

#include "tests/clock.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"

#define SOURCE "http://e.org/sitemap.xml"
#define DAY    INT64_C(86400000000)

struct stage {
    struct tempdir dir;
    char path[300];
    struct survey *survey;
    struct source_limits room;
    struct problem why;
    int stop_fd;
    struct buf told;     /* "SEQ KIND NAME;" of differences */
    int64_t when_us;     /* of the last one */
    uint64_t n_left_out; /* rows of each document */
};

/* The disks: the file system of `full_path` is full from look `full_at` on. */
static unsigned full_at; /* 0: never */
static unsigned n_looks; /* at that file system */
static const char *full_path;

int
statvfs(const char *path, struct statvfs *fs)
{
    bool is_it = full_path && !strcmp(path, full_path);
    bool is_full = is_it && full_at && ++n_looks >= full_at;

    *fs = (struct statvfs){.f_frsize = 1, .f_bavail = is_full ? 99 : 100};
    return 0;
}

static void
fill_disk(const char *path, unsigned at)
{
    full_path = path;
    full_at = at;
    n_looks = 0;
}

static void
open_listing(struct stage *s)
{
    survey_close(s->survey);
    s->survey = survey_open(s->path, SOURCE, &s->room, s->stop_fd, &s->why);
}

static int
set_stage(void **state)
{
    struct stage *s = calloc(1, sizeof(*s));

    assert_non_null(s);
    tempdir_open(&s->dir);
    fill_disk(NULL, 0);
    snprintf(s->path, sizeof(s->path), "%s/list", s->dir.path);
    buf_init(&s->told, 1 << 20);
    s->stop_fd = eventfd(0, EFD_CLOEXEC);
    open_listing(s);
    assert_non_null(s->survey);
    *state = s;
    return 0;
}

static int
clear_stage(void **state)
{
    struct stage *s = *state;

    survey_close(s->survey);
    close(s->stop_fd);
    tempdir_close(&s->dir);
    buf_fini(&s->told);
    free(s);
    return 0;
}

FIXTURE(set_stage, clear_stage);

/* A resource "NAME", "NAME@DAY", "NAME#LENGTH" or "NAME=HASH". */
static bool
try_to_add(struct stage *s, const char *word, size_t size)
{
    struct document_entry entry = {.when_us = DATETIME_NONE};
    char loc[80];
    char hash[80];
    size_t name = strcspn(word, "@#= ");
    char what = name < size ? word[name] : '\0';

    change_init(&entry.change);
    snprintf(loc, sizeof(loc), "http://e.org/%.*s", (int)name, word);
    entry.change.loc = slice_of(loc);
    if (what == '@')
        entry.change.lastmod_us = atoi(word + name + 1) * DAY;
    if (what == '#')
        entry.change.length = (uint64_t)atoi(word + name + 1);
    if (what == '=') {
        snprintf(hash, sizeof(hash), "%.*s", (int)(size - name - 1),
                 word + name + 1);
        entry.change.hash = slice_of(hash);
    }
    return survey_add(s->survey, &entry);
}

static void
add(struct stage *s, const char *word, size_t size)
{
    assert_true(try_to_add(s, word, size));
}

/* A document with resources. `version` NULL: its answer has no validator. */
static void
document(struct stage *s, const char *url, const char *version,
         const char *words)
{
    struct survey_version known;
    struct survey_version is = {.etag = ""};

    assert_true(survey_document(s->survey, url, &known));
    while (*words) {
        size_t size = strcspn(words, " ");

        add(s, words, size);
        words += size + strspn(words + size, " ");
    }
    if (version)
        snprintf(is.etag, sizeof(is.etag), "%s", version);
    assert_true(
        survey_document_end(s->survey, version ? &is : NULL, s->n_left_out));
}

/* The same again, by its version. */
static void
same(struct stage *s, const char *url, const char *version)
{
    struct survey_version known;

    assert_true(survey_document(s->survey, url, &known));
    assert_string_equal(known.etag, version);
    if (version[0])
        assert_true(survey_document_same(s->survey));
}

static enum status
on_change(const struct document_entry *entry, const struct document_head *head,
          void *user)
{
    struct stage *s = user;

    (void)head;
    assert_true(entry->has_kind);
    assert_true(entry->when_us >= s->when_us);
    s->when_us = entry->when_us;
    buf_add_format(&s->told, "%d %s %.*s;", (int)entry->change.seq,
                   change_kind_names[entry->change.kind],
                   (int)entry->change.loc.size - 13,
                   entry->change.loc.data + 13);
    return STATUS_OK;
}

static void
assert_changes(struct stage *s, uint64_t after, const char *expected)
{
    static const struct document_events events = {.on_entry = on_change};

    buf_clear(&s->told);
    s->when_us = 0;
    assert_true(survey_changes(s->survey, after, 1000, &events, s));
    BUF_ADD(&s->told, "\0");
    assert_string_equal(s->told.data, expected);
}

static const struct survey_guard a_fifth = {.max_percent = 20};
static const struct survey_guard no_limit = {.max_percent = -1};

static void
compare(struct stage *s)
{
    assert_true(survey_compare(s->survey, &a_fifth));
}

static void
read_list(struct stage *s, const char *words)
{
    assert_true(survey_begin(s->survey));
    document(s, SOURCE, NULL, words);
    compare(s);
}

/* created and updated resources in the order of the list, then deleted
 * ones. */
TEST(differences_are_numbered)
{
    struct stage *s = *state;
    const struct survey_extent *extent = &s->survey->extent;

    assert_false(extent->is_read);
    read_list(s, "a@1 b@1 c@1 d");
    assert_true(extent->is_read);
    assert_int_equal(extent->n_resources, 4);
    assert_changes(s, 0, "1 created a;2 created b;3 created c;4 created d;");
    read_list(s, "e b@2 c@1 d");
    assert_int_equal(extent->last, 7);
    assert_changes(s, 4, "5 created e;6 updated b;7 deleted a;");
    assert_changes(s, 6, "7 deleted a;");
    read_list(s, "e b@2 c@1 d");
    assert_int_equal(extent->last, 7);
}

/* Each row: a resource in two readings, and whether the second one differs. */
TEST(a_resource_differs_by_lastmod_hash_or_length)
{
    static const struct {
        const char *was, *is;
        bool differs;
    } rows[] = {
        {"a", "a", false},
        {"a@1", "a@1", false},
        {"a@1", "a@2", true},
        {"a@2", "a@1", true},
        {"a#1", "a#1", false},
        {"a#1", "a#2", true},
        {"a=md5:0123", "a=md5:0123", false},
        {"a=md5:01ab", "a=md5:01AB", false},
        {"a=md5:0123", "a=md5:0124", true},
        {"a", "a@1", true}, /* listed again, and nothing to compare it with */
        {"a@1", "a", true},
        {"a@1", "a#1", true},
        {"a=md5:0123", "a=sha-1:0123", true},
    };
    struct stage *s = *state;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint64_t last;

        assert_true(survey_clear(s->survey));
        read_list(s, rows[i].was);
        last = s->survey->extent.last;
        read_list(s, rows[i].is);
        if ((s->survey->extent.last > last) != rows[i].differs)
            fail_msg("%s, then %s", rows[i].was, rows[i].is);
    }
}

/* A program that is started again finds the last reading and its differences.
 */
TEST(all_is_there_again)
{
    struct stage *s = *state;
    char epoch[EPOCH_SIZE + 1];

    strcpy(epoch, s->survey->extent.epoch);
    read_list(s, "a b");
    assert_true(survey_begin(s->survey)); /* never ended */
    document(s, SOURCE, NULL, "c");
    open_listing(s);
    assert_string_equal(s->survey->extent.epoch, epoch);
    assert_int_equal(s->survey->extent.last, 2);
    assert_changes(s, 1, "2 created b;");
    read_list(s, "b c");
    assert_changes(s, 2, "3 created c;4 deleted a;");
}

/* The survey keeps the differences of the last two readings that found any. */
TEST(old_differences_are_forgotten)
{
    struct stage *s = *state;
    const struct survey_extent *extent = &s->survey->extent;

    read_list(s, "a");
    read_list(s, "a b");
    assert_int_equal(extent->oldest, 0);
    read_list(s, "a b"); /* found none */
    read_list(s, "a b c");
    assert_int_equal(extent->oldest, 1);
    read_list(s, "a b c d");
    assert_int_equal(extent->oldest, 2);
    assert_changes(s, 0, "3 created c;4 created d;");
    assert_true(survey_begin(s->survey));
    document(s, SOURCE, NULL, "x");
    assert_true(survey_take(s->survey));
    assert_int_equal(extent->oldest, 5);
    assert_int_equal(extent->last, 5);
    assert_changes(s, 0, "");
    read_list(s, "x y");
    assert_changes(s, 5, "6 created y;");
}

/* RFC 9110 section 13: an unchanged document is not read, and its resources
 * stay. */
TEST(documents_that_have_not_changed_are_not_read)
{
    struct stage *s = *state;

    assert_true(survey_begin(s->survey));
    document(s, "http://e.org/1", "one", "a b");
    document(s, "http://e.org/2", "two", "c d");
    document(s, "http://e.org/3", NULL, "");
    compare(s);
    assert_true(survey_begin(s->survey));
    same(s, "http://e.org/1", "one");
    document(s, "http://e.org/2", "more", "c e");
    same(s, "http://e.org/3", "");
    compare(s);
    assert_changes(s, 4, "5 created e;6 deleted d;");
    assert_true(survey_begin(s->survey));
    same(s, "http://e.org/1", "one");
    same(s, "http://e.org/2", "more");
    compare(s);
    assert_changes(s, 6, "");
    assert_true(survey_begin(s->survey)); /* the second is not there */
    same(s, "http://e.org/1", "one");
    compare(s);
    assert_changes(s, 6, "7 deleted c;8 deleted e;");
}

/* The list has a resource of two documents as long as one has it, whichever of
 * them has changed. */
TEST(a_resource_of_two_documents_is_deleted_with_both)
{
    struct stage *s = *state;

    assert_true(survey_begin(s->survey));
    document(s, "http://e.org/1", "one", "a b");
    document(s, "http://e.org/2", "two", "b c");
    compare(s);
    assert_true(survey_begin(s->survey));
    same(s, "http://e.org/1", "");
    document(s, "http://e.org/1", "one", "a b");
    document(s, "http://e.org/2", "three", "c");
    compare(s);
    assert_changes(s, 3, "");
    assert_true(survey_begin(s->survey)); /* now it moves to the second */
    same(s, "http://e.org/1", "one");
    document(s, "http://e.org/2", "four", "b c");
    compare(s);
    assert_true(survey_begin(s->survey));
    same(s, "http://e.org/1", "");
    document(s, "http://e.org/1", "five", "a");
    same(s, "http://e.org/2", "");
    document(s, "http://e.org/2", "four", "b c");
    compare(s);
    assert_changes(s, 3, "");
    assert_true(survey_begin(s->survey));
    same(s, "http://e.org/1", "five");
    document(s, "http://e.org/2", "six", "c");
    compare(s);
    assert_changes(s, 3, "4 deleted b;");
}

/* Any number of documents may share a resource. The next reading reads all of
 * them again. */
TEST(a_resource_of_three_documents_is_deleted_with_all)
{
    struct stage *s = *state;

    assert_true(survey_begin(s->survey));
    document(s, "http://e.org/1", "one", "a b");
    document(s, "http://e.org/2", "two", "b");
    document(s, "http://e.org/3", "three", "b");
    compare(s);
    assert_true(survey_begin(s->survey));
    same(s, "http://e.org/1", "");
    document(s, "http://e.org/1", "one", "a b");
    same(s, "http://e.org/2", "");
    document(s, "http://e.org/2", "four", "c");
    same(s, "http://e.org/3", "");
    document(s, "http://e.org/3", "five", "d");
    compare(s);
    assert_changes(s, 2, "3 created c;4 created d;");
}

/* Resources of an attempt that broke off may be missing from the document now:
 * the next attempt reads it again and drops them. */
TEST(resources_of_an_attempt_that_broke_off_do_not_stay)
{
    struct stage *s = *state;
    struct survey_version known;

    assert_true(survey_begin(s->survey));
    assert_true(survey_document(s->survey, SOURCE, &known));
    add(s, "x", 1);
    document(s, SOURCE, "one", "a b");
    compare(s);
    assert_true(survey_begin(s->survey));
    same(s, SOURCE, "");
    document(s, SOURCE, "one", "a b");
    compare(s);
    assert_changes(s, 3, "4 deleted x;");
    assert_true(survey_begin(s->survey));
    same(s, SOURCE, "one");
    compare(s);
    assert_changes(s, 4, "");
}

/* A list may name a resource twice: the later entry counts. */
TEST(the_later_of_two_entries_counts)
{
    struct stage *s = *state;

    read_list(s, "a@1 b@1 a@2");
    assert_changes(s, 0, "1 created a;2 created b;");
    read_list(s, "a@1 b@1 a@2");
    assert_changes(s, 2, "");
}

static bool
try_to_fill(struct stage *s, unsigned from, unsigned to)
{
    struct survey_version known;
    char name[20];
    bool is_good = true;

    assert_true(survey_begin(s->survey));
    assert_true(survey_document(s->survey, SOURCE, &known));
    for (; is_good && from < to; from++) {
        snprintf(name, sizeof(name), "%u", from);
        is_good = try_to_add(s, name, strlen(name));
    }
    return is_good;
}

static void
fill(struct stage *s, unsigned from, unsigned to)
{
    assert_true(try_to_fill(s, from, to));
}

/* Reads a list of the numbers from `from` to `to`. */
static void
read_numbers(struct stage *s, unsigned from, unsigned to,
             const struct survey_guard *guard)
{
    fill(s, from, to);
    assert_true(survey_document_end(s->survey, NULL, s->n_left_out));
    assert_true(survey_compare(s->survey, guard));
}

/* deletions that are too many are held back, and told at each reading;
 * what came is applied. */
TEST(too_many_deletions_are_held_back)
{
    struct stage *s = *state;
    const struct survey_extent *extent = &s->survey->extent;

    read_numbers(s, 0, 500, &a_fifth);
    read_numbers(s, 101, 502, &a_fifth);
    assert_int_equal(extent->n_held, 101);
    assert_int_equal(extent->n_resources, 502);
    assert_changes(s, 500, "501 created 500;502 created 501;");
    open_listing(s);
    extent = &s->survey->extent;
    assert_int_equal(extent->n_held, 101);
    read_numbers(s, 101, 502, &a_fifth); /* the same list once more */
    assert_int_equal(extent->n_held, 101);
    assert_int_equal(extent->last, 502);
    read_numbers(s, 1, 502, &a_fifth); /* all but one are back: no change */
    assert_int_equal(extent->n_held, 0);
    assert_int_equal(extent->n_resources, 501);
    assert_changes(s, 502, "503 deleted 0;");
}

/* a consent holds for the number that was shown, not for more. */
TEST(a_consent_names_the_number_of_deletions)
{
    static const struct survey_guard consent = {.max_percent = 20,
                                                .accepts = 120};
    struct stage *s = *state;
    const struct survey_extent *extent = &s->survey->extent;

    read_numbers(s, 0, 400, &a_fifth);
    read_numbers(s, 160, 400, &consent);
    assert_int_equal(extent->n_held, 160);
    assert_int_equal(extent->last, 400);
    read_numbers(s, 120, 400, &consent);
    assert_int_equal(extent->n_held, 0);
    assert_int_equal(extent->last, 520);
    read_numbers(s, 0, 0, &no_limit);
    assert_int_equal(extent->n_resources, 0);
}

/* all of more than three are held back at each reading, whatever came
 * instead, until some of them come back. */
TEST(all_that_others_replace_are_held_back)
{
    static const struct {
        unsigned from, n_held;
    } rows[] = {{8, 8}, {8, 8}, {9, 9}, {7, 0}};
    struct stage *s = *state;

    read_numbers(s, 0, 8, &a_fifth);
    for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
        open_listing(s); /* the file knows of it */
        read_numbers(s, rows[i].from, 20, &a_fifth);
        assert_int_equal(s->survey->extent.n_held, rows[i].n_held);
        assert_int_equal(s->survey->extent.n_held_of, rows[i].n_held ? 8 : 0);
    }
}

/* Held resources stay so when the documents have not changed since. */
TEST(deletions_are_held_beside_documents_that_have_not_changed)
{
    static const struct survey_guard doubtful = {.max_percent = 20,
                                                 .is_doubtful = true};
    struct stage *s = *state;
    const struct survey_extent *extent = &s->survey->extent;

    assert_true(survey_begin(s->survey));
    document(s, SOURCE, "one", "a b");
    compare(s);
    assert_true(survey_begin(s->survey));
    document(s, SOURCE, "two", "b c"); /* nobody knows whether a went */
    assert_true(survey_compare(s->survey, &doubtful));
    assert_int_equal(extent->n_held, 1);
    assert_changes(s, 2, "3 created c;");
    assert_true(survey_begin(s->survey));
    same(s, SOURCE, "two");
    assert_true(survey_compare(s->survey, &doubtful));
    assert_int_equal(extent->n_held, 1);
    assert_true(survey_begin(s->survey));
    same(s, SOURCE, "two");
    compare(s);
    assert_int_equal(extent->n_held, 0);
    assert_changes(s, 3, "4 deleted a;");
}

/* a row that cannot be used is no deletion, also where it could be used
 * before. */
TEST(a_reading_that_left_out_more_rows_deletes_nothing)
{
    struct stage *s = *state;
    const struct survey_extent *extent = &s->survey->extent;

    s->n_left_out = 1;
    read_list(s, "a b c");
    read_list(s, "a b"); /* as many as before: c is gone */
    assert_changes(s, 3, "4 deleted c;");
    s->n_left_out = 2;
    read_list(s, "a d");
    assert_int_equal(extent->n_held, 1);
    assert_changes(s, 4, "5 created d;");
    read_list(s, "a d");
    assert_int_equal(extent->n_held, 1);
    s->n_left_out = 1;
    read_list(s, "a d");
    assert_int_equal(extent->n_held, 0);
    assert_changes(s, 5, "6 deleted b;");
}

/* A file of version 1, without digests of documents. */
TEST(the_file_of_an_earlier_version_goes_on)
{
    static const char older[] =
        "CREATE TABLE listing (source TEXT NOT NULL, epoch TEXT NOT NULL,"
        " oldest INTEGER NOT NULL, before INTEGER NOT NULL,"
        " last INTEGER NOT NULL, is_read INTEGER NOT NULL,"
        " when_us INTEGER NOT NULL);"
        "CREATE TABLE document (id INTEGER PRIMARY KEY,"
        " url TEXT NOT NULL UNIQUE, etag TEXT NOT NULL,"
        " modified TEXT NOT NULL);"
        "CREATE TABLE resource (loc TEXT PRIMARY KEY,"
        " document INTEGER NOT NULL, lastmod INTEGER, hash TEXT NOT NULL,"
        " length INTEGER) WITHOUT ROWID;"
        "CREATE TABLE change (seq INTEGER PRIMARY KEY,"
        " when_us INTEGER NOT NULL, hole INTEGER NOT NULL,"
        " fragment BLOB NOT NULL);"
        "INSERT INTO listing VALUES ('" SOURCE "', '0123456789abcdef', 0, 0,"
        " 2, 1, 1);"
        "INSERT INTO document VALUES (1, '" SOURCE "', 'one', '');"
        "INSERT INTO resource VALUES ('http://e.org/a', 1, NULL, '', NULL);"
        "INSERT INTO resource VALUES ('http://e.org/b', 1, NULL, '', NULL);"
        "PRAGMA application_id = 1415859305; PRAGMA user_version = 1;";
    struct stage *s = *state;
    sqlite3 *db;

    survey_close(s->survey);
    s->survey = NULL;
    assert_int_equal(unlink(s->path), 0);
    assert_int_equal(sqlite3_open(s->path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, older, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);

    open_listing(s);
    assert_non_null(s->survey);
    assert_true(survey_begin(s->survey));
    same(s, SOURCE, "one");
    compare(s);
    assert_int_equal(s->survey->extent.last, 2);
    read_list(s, "b c");
    assert_changes(s, 2, "3 created c;4 deleted a;");
}

/* td_stop ends a long comparison, and the last reading stays. */
TEST(a_long_comparison_is_stopped)
{
    struct stage *s = *state;

    read_list(s, "a b");
    fill(s, 0, 2000);
    assert_int_equal(eventfd_write(s->stop_fd, 1), 0);
    assert_false(survey_compare(s->survey, &a_fifth));
    assert_int_equal(s->survey->why.rc, STATUS_STOPPED);
    close(s->stop_fd);
    s->stop_fd = eventfd(0, EFD_CLOEXEC);
    open_listing(s);
    assert_changes(s, 0, "1 created a;2 created b;");
    fill(s, 0, 2000);
    compare(s);
    assert_int_equal(s->survey->extent.last, 2004);
}

/* The disk is full at one moment after the other, of the later ones at one of
 * several: the message says which disk, and the last reading stays. */
static void
check_full_disk(struct stage *s, const char *path)
{
    char expected[300];
    unsigned n_unread = 0;
    unsigned at = 1;

    snprintf(expected, sizeof(expected), "%s: the disk has ", path);
    for (;; at += 1 + at / 32) {
        bool is_read;

        fill_disk(path, at);
        is_read = try_to_fill(s, 0, 2000);
        if (is_read && survey_compare(s->survey, &no_limit))
            break;
        n_unread += !is_read;
        assert_int_equal(s->survey->why.rc, STATUS_IO);
        assert_true(s->survey->why.is_limit);
        assert_ptr_equal(strstr(s->survey->why.text, expected),
                         s->survey->why.text);
        fill_disk(NULL, 0);
        open_listing(s);
        assert_changes(s, 0, "1 created a;2 created b;");
    }
    assert_in_range(n_unread, 2, 100);
    assert_in_range(at, 20, 10000); /* most of them in the transaction */
    assert_int_equal(s->survey->extent.last, 2004);
}

TEST(a_disk_keeps_its_free_bytes)
{
    struct stage *s = *state;

    s->room.limits.min_free_bytes = 100;
    read_list(s, "a b");
    check_full_disk(s, s->path);
}

TEST(the_disk_of_temporary_tables_keeps_its_free_bytes)
{
    struct stage *s = *state;

    s->room.limits.min_free_bytes = 100;
    assert_int_equal(setenv("SQLITE_TMPDIR", s->dir.path, true), 0);
    read_list(s, "a b");
    check_full_disk(s, s->dir.path);
    assert_int_equal(unsetenv("SQLITE_TMPDIR"), 0);
}

/* The list writes nothing, so it does not check the disk. */
TEST(a_full_disk_does_no_harm_to_a_list_that_is_the_same)
{
    struct stage *s = *state;

    s->room.limits.min_free_bytes = 100;
    assert_true(survey_begin(s->survey));
    document(s, SOURCE, "v1", "a b");
    compare(s);
    fill_disk(s->path, 1);
    assert_true(survey_begin(s->survey));
    same(s, SOURCE, "v1");
    compare(s);
    assert_changes(s, 0, "1 created a;2 created b;");
}

/* Documents that have not changed count, too. */
TEST(a_list_has_no_more_resources_than_are_allowed)
{
    struct stage *s = *state;

    s->room.limits.max_resources = 3;
    assert_true(survey_begin(s->survey));
    document(s, "http://e.org/1", "v1", "a b");
    document(s, "http://e.org/2", "v1", "c");
    compare(s);
    assert_true(survey_begin(s->survey));
    same(s, "http://e.org/1", "v1");
    document(s, "http://e.org/2", "v2", "c d");
    assert_false(survey_compare(s->survey, &no_limit));
    assert_int_equal(s->survey->why.rc, STATUS_REFUSED);
    assert_non_null(strstr(s->survey->why.text,
                           "the 3 resources that --max-entries allows"));
    assert_false(survey_take(s->survey));
    open_listing(s);
    assert_changes(s, 0, "1 created a;2 created b;3 created c;");
}

/* The time of a difference is when it was found, and never goes back. */
TEST(times_of_differences_do_not_go_back)
{
    struct stage *s = *state;

    read_list(s, "a");
    clock_set_us(-10 * DAY);
    read_list(s, "a b");
    assert_changes(s, 0, "1 created a;2 created b;");
}

/* A file of another source, or of something else, is refused and stays. */
TEST(what_is_not_its_own_is_refused)
{
    struct stage *s = *state;
    FILE *file;

    read_list(s, "a");
    survey_close(s->survey);
    s->survey = survey_open(s->path, "http://other.org/", NULL, -1, &s->why);
    assert_null(s->survey);
    assert_int_equal(s->why.rc, STATUS_INVALID);
    assert_non_null(strstr(s->why.text, "of another source: " SOURCE));
    open_listing(s);
    assert_changes(s, 0, "1 created a;");
    assert_null(survey_open(s->path, SOURCE, &s->room, s->stop_fd,
                            &s->why)); /* one at a time */
    assert_int_equal(s->why.rc, STATUS_IO);
    assert_non_null(strstr(s->why.text, "another process"));

    survey_close(s->survey);
    s->survey = NULL;
    file = fopen(s->path, "w");
    fputs("not a database, but long enough to be taken for one of the kind "
          "that has pages and a header of a hundred bytes, which this is not",
          file);
    fclose(file);
    open_listing(s);
    assert_null(s->survey);
    assert_int_equal(s->why.rc, STATUS_IO);
}

/* A newer program may have written facts that this one does not know. */
TEST(a_file_of_a_newer_version_is_refused)
{
    struct stage *s = *state;
    sqlite3 *db;

    survey_close(s->survey);
    s->survey = NULL;
    assert_int_equal(sqlite3_open(s->path, &db), SQLITE_OK);
    assert_int_equal(
        sqlite3_exec(db, "PRAGMA user_version = 4", NULL, NULL, NULL),
        SQLITE_OK);
    sqlite3_close(db);
    open_listing(s);
    assert_null(s->survey);
    assert_int_equal(s->why.rc, STATUS_INVALID);
    assert_non_null(strstr(s->why.text, "the database is of version 4"));
}

/* Without a path nothing stays. */
TEST(a_temporary_one_is_gone_at_the_end)
{
    struct stage *s = *state;

    survey_close(s->survey);
    s->survey = survey_open(NULL, SOURCE, &s->room, -1, &s->why);
    assert_non_null(s->survey);
    read_list(s, "a b");
    assert_changes(s, 0, "1 created a;2 created b;");
}
