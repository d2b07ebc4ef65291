/*
 * acts_test.c - acts give the same rows wherever and whenever they are applied.
 */
#include "base/clock.h"
#include "broker/log/act.h"
#include "tests/clock.h"
#include "tests/test.h"
#include "tests/unit/store/stored.h"

#define HOUR ((int64_t)3600 * 1000000)

/* Ids of the first sets of a database. */
#define A 1
#define B 2

/* Two databases. */
struct pair {
    struct world *one, *other;
    bool is_seen[ACT_KINDS];
};

static int
setup(void **state)
{
    struct pair *p = calloc(1, sizeof(*p));

    assert_non_null(p);
    world_setup((void **)&p->one);
    world_setup((void **)&p->other);
    *state = p;
    return 0;
}

static int
teardown(void **state)
{
    struct pair *p = *state;

    world_teardown((void **)&p->one);
    world_teardown((void **)&p->other);
    free(p);
    return 0;
}

FIXTURE(setup, teardown);

/* Appends all rows of a table, a line each. */
static void
dump_table(struct db *db, const char *table, struct buf *to)
{
    char sql[100];
    sqlite3_stmt *q;
    bool row;

    buf_add_format(to, "%s\n", table);
    snprintf(sql, sizeof(sql), "SELECT * FROM %s ORDER BY rowid", table);
    assert_int_equal(db_prepare(db, &q, sql, NULL), STATUS_OK);
    while (!db_step(db, q, &row, sql, NULL) && row) {
        for (int i = 0; i < sqlite3_column_count(q); i++) {
            const void *bytes = sqlite3_column_blob(q, i);

            buf_add_format(to, " %s=", sqlite3_column_name(q, i));
            buf_add_hex(to, bytes, (size_t)sqlite3_column_bytes(q, i));
        }
        buf_add_text(to, "\n");
    }
    sqlite3_finalize(q);
}

static void
dump(struct world *w, struct buf *to)
{
    static const char sql[] = "SELECT name FROM sqlite_master"
                              " WHERE type = 'table' ORDER BY name";
    struct db db;
    sqlite3_stmt *q;
    bool row;

    buf_init(to, SIZE_MAX);
    open_db(w, &db, DB_READER);
    assert_int_equal(db_prepare(&db, &q, sql, NULL), STATUS_OK);
    while (!db_step(&db, q, &row, sql, NULL) && row)
        dump_table(&db, (const char *)sqlite3_column_text(q, 0), to);
    sqlite3_finalize(q);
    db_close(&db);
}

static void
assert_same_rows(struct pair *p)
{
    struct buf one, other;

    dump(p->one, &one);
    dump(p->other, &other);
    if (!slice_equal(buf_slice(&one), buf_slice(&other)))
        fail_msg("one:\n%.*s\nother:\n%.*s", SLICE_ARG(buf_slice(&one)),
                 SLICE_ARG(buf_slice(&other)));
    assert_true(one.size > 100);
    buf_fini(&one);
    buf_fini(&other);
}

/* Commits the acts to both, and moves the clock on in between. */
static void
apply(struct pair *p, int64_t at_us, const struct act *acts, size_t n)
{
    const struct commit commit = {at_us, acts, n};
    bool is_more;

    assert_int_equal(ENGINE(p->one, commit, &commit, &is_more, NULL), 0);
    clock_pass_us(100 * HOUR + 1);
    assert_int_equal(ENGINE(p->other, commit, &commit, &is_more, NULL), 0);
    for (size_t i = 0; i < n; i++)
        p->is_seen[acts[i].kind] = true;
    assert_same_rows(p);
}

#define APPLY(p, at_us, acts) \
    apply((p), (at_us), (acts), sizeof(acts) / sizeof((acts)[0]))

static struct act
key(const char *name)
{
    struct act act = {.kind = ACT_KEY, .set_id = A, .key = {.last = 9}};

    digest_sha256(&act.key.id, slice_of(name));
    digest_sha256(&act.key.entries, SLICE("entries"));
    return act;
}

static struct act
generation(uint64_t number, bool is_archived, int64_t due_us)
{
    return (struct act){
        .kind = ACT_GENERATION,
        .set_id = A,
        .name = "a",
        .generation = {.build = {.kind = GENERATION_RESOURCEDUMP,
                                 .number = number,
                                 .seq = 10 * number,
                                 .parts = 1,
                                 .is_archived = is_archived},
                       .due_us = due_us},
    };
}

/* Sets, entries and lists in the order in which posts of one round bring them:
 * births lie between, and a list ends before its set gets more. */
static void
begin_sets(struct pair *p)
{
    struct world *w = p->one;
    const struct list_info lists[2] = {list_of(w, 1, 0, 1),
                                       list_of(w, 2, 1, 2)};
    struct act acts[10];
    uint32_t id;

    acts[0] = birth(w, "a", &id);
    assert_int_equal(id, A);
    acts[1] = batch_of(A, w->chain[0]);
    acts[2] = end_of(A, &lists[0], "header one");
    acts[3] = batch_of(A, w->chain[1]);
    acts[4] = birth(w, "b", &id);
    acts[4].set_id = B;
    acts[5] = end_of(A, &lists[1], "header two");
    acts[6] = key("k");
    acts[7] = (struct act){.kind = ACT_SETTINGS,
                           .set_id = A,
                           .settings = {SLICE("the settings"), 4711}};
    acts[8] = batch_of(B, w->chain[0]);
    acts[9] = (struct act){
        .kind = ACT_HARVEST, .set_id = A, .harvest = {SLICE("the report")}};
    APPLY(p, 50 * HOUR, acts);
}

/* design.md section 4: every kind of act says all that it changes; a journal of
 * acts is applied later, on another machine. */
TEST(every_kind_of_act_gives_the_same_rows_at_any_time)
{
    struct pair *p = *state;
    const struct act build[] = {
        generation(1, true, 60 * HOUR), generation(2, true, 61 * HOUR),
        generation(3, false, 62 * HOUR), generation(4, false, 63 * HOUR)};
    const struct act less[] = {
        {.kind = ACT_FILED,
         .set_id = A,
         .filed = {.list = 1, .marks = SLICE("marks"), .file_bytes = 700}},
        {.kind = ACT_RETIREMENT,
         .set_id = A,
         .name = "a",
         .retirement = {.last = 1,
                        .earliest = 5,
                        .first = 1,
                        .file_bytes = 100,
                        .due_us = 64 * HOUR}},
        {.kind = ACT_UNARCHIVED,
         .set_id = A,
         .unarchived = {.kind = GENERATION_RESOURCEDUMP,
                        .n = 1,
                        .first_archived = 2,
                        .due_us = 65 * HOUR}},
        {.kind = ACT_EPOCH,
         .set_id = A,
         .epoch = {.name = "fedcba9876543210", .after = 5}},
        {.kind = ACT_REMOVAL,
         .set_id = B,
         .name = "b",
         .removal = {.first = 1,
                     .last = 0,
                     .next_list = 2,
                     .removed_us = 55 * HOUR,
                     .due_us = 66 * HOUR}},
    };
    const struct act content[] = {
        {.kind = ACT_CONTENT,
         .set_id = A,
         .content = {.seq = 5, .length = 5, .bytes = SLICE("bytes")}},
        {.kind = ACT_CONTENT,
         .set_id = A,
         .content = {.seq = 6, .due_us = CONTENT_NEVER}},
        {.kind = ACT_CONTENT,
         .set_id = B,
         .content = {.seq = 1, .length = 5, .bytes = SLICE("other")}},
        {.kind = ACT_TAKEN, .set_id = A, .taken = {.upto = 1}},
    };
    const struct act gone[] = {
        {.kind = ACT_PURGED, .purged = {.trash = 1, .upto = 1}},
        {.kind = ACT_PURGED, .purged = {.trash = 2, .upto = 0}},
        {.kind = ACT_SWEPT, .swept = {1}},
        {.kind = ACT_GUARD, .guard = {true}},
        key("l"),
    };

    world_open(p->one, 3, 5);
    world_open(p->other, 3, 5);
    begin_sets(p);
    APPLY(p, 51 * HOUR, build);
    APPLY(p, 52 * HOUR, content);
    APPLY(p, 55 * HOUR, less);
    APPLY(p, 80 * HOUR, gone); /* the tables of keys are swapped, too */
    apply(p, 81 * HOUR, NULL, 0);
    for (int kind = 0; kind < ACT_KINDS; kind++)
        assert_true(p->is_seen[kind]);
}
