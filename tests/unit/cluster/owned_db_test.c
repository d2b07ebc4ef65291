/*
 * Two databases, of two brokers, that follow one stream.
 */
#include "broker/cluster/owned_db.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/db.h"
#include "tests/clock.h"
#include "tests/support/shared_streams.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"

static const char *const steps[] = {
    "CREATE TABLE things(id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT,"
    " secret BLOB, weight REAL);"
    "CREATE TABLE words(bridge TEXT NOT NULL, name TEXT NOT NULL, n INTEGER,"
    " PRIMARY KEY(bridge, name)) WITHOUT ROWID;",
};

static const struct db_kind kind = {
    .mode = DB_SMALL, .steps = steps, .n_steps = 1};

struct broker {
    struct streams_seat seat;
    struct db db;
    struct owned_db *owned;
    struct lease lease;
    struct leases leases;
    uint64_t n_notes;
};

struct pair {
    struct tempdir dir;
    struct shared_streams all;
    struct broker a, b;
};

static void
broker_open(struct pair *p, struct broker *b, const char *name)
{
    struct problem why;
    char path[300];

    snprintf(path, sizeof(path), "%s/%s.db", p->dir.path, name);
    streams_seat_take(&b->seat, &p->all, name);
    b->lease.name = "owner";
    b->leases.all[0] = &b->lease;
    assert_int_equal(db_open_kind(&b->db, &kind, path, &why), STATUS_OK);
    assert_int_equal(owned_db_open(&b->owned, &b->db, &b->seat.streams,
                                   "things", NULL, &why),
                     STATUS_OK);
}

static void
broker_close(struct broker *b)
{
    owned_db_close(b->owned);
    db_close(&b->db);
}

static int
setup(void **state)
{
    struct pair *p = calloc(1, sizeof(*p));

    assert_non_null(p);
    tempdir_open(&p->dir);
    shared_streams_init(&p->all);
    broker_open(p, &p->a, "a");
    broker_open(p, &p->b, "b");
    *state = p;
    return 0;
}

static int
teardown(void **state)
{
    struct pair *p = *state;

    broker_close(&p->a);
    broker_close(&p->b);
    shared_streams_fini(&p->all);
    tempdir_close(&p->dir);
    free(p);
    return 0;
}

FIXTURE(setup, teardown);

static enum status
own(struct broker *b)
{
    struct problem why;
    enum status rc =
        b->seat.streams.ops->hold(&b->seat.streams, &b->lease, &why);

    return rc ? rc : owned_db_own(b->owned, &b->leases, &why);
}

/* Runs statements as the owner. */
static enum status
run(struct broker *b, const char *sql)
{
    struct problem why = {""};
    enum status rc = owned_db_begin(&b->db, b->owned, true, &why);

    return rc ? rc
              : owned_db_end(&b->db, b->owned, db_exec(&b->db, sql, &why),
                             &why);
}

static enum status
follow(struct broker *b)
{
    struct problem why;

    return owned_db_read(b->owned, &why);
}

/* All that a database has, as text. */
static const char *
dump(struct broker *b)
{
    static char texts[2][4096];
    static int at;
    char *to = texts[at = !at];
    sqlite3_stmt *s = NULL;
    struct problem why;
    bool row = true;

    to[0] = '\0';
    assert_int_equal(
        db_prepare(&b->db, &s,
                   "SELECT quote(id) || ' ' || quote(name) || ' ' ||"
                   " quote(secret) || ' ' || quote(weight) || ';' FROM things"
                   " UNION ALL SELECT bridge || ' ' || name || ' ' || n || ';'"
                   " FROM words UNION ALL SELECT seq || ';'"
                   " FROM sqlite_sequence",
                   &why),
        STATUS_OK);
    for (;;) {
        assert_int_equal(db_step(&b->db, s, &row, "read", &why), STATUS_OK);
        if (!row)
            break;
        strcat(to, (const char *)sqlite3_column_text(s, 0));
    }
    sqlite3_finalize(s);
    return to;
}

/* All kinds of rows and values get to the other database. */
TEST(has_the_rows_of_its_owner)
{
    struct pair *p = *state;

    assert_int_equal(own(&p->a), STATUS_OK);
    assert_int_equal(
        run(&p->a, "INSERT INTO things VALUES(1, 'x', x'00ff', 1.5),"
                   " (2, NULL, NULL, NULL), (-3, '', x'', -1e300);"
                   "INSERT INTO words VALUES('m', 'a', 1), ('m', 'b', 2)"),
        STATUS_OK);
    assert_int_equal(run(&p->a, "UPDATE things SET name = 'y' WHERE id = 1;"
                                "DELETE FROM words WHERE name = 'a'"),
                     STATUS_OK);
    assert_int_equal(run(&p->a, "UPDATE words SET n = n + 1"), STATUS_OK);

    assert_int_equal(follow(&p->b), STATUS_OK);
    assert_string_equal(dump(&p->a), "-3 '' X'' -1.0e+300;1 'y' X'00FF' 1.5;"
                                     "2 NULL NULL NULL;m b 3;2;");
    assert_string_equal(dump(&p->b), dump(&p->a));
}

/* A number that was used is used by no later owner. */
TEST(uses_no_number_twice)
{
    struct pair *p = *state;

    assert_int_equal(own(&p->a), STATUS_OK);
    assert_int_equal(run(&p->a, "INSERT INTO things VALUES(9, 'x', '', 0)"),
                     STATUS_OK);
    assert_int_equal(run(&p->a, "DELETE FROM things"), STATUS_OK);
    shared_streams_forget(&p->all);

    assert_int_equal(follow(&p->b), STATUS_OK);
    assert_string_equal(dump(&p->b), "9;");
}

/* A broker was away for so long that the stream has forgotten which rows were
 * deleted. Also if no row is left. */
TEST(begins_again_behind_forgotten_rows)
{
    struct pair *p = *state;

    assert_int_equal(own(&p->a), STATUS_OK);
    assert_int_equal(run(&p->a, "INSERT INTO words VALUES('m', 'a', 1)"),
                     STATUS_OK);
    assert_int_equal(run(&p->a, "INSERT INTO words VALUES('m', 'b', 2)"),
                     STATUS_OK);
    assert_int_equal(follow(&p->b), STATUS_OK);
    assert_int_equal(run(&p->a, "DELETE FROM words WHERE name = 'a'"),
                     STATUS_OK);
    shared_streams_forget(&p->all);
    assert_int_equal(follow(&p->b), STATUS_OK);
    assert_string_equal(dump(&p->b), "m b 2;");

    assert_int_equal(run(&p->a, "DELETE FROM words"), STATUS_OK);
    shared_streams_forget(&p->all);
    assert_int_equal(follow(&p->b), STATUS_OK);
    assert_string_equal(dump(&p->b), "");
    clock_pass_us(LEASE_US + 1);
    assert_int_equal(own(&p->b), STATUS_OK);
    assert_int_equal(run(&p->b, "INSERT INTO words VALUES('m', 'c', 3)"),
                     STATUS_OK);
    assert_int_equal(follow(&p->a), STATUS_OK);
    assert_string_equal(dump(&p->a), "m c 3;");
}

/* The first owner brings the rows that it had alone, once. */
TEST(begins_with_the_rows_of_a_single_broker)
{
    struct pair *p = *state;
    struct problem why;

    assert_int_equal(
        db_exec(&p->a.db,
                "INSERT INTO things VALUES(1, 'x', '', 0), (7, 'y', '', 0);"
                "DELETE FROM things WHERE id = 7;"
                "INSERT INTO words VALUES('m', 'a', 1)",
                &why),
        STATUS_OK);
    assert_int_equal(own(&p->a), STATUS_OK);
    assert_int_equal(p->all.n, 3);
    assert_int_equal(own(&p->a), STATUS_OK);
    assert_int_equal(p->all.n, 3);

    assert_int_equal(follow(&p->b), STATUS_OK);
    assert_string_equal(dump(&p->b), dump(&p->a));
}

/* A database with rows of its own is not mixed with those of a cluster. */
TEST(keeps_rows_of_its_own_apart)
{
    struct pair *p = *state;
    struct problem why;

    assert_int_equal(own(&p->a), STATUS_OK);
    assert_int_equal(run(&p->a, "INSERT INTO things VALUES(1, 'x', '', 0)"),
                     STATUS_OK);
    assert_int_equal(
        db_exec(&p->b.db, "INSERT INTO things VALUES(2, 'y', '', 0)", &why),
        STATUS_OK);

    assert_int_equal(follow(&p->b), STATUS_DIFFERENT);
    assert_string_equal(dump(&p->b), "2 'y' '' 0.0;2;");
}

/* A former owner, which knows nothing of the next one, writes nothing. */
TEST(takes_nothing_from_a_former_owner)
{
    struct pair *p = *state;

    assert_int_equal(own(&p->a), STATUS_OK);
    assert_int_equal(run(&p->a, "INSERT INTO things VALUES(1, 'x', '', 0)"),
                     STATUS_OK);
    clock_pass_us(LEASE_US + 1);
    assert_int_equal(own(&p->b), STATUS_OK);

    assert_int_equal(run(&p->a, "INSERT INTO things VALUES(2, 'y', '', 0)"),
                     STATUS_REFUSED);
    assert_string_equal(dump(&p->a), "1 'x' '' 0.0;1;");
    assert_int_equal(p->all.n, 1);
    assert_string_equal(dump(&p->b), dump(&p->a));
}

/* Nobody knows whether the stream has the rows: the next transaction looks. */
TEST(looks_after_an_unknown_outcome)
{
    struct pair *p = *state;

    assert_int_equal(own(&p->a), STATUS_OK);
    p->a.seat.outcome = APPEND_UNKNOWN_KEPT;
    assert_int_equal(run(&p->a, "INSERT INTO things VALUES(1, 'x', '', 0)"),
                     STATUS_IO);
    assert_string_equal(dump(&p->a), "");
    p->a.seat.outcome = APPEND_UNKNOWN_LOST;
    assert_int_equal(run(&p->a, "INSERT INTO things VALUES(2, 'y', '', 0)"),
                     STATUS_IO);
    assert_string_equal(dump(&p->a), "");
    p->a.seat.outcome = APPEND_LOST;
    assert_int_equal(run(&p->a, "INSERT INTO things VALUES(3, 'z', '', 0)"),
                     STATUS_UNREACHABLE);
    p->a.seat.outcome = APPEND_KEPT;
    assert_int_equal(run(&p->a, "INSERT INTO things VALUES(4, 'z', '', 0)"),
                     STATUS_OK);

    assert_int_equal(follow(&p->b), STATUS_OK);
    assert_string_equal(dump(&p->a), "1 'x' '' 0.0;4 'z' '' 0.0;4;");
    assert_string_equal(dump(&p->b), dump(&p->a));
}

static int
refuse_commit(void *user)
{
    (void)user;
    return 1;
}

/* The stream has the rows, and the disk has not. */
TEST(reads_again_what_its_disk_refused)
{
    struct pair *p = *state;

    assert_int_equal(own(&p->a), STATUS_OK);
    sqlite3_commit_hook(p->a.db.handle, refuse_commit, NULL);
    assert_int_not_equal(run(&p->a, "INSERT INTO things VALUES(1, 'x', '', 0)"),
                         STATUS_OK);
    sqlite3_commit_hook(p->a.db.handle, NULL, NULL);
    assert_string_equal(dump(&p->a), "");

    assert_int_equal(run(&p->a, "INSERT INTO things VALUES(2, 'y', '', 0)"),
                     STATUS_OK);
    assert_string_equal(dump(&p->a), "1 'x' '' 0.0;2 'y' '' 0.0;2;");
}

/* A copy of the file continues where the file was, after a restart too. */
TEST(continues_where_the_file_is)
{
    struct pair *p = *state;

    assert_int_equal(own(&p->a), STATUS_OK);
    assert_int_equal(run(&p->a, "INSERT INTO things VALUES(1, 'x', '', 0)"),
                     STATUS_OK);
    broker_close(&p->a);
    broker_open(p, &p->a, "a");
    clock_pass_us(LEASE_US + 1);
    assert_int_equal(own(&p->a), STATUS_OK);

    assert_int_equal(p->all.n, 1);
    assert_int_equal(run(&p->a, "DELETE FROM things"), STATUS_OK);
    assert_int_equal(p->all.n, 3); /* the row, and the last id */
}

/* Bytes that are no row of ours. */
TEST(refuses_what_it_cannot_read)
{
    static const struct {
        struct slice key, value;
    } rows[] = {
        {{"", 0}, {"", 0}},
        {{"things", 6}, {"", 0}},
        {{"others\0\1\0\0\0\0\0\0\0\1", 16}, {"\5", 1}},
        {{"things\0", 7}, {"\5", 1}},
        {{"things\0\1\0\0", 10}, {"\5", 1}},
        {{"things\0\1\0\0\0\0\0\0\0\1", 16}, {"", 0}},
        {{"things\0\1\0\0\0\0\0\0\0\1", 16}, {"\5\5\5\5\5", 5}},
        {{"things\0\1\0\0\0\0\0\0\0\1", 16}, {"\3\377\377\377\377x", 6}},
        {{"things\0\1\0\0\0\0\0\0\0\1", 16}, {"\7", 1}},
    };
    struct pair *p = *state;
    struct problem why;
    uint64_t n = 0;

    assert_int_equal(own(&p->a), STATUS_OK);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct stream_row row = {rows[i].key, rows[i].value, false};

        assert_int_equal(p->a.seat.streams.ops->append(&p->a.seat.streams,
                                                       "things", &p->a.leases,
                                                       &n, &row, 1, NULL, &why),
                         STATUS_OK);
        assert_int_equal(follow(&p->b), STATUS_INVALID);
        p->all.rows[i].n = 0;
    }
}

/* The journal was begun again: the first owner's rows are those of all. */
TEST(begins_again_with_the_rows_of_the_first_owner)
{
    struct pair *p = *state;

    assert_int_equal(own(&p->a), STATUS_OK);
    assert_int_equal(run(&p->a, "INSERT INTO things VALUES(1, 'x', '', 0)"),
                     STATUS_OK);
    assert_int_equal(run(&p->a, "INSERT INTO things VALUES(2, 'y', '', 0)"),
                     STATUS_OK);
    assert_int_equal(follow(&p->b), STATUS_OK);
    assert_int_equal(run(&p->a, "DELETE FROM things WHERE id = 1"), STATUS_OK);
    shared_streams_fini(&p->all);
    shared_streams_init(&p->all);
    p->all.id = 2;
    broker_close(&p->a);
    broker_open(p, &p->a, "a");
    p->a.lease.term = 0;
    broker_close(&p->b);
    broker_open(p, &p->b, "b");

    assert_int_equal(follow(&p->b), STATUS_OK);
    assert_string_equal(dump(&p->b), "1 'x' '' 0.0;2 'y' '' 0.0;2;");
    assert_int_equal(own(&p->a), STATUS_OK);
    assert_int_equal(follow(&p->b), STATUS_OK);
    assert_string_equal(dump(&p->b), "2 'y' '' 0.0;2;");
    assert_int_equal(run(&p->a, "INSERT INTO things VALUES(3, 'z', '', 0)"),
                     STATUS_OK);
    assert_int_equal(follow(&p->b), STATUS_OK);
    assert_string_equal(dump(&p->b), dump(&p->a));
}

/* The journal has lost rows of the stream: the owner keeps its own, and changes
 * nothing. */
TEST(keeps_what_the_stream_has_lost)
{
    struct pair *p = *state;

    assert_int_equal(own(&p->a), STATUS_OK);
    assert_int_equal(run(&p->a, "INSERT INTO words VALUES('m', 'a', 1)"),
                     STATUS_OK);
    assert_int_equal(run(&p->a, "INSERT INTO words VALUES('m', 'b', 2)"),
                     STATUS_OK);
    p->all.rows[1].n = 0;
    p->all.n = 1;

    assert_int_equal(run(&p->a, "DELETE FROM words"), STATUS_CONFLICT);
    assert_int_equal(run(&p->a, "DELETE FROM words"), STATUS_DIFFERENT);
    assert_int_equal(own(&p->a), STATUS_DIFFERENT);
    assert_string_equal(dump(&p->a), "m a 1;m b 2;");
    assert_int_equal(follow(&p->b), STATUS_OK);
    assert_string_equal(dump(&p->b), "m a 1;");
}

/* Notes */

static void
add_note(uint64_t n, struct slice bytes, void *user)
{
    char *to = user;

    sprintf(to + strlen(to), "%d %.*s;", (int)n, SLICE_ARG(bytes));
}

/* The notes that the next owner finds. */
static const char *
notes(struct broker *b)
{
    static char text[1000];
    struct problem why;

    text[0] = '\0';
    assert_int_equal(owned_db_read_notes(b->owned, add_note, text, &why),
                     STATUS_OK);
    return text;
}

/* Sends a note in a transaction, with a row if `sql` writes one. */
static enum status
note(struct broker *b, const char *bytes, uint64_t keep_from, const char *sql)
{
    struct problem why;
    enum status rc = owned_db_begin(&b->db, b->owned, true, &why);

    assert_int_equal(rc, STATUS_OK);
    owned_db_note(b->owned, &(struct stream_note){.n = ++b->n_notes,
                                                  .bytes = {slice_of(bytes)},
                                                  .keep_from = keep_from});
    rc = db_exec(&b->db, sql, &why);
    return owned_db_end(&b->db, b->owned, rc, &why);
}

TEST(the_next_owner_finds_the_notes)
{
    struct pair *p = *state;

    assert_int_equal(own(&p->a), STATUS_OK);
    assert_int_equal(note(&p->a, "one", 0, ""), STATUS_OK);
    assert_string_equal(notes(&p->a), "1 one;");
    assert_int_equal(note(&p->a, "two", 2, "INSERT INTO things(id) VALUES(7)"),
                     STATUS_OK);
    assert_string_equal(notes(&p->a), "2 two;");
    assert_int_equal(note(&p->a, "three", 0, ""), STATUS_OK);
    clock_pass_us(LEASE_US + 1);
    assert_int_equal(own(&p->b), STATUS_OK);
    assert_string_equal(notes(&p->b), "2 two;3 three;");
    assert_int_equal(note(&p->a, "late", 0, ""), STATUS_REFUSED);
}

TEST(a_number_is_not_used_again_when_nobody_knows)
{
    struct pair *p = *state;

    assert_int_equal(own(&p->a), STATUS_OK);
    p->a.seat.outcome = APPEND_UNKNOWN_KEPT;
    assert_int_equal(note(&p->a, "one", 0, ""), STATUS_IO);
    p->a.seat.outcome = APPEND_KEPT;
    assert_int_equal(note(&p->a, "two", 0, ""), STATUS_OK);
    assert_string_equal(notes(&p->a), "1 one;2 two;");
}

/* Shared streams */

/* Opens a database again, of a stream that two brokers write, each by a lease
 * of its own. */
static void
share(struct pair *p, struct broker *b, const char *name)
{
    static const struct owned_file files[] = {
        {"a.db", "test", "things", &kind, .is_shared = true},
        {"b.db", "test", "things", &kind, .is_shared = true}};
    const struct ownership_right right = {.streams = &b->seat.streams};
    struct problem why;

    broker_close(b);
    b->db = (struct db){NULL};
    b->lease.name = name;
    assert_int_equal(owned_file_open(&files[*name - 'a'], &b->db, &b->owned,
                                     p->dir.path, &right, &why),
                     STATUS_OK);
    assert_int_equal(own(b), STATUS_OK);
}

/* Both write, and neither has read what the other one wrote last. The last ids
 * of the table, too, are those of both. */
TEST(two_owners_write_one_stream)
{
    struct pair *p = *state;

    share(p, &p->a, "a");
    share(p, &p->b, "b");
    assert_int_equal(run(&p->a, "INSERT INTO things VALUES(2, 'a', '', 0)"),
                     STATUS_OK);
    assert_int_equal(run(&p->b, "INSERT INTO things VALUES(3, 'b', '', 0)"),
                     STATUS_OK);
    assert_int_equal(run(&p->a, "DELETE FROM things WHERE id = 2;"
                                "INSERT INTO things VALUES(4, 'a', '', 0)"),
                     STATUS_OK);
    assert_int_equal(run(&p->b, "UPDATE things SET name = 'c' WHERE id = 3;"
                                "INSERT INTO things VALUES(9, 'b', '', 0)"),
                     STATUS_OK);
    assert_int_equal(run(&p->b, "DELETE FROM things WHERE id = 9"), STATUS_OK);
    assert_int_equal(follow(&p->a), STATUS_OK);
    assert_string_equal(dump(&p->a), "3 'c' '' 0.0;4 'a' '' 0.0;9;");
    assert_string_equal(dump(&p->b), dump(&p->a));
}

/* A lease that was lost refuses all that its broker writes. */
TEST(an_append_needs_all_leases)
{
    struct pair *p = *state;
    struct lease other = {.name = "other", .term = 7};

    share(p, &p->a, "a");
    p->a.leases.all[5] = &other;
    assert_int_equal(run(&p->a, "INSERT INTO things VALUES(2, 'a', '', 0)"),
                     STATUS_REFUSED);
    p->a.leases.all[5] = NULL;
    assert_int_equal(run(&p->a, "INSERT INTO things VALUES(2, 'a', '', 0)"),
                     STATUS_OK);
}

/* Parts */

/* Opens a database again, for the rows of "plant" alone. */
static void
divide(struct pair *p, struct broker *b, const char *name)
{
    struct problem why;
    char path[300];

    owned_db_close(b->owned);
    db_close(&b->db);
    snprintf(path, sizeof(path), "%s/%s.db", p->dir.path, name);
    assert_int_equal(db_open_kind(&b->db, &kind, path, &why), STATUS_OK);
    assert_int_equal(owned_db_open(&b->owned, &b->db, &b->seat.streams,
                                   "things/plant", "plant", &why),
                     STATUS_OK);
}

/* The rows of other parts stay as they are, whoever has them. */
TEST(a_stream_may_have_a_part_of_the_rows)
{
    struct pair *p = *state;
    struct problem why;

    divide(p, &p->a, "divided-a");
    divide(p, &p->b, "divided-b");
    assert_int_equal(db_exec(&p->a.db,
                             "INSERT INTO words VALUES('plant', 'one', 1),"
                             " ('library', 'two', 2)",
                             &why),
                     STATUS_OK);
    assert_int_equal(db_exec(&p->b.db,
                             "INSERT INTO words VALUES('library', 'own', 3)",
                             &why),
                     STATUS_OK);

    assert_int_equal(own(&p->a), STATUS_OK); /* begins the stream */
    assert_int_equal(follow(&p->b), STATUS_OK);
    assert_string_equal(dump(&p->b), "library own 3;plant one 1;");

    p->all.id++; /* another stream, which takes the place of the former rows */
    assert_int_equal(own(&p->a), STATUS_OK);
    assert_int_equal(run(&p->a, "UPDATE words SET n = 4 WHERE name = 'one'"),
                     STATUS_OK);
    assert_int_equal(follow(&p->b), STATUS_OK);
    assert_string_equal(dump(&p->b), "library own 3;plant one 4;");
    divide(p, &p->b, "divided-b"); /* it continues where it was */
    assert_int_equal(follow(&p->b), STATUS_OK);
    assert_string_equal(dump(&p->b), "library own 3;plant one 4;");
}
