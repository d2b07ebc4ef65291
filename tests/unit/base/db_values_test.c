#include <string.h>

#include "base/db.h"
#include "tests/test.h"

static int
setup(void **state)
{
    static struct db db;

    assert_int_equal(db_open(&db, ":memory:", DB_SCRATCH, NULL), STATUS_OK);
    assert_int_equal(
        db_exec(&db, "CREATE TABLE t(a, b, c, d, e, f, g, h)", NULL),
        STATUS_OK);
    *state = &db;
    return 0;
}

static int
teardown(void **state)
{
    db_close(*state);
    return 0;
}

/* A row with a column of each kind. */
static enum status
insert_row(struct db *db, const char *text)
{
    struct digest digest = {{7}};

    return DB_DO(db, "insert", NULL, "INSERT INTO t VALUES(?,?,?,?,?,?,?,?)",
                 true, UINT32_MAX, UINT64_MAX, text, SLICE("slice"),
                 db_blob(SLICE("blob")), &digest, (char *)NULL);
}

FIXTURE(setup, teardown);

TEST(reads_what_it_wrote)
{
    struct digest digest, none;
    char text[8], small[4];
    uint32_t number = 0;
    uint64_t large = 0;
    bool flag = false, is_there;
    struct buf blob;

    buf_init(&blob, 100);
    assert_int_equal(insert_row(*state, "text"), STATUS_OK);
    assert_int_equal(db_find(*state, NULL, NULL, &is_there,
                             "SELECT a, b, c, d, d, f, g, h FROM t WHERE e=?",
                             DB_VALUES("slice"),
                             DB_INTO(&flag, &number, &large, &text, &small,
                                     &blob, &digest, &none)),
                     STATUS_OK);

    assert_true(is_there && flag);
    assert_int_equal(number, UINT32_MAX);
    assert_int_equal(large, UINT64_MAX);
    assert_string_equal(text, "text");
    assert_string_equal(small, "");
    assert_true(slice_is(buf_slice(&blob), "blob"));
    assert_int_equal(digest.bytes[0], 7);
    assert_int_equal(none.bytes[0], 0);
    buf_fini(&blob);
}

TEST(leaves_the_places_without_a_row)
{
    int64_t number = 5;
    bool is_there = true;

    assert_int_equal(db_find(*state, NULL, NULL, &is_there, "SELECT a FROM t",
                             DB_VALUES(), DB_INTO(&number)),
                     STATUS_OK);

    assert_false(is_there);
    assert_int_equal(number, 5);
}

TEST(binds_null_where_no_value_is_given)
{
    static const char sql[] = "INSERT INTO t(a) VALUES(?)";
    int64_t n = 0;

    assert_int_equal(DB_DO(*state, NULL, NULL, sql, 1), STATUS_OK);
    assert_int_equal(DB_DO(*state, NULL, NULL, sql), STATUS_OK);

    assert_int_equal(
        db_number(*state, "SELECT count(*) FROM t WHERE a IS NULL", &n, NULL),
        STATUS_OK);
    assert_int_equal(n, 1);
}

TEST(ends_where_the_caller_fails)
{
    struct db_rows rows;
    struct slice text;
    int n = 0;

    assert_int_equal(insert_row(*state, "one"), STATUS_OK);
    assert_int_equal(insert_row(*state, "two"), STATUS_OK);
    rows = DB_SELECT(*state, NULL, NULL, "SELECT d FROM t");
    while (DB_NEXT(&rows, &text)) {
        n++;
        rows.rc = STATUS_DIFFERENT;
    }

    assert_int_equal(db_rows_end(&rows), STATUS_DIFFERENT);
    assert_int_equal(n, 1);
}

TEST(says_what_failed)
{
    struct problem why = {""};
    struct db *db = *state;

    assert_int_equal(db_exec(db, "PRAGMA query_only=1", NULL), STATUS_OK);
    assert_int_equal(DB_DO(db, NULL, &why, "DELETE FROM t"), STATUS_IO);
    assert_string_equal(
        why.text,
        "cannot write a database: attempt to write a readonly database");
    assert_int_equal(DB_DO(db, "clear", &why, "DELETE FROM t"), STATUS_IO);
    assert_string_equal(why.text,
                        "cannot clear: attempt to write a readonly database");
}

TEST(prepares_a_text_once)
{
    static const char sql[] = "SELECT 1";
    sqlite3_stmt *first, *second;

    assert_int_equal(db_keep(*state, &first, sql, NULL), STATUS_OK);
    assert_int_equal(db_keep(*state, &second, sql, NULL), STATUS_OK);
    assert_ptr_equal(first, second);
}
