/*
 * spool_test.c - changes that wait outlive the process, and so does their post.
 */
#include "client/publish/spool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sqlite3.h>

#include "tests/support/tempdir.h"
#include "tests/test.h"

#define SET "http://127.0.0.1:1/sets/news"

struct stage {
    struct tempdir dir;
    char path[300];
    struct spool spool;
    struct spool_post post;
    struct problem why;
};

static int
set_stage(void **state)
{
    struct stage *s = calloc(1, sizeof(*s));

    assert_non_null(s);
    tempdir_open(&s->dir);
    snprintf(s->path, sizeof(s->path), "%s/spool", s->dir.path);
    buf_init(&s->post.body, 0);
    *state = s;
    return 0;
}

static int
clear_stage(void **state)
{
    struct stage *s = *state;

    buf_fini(&s->post.body);
    db_close(&s->spool.db);
    tempdir_close(&s->dir);
    free(s);
    return 0;
}

static void
open_spool(struct stage *s)
{
    db_close(&s->spool.db);
    if (spool_open(&s->spool, s->path, SET, 1000, &s->why))
        fail_msg("%s", s->why.text);
}

static void
add(struct stage *s, const char *change, uint64_t number)
{
    struct slice text = slice_of(change);

    assert_int_equal(spool_add(&s->spool, &text, 1, NULL, &s->why), STATUS_OK);
    assert_int_equal(s->spool.last, number);
}

/* The next post is this, and its key. */
static void
assert_post(struct stage *s, size_t max, const char *body, char key[33])
{
    buf_fini(&s->post.body);
    if (spool_seal(&s->spool, max, 1000, &s->post, &s->why))
        fail_msg("%s", s->why.text);
    assert_int_equal(s->post.body.size, strlen(body));
    assert_memory_equal(s->post.body.data, body, strlen(body));
    memcpy(key, s->post.key, 33);
}

FIXTURE(set_stage, clear_stage);

/* in their order, in posts of so many. */
TEST(changes_leave_in_their_order)
{
    struct stage *s = *state;
    char first[33], second[33];

    open_spool(s);
    add(s, "{\"a\":1}", 1);
    add(s, "{\"b\":2}", 2);
    add(s, "{\"c\":3}", 3);
    assert_post(s, 2, "[{\"a\":1},\n{\"b\":2}]\n", first);
    assert_int_equal(s->post.n, 2);
    assert_int_equal(s->post.last, 2);
    assert_int_equal(spool_posted(&s->spool, &s->post, &s->why), STATUS_OK);
    assert_int_equal(s->spool.durable, 2);
    assert_int_equal(s->spool.n_changes, 1);
    assert_int_equal(s->spool.n_bytes, 7);
    assert_post(s, 2, "[{\"c\":3}]\n", second);
    assert_string_not_equal(first, second);
    assert_int_equal(strlen(first), 32);
    assert_int_equal(spool_posted(&s->spool, &s->post, &s->why), STATUS_OK);

    buf_fini(&s->post.body);
    assert_int_equal(spool_seal(&s->spool, 2, 9, &s->post, &s->why), STATUS_OK);
    assert_int_equal(s->post.n, 0);
}

/* A sealed post is the same post, bytes and key, also after later changes and
 * after a crash. Numbers go on. */
TEST(a_sealed_post_stays_the_same)
{
    struct stage *s = *state;
    char first[33], again[33];

    open_spool(s);
    add(s, "{\"a\":1}", 1);
    assert_post(s, 10, "[{\"a\":1}]\n", first);
    add(s, "{\"b\":2}", 2);
    assert_post(s, 10, "[{\"a\":1}]\n", again);
    assert_string_equal(first, again);

    open_spool(s);
    assert_int_equal(s->spool.n_changes, 2);
    assert_int_equal(s->spool.n_bytes, 14);
    assert_post(s, 10, "[{\"a\":1}]\n", again);
    assert_string_equal(first, again);
    assert_int_equal(spool_posted(&s->spool, &s->post, &s->why), STATUS_OK);

    open_spool(s);
    assert_int_equal(s->spool.durable, 1);
    assert_post(s, 10, "[{\"b\":2}]\n", again);
    assert_string_not_equal(first, again);
    assert_int_equal(spool_posted(&s->spool, &s->post, &s->why), STATUS_OK);
    open_spool(s);
    add(s, "{\"c\":3}", 3);
}

/* The spool removes a refused change, and the others become another post. */
TEST(a_refused_change_is_taken_out)
{
    struct stage *s = *state;
    struct spool_entry entry;
    char first[33], second[33];

    open_spool(s);
    add(s, "{\"a\":1}", 1);
    add(s, "{\"bad\":2}", 2);
    add(s, "{\"c\":3}", 3);
    assert_post(s, 10, "[{\"a\":1},\n{\"bad\":2},\n{\"c\":3}]\n", first);
    assert_int_equal(spool_change(&s->spool, &s->post, 2, &entry, &s->why),
                     STATUS_OK);
    assert_string_equal(entry.text, "{\"bad\":2}");
    assert_int_equal(entry.number, 2);
    assert_int_equal(spool_drop(&s->spool, &entry, &s->why), STATUS_OK);
    free(entry.text);
    assert_int_equal(s->spool.n_bytes, 14);

    assert_post(s, 10, "[{\"a\":1},\n{\"c\":3}]\n", second);
    assert_string_not_equal(first, second);
    assert_int_equal(spool_change(&s->spool, &s->post, 2, &entry, &s->why),
                     STATUS_OK);
    assert_int_equal(entry.number, 3);
    assert_int_equal(spool_drop(&s->spool, &entry, &s->why), STATUS_OK);
    free(entry.text);
    assert_int_equal(spool_unseal(&s->spool, &s->why), STATUS_OK);
    assert_post(s, 10, "[{\"a\":1}]\n", second);

    /* The spool does not reuse the number of a removed change. */
    open_spool(s);
    add(s, "{\"d\":4}", 4);
}

TEST(posts_are_bounded_in_bytes)
{
    struct stage *s = *state;

    open_spool(s);
    for (unsigned i = 1; i <= 5; i++)
        add(s, "{\"a\":1}", i);
    assert_int_equal(spool_seal(&s->spool, 10, 30, &s->post, &s->why),
                     STATUS_OK);
    assert_int_equal(s->post.n, 3);
    assert_true(s->post.body.size <= 30);
    assert_int_equal(spool_unseal(&s->spool, &s->why), STATUS_OK);
    buf_fini(&s->post.body);
    assert_int_equal(spool_seal(&s->spool, 10, 1, &s->post, &s->why),
                     STATUS_OK);
    assert_int_equal(s->post.n, 1);
}

TEST(a_full_spool_takes_nothing)
{
    struct stage *s = *state;
    char change[501];
    struct slice more[] = {SLICE(""), SLICE("y")};

    memset(change, 'x', 500);
    change[500] = '\0';
    open_spool(s);
    add(s, change, 1);
    add(s, change, 2);
    assert_int_equal(spool_add(&s->spool, more, 2, "note", &s->why),
                     STATUS_UNREACHABLE);
    assert_string_equal(s->why.text,
                        "1000 bytes of changes wait already, 1000 at most");
    assert_string_equal(s->spool.note, "");
    assert_int_equal(s->spool.last, 2);
    assert_int_equal(s->spool.n_changes, 2);
}

/* A spool of before notes existed gets one, and keeps its changes. */
TEST(a_spool_without_a_note_gets_one)
{
    struct stage *s = *state;
    char key[33];
    sqlite3 *db;

    open_spool(s);
    add(s, "a", 1);
    db_close(&s->spool.db);
    assert_int_equal(sqlite3_open(s->path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db,
                                  "ALTER TABLE bound DROP COLUMN note;"
                                  "PRAGMA user_version = 1",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    open_spool(s);
    assert_string_equal(s->spool.note, "");
    assert_post(s, 10, "[a]\n", key);
}

/* The note is what the caller said with the last changes that were added. */
TEST(a_note_belongs_to_the_changes_that_were_added)
{
    struct stage *s = *state;
    struct slice changes[] = {SLICE("a"), SLICE("b")};
    char note[SPOOL_NOTE_SIZE + 1], key[33];

    memset(note, 'n', sizeof(note));
    note[SPOOL_NOTE_SIZE] = '\0';
    open_spool(s);
    assert_string_equal(s->spool.note, "");
    assert_int_equal(spool_add(&s->spool, changes, 2, "2 read", &s->why),
                     STATUS_OK);
    assert_int_equal(spool_add(&s->spool, changes, 1, note, &s->why),
                     STATUS_INVALID);
    assert_string_equal(s->spool.note, "2 read");
    open_spool(s);
    assert_string_equal(s->spool.note, "2 read");
    assert_int_equal(s->spool.last, 2);
    assert_post(s, 10, "[a,\nb]\n", key);
    assert_int_equal(spool_add(&s->spool, NULL, 0, "3 read", &s->why),
                     STATUS_OK);
    add(s, "c", 3);
    open_spool(s);
    assert_string_equal(s->spool.note, "3 read");
}

TEST(a_spool_is_one_set_s_and_one_process_s)
{
    struct stage *s = *state;
    struct spool other;

    open_spool(s);
    assert_int_equal(spool_open(&other, s->path, SET, 1000, &s->why),
                     STATUS_IO);
    db_close(&other.db);
    assert_non_null(strstr(s->why.text, "another process uses it"));
    db_close(&s->spool.db);
    assert_int_equal(spool_open(&other, s->path, SET "2", 1000, &s->why),
                     STATUS_IO);
    db_close(&other.db);
    assert_non_null(strstr(s->why.text, "it is for another set: " SET));
    assert_int_equal(
        spool_open(&other, "/proc/nowhere/at/all", SET, 1000, &s->why),
        STATUS_IO);
    db_close(&other.db);
    assert_non_null(strstr(s->why.text, "/proc/nowhere/at/all"));
}

TEST(another_s_file_is_left_alone)
{
    struct stage *s = *state;
    static const char text[] = "these are my notes, and no database at all";
    char read[100] = "";
    struct spool spool;
    FILE *f = fopen(s->path, "w");

    assert_non_null(f);
    fputs(text, f);
    fclose(f);
    assert_int_equal(spool_open(&spool, s->path, SET, 1000, &s->why),
                     STATUS_IO);
    db_close(&spool.db);
    f = fopen(s->path, "r");
    assert_non_null(f);
    assert_non_null(fgets(read, sizeof(read), f));
    fclose(f);
    assert_string_equal(read, text);
}

TEST(a_spool_of_nobody_s_set_is_damaged)
{
    struct stage *s = *state;
    struct spool spool;
    sqlite3 *db;

    open_spool(s);
    db_close(&s->spool.db);
    assert_int_equal(sqlite3_open(s->path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db,
                                  "DROP TABLE bound;"
                                  "CREATE TABLE bound (set_url, durable, note);"
                                  "INSERT INTO bound VALUES (NULL, 0, '')",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    assert_int_equal(spool_open(&spool, s->path, SET, 1000, &s->why),
                     STATUS_IO);
    db_close(&spool.db);
    assert_non_null(strstr(s->why.text, "is damaged"));
}

/* Without a file the spool behaves the same, as long as it lives. */
TEST(memory_is_a_spool_too)
{
    struct stage *s = *state;
    char key[33];

    assert_int_equal(spool_open(&s->spool, NULL, SET, 1000, &s->why),
                     STATUS_OK);
    add(s, "{\"a\":1}", 1);
    assert_post(s, 10, "[{\"a\":1}]\n", key);
    assert_int_equal(spool_posted(&s->spool, &s->post, &s->why), STATUS_OK);
    assert_int_equal(s->spool.n_changes, 0);
}
