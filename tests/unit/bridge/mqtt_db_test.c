#include "broker/bridge/mqtt_db.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/db.h"
#include "proto/buf.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"

static pthread_mutex_t writing = PTHREAD_MUTEX_INITIALIZER;

#define EPOCH "0123456789abcdef"

static struct tempdir dir;
static struct mqtt_db *db;

static int
open_db(void **state)
{
    struct problem why = {""};

    (void)state;
    tempdir_open(&dir);
    if (mqtt_db_open(&db, dir.path, NULL, &writing, &why))
        fail_msg("%s", why.text);
    return 0;
}

static int
close_db(void **state)
{
    (void)state;
    mqtt_db_close(db);
    tempdir_close(&dir);
    return 0;
}

static void
reopen(void)
{
    struct problem why = {""};

    mqtt_db_close(db);
    if (mqtt_db_open(&db, dir.path, NULL, &writing, &why))
        fail_msg("%s", why.text);
}

static struct lane_row
row_of(const char *set, uint64_t acked, const uint64_t *ends, size_t n)
{
    return (struct lane_row){slice_of(set), EPOCH, acked, ends, n};
}

/* In one transaction. */
static enum status
keep_all(const char *bridge, const struct lane_row *rows, size_t n,
         bool is_firm, struct problem *why)
{
    enum status rc = mqtt_db_begin(db, is_firm, why);

    if (rc)
        return rc;
    for (size_t i = 0; !rc && i < n; i++)
        rc = mqtt_db_keep(db, bridge, &rows[i], why);
    return mqtt_db_end(db, rc, why);
}

static void
keep(const char *bridge, struct lane_row row, bool is_firm)
{
    assert_int_equal(keep_all(bridge, &row, 1, is_firm, NULL), STATUS_OK);
}

/* The lanes of a bridge, as text: "set@acked:end,end; ". */
static enum status
describe(const struct lane_row *row, void *user)
{
    struct buf *to = user;

    assert_string_equal(row->epoch, EPOCH);
    buf_add_slice(to, row->set);
    buf_add_format(to, "@%llu:", (unsigned long long)row->acked);
    for (size_t i = 0; i < row->n_ends; i++)
        buf_add_format(to, "%s%llu", i > 0 ? "," : "",
                       (unsigned long long)row->ends[i]);
    BUF_ADD(to, "; ");
    return STATUS_OK;
}

static void
assert_lanes(const char *bridge, const char *expected)
{
    struct buf text;

    buf_init(&text, SIZE_MAX);
    assert_int_equal(mqtt_db_lanes(db, bridge, describe, &text, NULL),
                     STATUS_OK);
    buf_add(&text, "", 1);
    assert_string_equal(text.data, expected);
    buf_fini(&text);
}

FIXTURE(open_db, close_db);

TEST(a_bridge_has_one_identity_for_ever_and_another_has_another)
{
    struct bridge_row first, again, other;
    int64_t before_us = clock_now_us();

    assert_int_equal(mqtt_db_bridge(db, "a", "one", &first, NULL), STATUS_OK);
    assert_int_equal(mqtt_db_bridge(db, "b", "one", &other, NULL), STATUS_OK);
    reopen();
    assert_int_equal(mqtt_db_bridge(db, "a", "two", &again, NULL), STATUS_OK);

    assert_int_equal(strlen(first.identity), BRIDGE_IDENTITY_SIZE - 1);
    assert_string_equal(again.identity, first.identity);
    assert_string_not_equal(other.identity, first.identity);
    assert_true(first.since_us >= before_us);
    assert_int_equal(again.since_us, first.since_us);
}

TEST(lanes_come_back_with_the_ends_of_their_messages)
{
    const uint64_t ends[] = {103, 400, 401};

    keep("a", row_of("one", 0, NULL, 0), true);
    keep("a", row_of("two", 100, ends, 3), false);
    keep("b", row_of("two", 7, NULL, 0), true);
    reopen();

    assert_lanes("a", "one@0:; two@100:103,400,401; ");
    assert_lanes("b", "two@7:; ");
    assert_lanes("c", "");
}

TEST(a_lane_that_is_kept_again_replaces_what_was_kept)
{
    const uint64_t ends[] = {103, 400};

    keep("a", row_of("one", 100, ends, 2), false);
    keep("a", row_of("one", 103, ends + 1, 1), false);
    assert_lanes("a", "one@103:400; ");

    assert_int_equal(mqtt_db_forget(db, "a", SLICE("one"), NULL), STATUS_OK);
    assert_lanes("a", "");
}

/* Of every length that a difference may have. */
TEST(seqs_of_any_size_are_kept)
{
    uint64_t ends[62], at = 0;
    struct buf expected;

    buf_init(&expected, SIZE_MAX);
    BUF_ADD(&expected, "one@0:");
    for (unsigned i = 0; i < 62; i++) {
        ends[i] = at += (uint64_t)1 << i;
        buf_add_format(&expected, "%s%llu", i > 0 ? "," : "",
                       (unsigned long long)at);
    }
    BUF_ADD(&expected, "; ");
    buf_add(&expected, "", 1);

    keep("a", row_of("one", 0, ends, 62), false);
    reopen();

    assert_lanes("a", expected.data);
    ends[0] = INT64_MAX;
    keep("a", row_of("one", INT64_MAX - 1, ends, 1), false);
    assert_lanes("a", "one@9223372036854775806:9223372036854775807; ");
    buf_fini(&expected);
}

static enum status
stop_at_once(const struct lane_row *row, void *user)
{
    (void)row;
    ++*(int *)user;
    return STATUS_STOPPED;
}

TEST(who_reads_lanes_may_stop)
{
    int n = 0;

    keep("a", row_of("one", 0, NULL, 0), false);
    keep("a", row_of("two", 0, NULL, 0), false);

    assert_int_equal(mqtt_db_lanes(db, "a", stop_at_once, &n, NULL),
                     STATUS_STOPPED);
    assert_int_equal(n, 1);
    assert_lanes("a", "one@0:; two@0:; ");
}

/* Runs SQL of the test's own while mqtt.db is closed. */
static void
tamper(const char *sql)
{
    char path[400];
    struct db file;

    snprintf(path, sizeof(path), "%s/mqtt.db", dir.path);
    mqtt_db_close(db);
    db = NULL;
    assert_int_equal(db_open(&file, path, DB_SMALL, NULL), STATUS_OK);
    assert_int_equal(db_exec(&file, sql, NULL), STATUS_OK);
    db_close(&file);
    reopen();
}

TEST(what_is_damaged_is_told_and_not_believed)
{
    static const char *const updates[] = {
        "UPDATE lanes SET ends=x'80'",
        "UPDATE lanes SET ends=x'00'",
        "UPDATE lanes SET ends=x'ffffffffffffffffff7f'",
        "UPDATE lanes SET ends=x'ffffffffffffffffff01'",
        "UPDATE lanes SET ends=x'', acked=-1",
        "UPDATE lanes SET acked=1, epoch='0123'",
    };
    int n = 0;

    keep("a", row_of("one", 1, NULL, 0), true);
    for (size_t i = 0; i < sizeof(updates) / sizeof(updates[0]); i++) {
        struct problem why = {""};

        tamper(updates[i]);
        assert_int_equal(mqtt_db_lanes(db, "a", stop_at_once, &n, &why),
                         STATUS_IO);
        assert_non_null(strstr(why.text, "mqtt.db is damaged"));
    }
}

/* A failed transaction leaves nothing, and the next one is a new one. */
TEST(rows_are_kept_together_or_not_at_all)
{
    struct lane_row rows[] = {row_of("one", 1, NULL, 0),
                              row_of("two", 2, NULL, 0)};
    struct problem why = {""};

    tamper("CREATE TRIGGER no BEFORE INSERT ON lanes WHEN"
           " new.name='two' BEGIN SELECT RAISE(ABORT, 'no two'); END");

    assert_int_not_equal(keep_all("a", rows, 2, false, &why), STATUS_OK);
    assert_non_null(strstr(why.text, "no two"));
    assert_lanes("a", "");
    keep("a", rows[0], false);
    assert_lanes("a", "one@1:; ");
}

static enum status
join(const char *filter, void *user)
{
    buf_add_text(user, filter);
    BUF_ADD((struct buf *)user, " ");
    return STATUS_OK;
}

TEST(filters_are_those_that_were_added_and_not_dropped)
{
    struct buf text;

    buf_init(&text, SIZE_MAX);
    assert_int_equal(mqtt_db_set_filter(db, "a", "x/#", true, NULL), STATUS_OK);
    assert_int_equal(mqtt_db_set_filter(db, "a", "x/#", true, NULL), STATUS_OK);
    assert_int_equal(mqtt_db_set_filter(db, "a", "y/+", true, NULL), STATUS_OK);
    assert_int_equal(mqtt_db_set_filter(db, "b", "z", true, NULL), STATUS_OK);
    assert_int_equal(mqtt_db_set_filter(db, "a", "y/+", false, NULL),
                     STATUS_OK);
    assert_int_equal(mqtt_db_set_filter(db, "a", "none", false, NULL),
                     STATUS_OK);
    reopen();

    assert_int_equal(mqtt_db_filters(db, "a", join, &text, NULL), STATUS_OK);
    buf_add(&text, "", 1);
    assert_string_equal(text.data, "x/# ");
    buf_fini(&text);
}

TEST(a_database_that_cannot_be_opened_says_why)
{
    struct mqtt_db *none = NULL;
    struct problem why = {""};
    char path[400];

    snprintf(path, sizeof(path), "%s/none", dir.path);

    assert_int_not_equal(mqtt_db_open(&none, path, NULL, &writing, &why),
                         STATUS_OK);

    assert_non_null(strstr(why.text, "/none/mqtt.db"));
    assert_null(none);
}
