#include "broker/log/record.h"

#include <stdlib.h>
#include <string.h>

#include "broker/log/batch.h"
#include "broker/log/log_set.h"
#include "tests/support/posts.h"
#include "tests/test.h"

#define AT_US INT64_C(1775067000123456)

static struct digest
digest_of(const char *text)
{
    struct digest d;

    digest_sha256(&d, slice_of(text));
    return d;
}

/* An act of each kind. Batches and headers are static. */
struct world {
    struct batch *batch;
    struct act acts[ACT_KINDS];
    struct commit commit;
    struct buf bytes;
    size_t n_shared;
    struct record record;
    atomic_size_t forms;
    struct problem why;
};

static void
fill(struct world *w)
{
    struct act *a = w->acts;

    for (int kind = 0; kind < ACT_KINDS; kind++)
        a[kind] = (struct act){
            .kind = (enum act_kind)kind, .set_id = 300, .name = "catalogue"};
    strcpy(a[ACT_BIRTH].birth.epoch, POSTS_EPOCH);
    a[ACT_BIRTH].birth.created_us = AT_US;
    a[ACT_BIRTH].birth.start_list = 7;
    a[ACT_BIRTH].birth.creator = SLICE("client\0x");
    a[ACT_BATCH].entries.batch = w->batch;
    a[ACT_BATCH].entries.commit_after = 6;
    a[ACT_LIST_END].list_end.info =
        (struct list_info){.number = 7,
                           .after = 0,
                           .last = 9,
                           .from_us = AT_US - 5,
                           .until_us = AT_US,
                           .bytes = 12345,
                           .before = digest_of("before"),
                           .digest = digest_of("after")};
    a[ACT_LIST_END].list_end.header = SLICE("<urlset>");
    a[ACT_LIST_END].list_end.commit_after = 6;
    a[ACT_LIST_END].list_end.first_list = 2;
    a[ACT_KEY].key = (struct act_key){.id = digest_of("id"),
                                      .entries = digest_of("entries"),
                                      .first = 7,
                                      .last = 9,
                                      .last_us = -1};
    a[ACT_SETTINGS].settings.text = SLICE("{\"list-entries\":5}");
    a[ACT_SETTINGS].settings.changed_us = AT_US;
    a[ACT_RETIREMENT].retirement.last = 4;
    a[ACT_RETIREMENT].retirement.earliest = UINT64_MAX;
    a[ACT_RETIREMENT].retirement.file_bytes = 98;
    a[ACT_RETIREMENT].retirement.first = 3;
    a[ACT_RETIREMENT].retirement.open_list = 8;
    a[ACT_RETIREMENT].retirement.due_us = INT64_MAX;
    a[ACT_REMOVAL].removal.first = 3;
    a[ACT_REMOVAL].removal.last = 7;
    a[ACT_REMOVAL].removal.next_list = 9;
    a[ACT_REMOVAL].removal.removed_us = INT64_MIN;
    a[ACT_REMOVAL].removal.due_us = AT_US;
    a[ACT_GENERATION].generation.build =
        (struct generation){.kind = GENERATION_CHANGEDUMP,
                            .number = 4,
                            .after = 2,
                            .seq = 9,
                            .from_us = AT_US - 9,
                            .at_us = AT_US,
                            .completed_us = AT_US + 1,
                            .n = 7,
                            .parts = 1,
                            .bytes = 4096,
                            .is_archived = true};
    a[ACT_GENERATION].generation.due_us = AT_US + 2;
    a[ACT_GENERATION].generation.is_first = true;
    a[ACT_GENERATION].generation.n_archived = 3;
    a[ACT_GENERATION].generation.first_archived = 2;
    a[ACT_UNARCHIVED].unarchived.kind = GENERATION_RESOURCEDUMP;
    a[ACT_UNARCHIVED].unarchived.n = 2;
    a[ACT_UNARCHIVED].unarchived.first_archived = 4;
    a[ACT_UNARCHIVED].unarchived.n_archived = 1;
    a[ACT_UNARCHIVED].unarchived.last = 5;
    a[ACT_UNARCHIVED].unarchived.due_us = AT_US;
    a[ACT_HARVEST].harvest.text = SLICE("{\"source\":\"x\"}");
    a[ACT_CONTENT].content = (struct content_fact){.seq = 9,
                                                   .due_us = AT_US,
                                                   .digest = digest_of("x"),
                                                   .length = 3,
                                                   .bytes = SLICE("a\0b"),
                                                   .id = 5,
                                                   .is_here = true};
    memcpy(a[ACT_EPOCH].epoch.name, "fedcba9876543210", EPOCH_SIZE);
    a[ACT_EPOCH].epoch.after = 9;
    a[ACT_EPOCH].epoch.builds[GENERATION_RESOURCEDUMP] = 2;
    a[ACT_TAKEN].taken.upto = 5;
    a[ACT_FILED].filed.list = 7;
    a[ACT_PURGED].purged.trash = 1;
    a[ACT_SWEPT].swept.id = 1;
    w->commit = (struct commit){.at_us = AT_US, .acts = a, .n = ACT_KINDS};
}

static int
setup(void **state)
{
    struct world *w = calloc(1, sizeof(*w));
    struct digest before = digest_of("before");
    struct posted p;

    assert_non_null(w);
    posts_begin(&p, POST_CHANGES, NULL);
    posts_add_many(&p, 1, 3);
    w->batch = posts_batch(&p, 6, &before, NULL);
    posts_end(&p);
    w->batch->list = 7;
    w->batch->list_bytes = 777;
    buf_init(&w->bytes, SIZE_MAX);
    fill(w);
    *state = w;
    return 0;
}

static int
teardown(void **state)
{
    struct world *w = *state;

    record_fini(&w->record);
    buf_fini(&w->bytes);
    batch_unref(w->batch);
    free(w);
    return 0;
}

FIXTURE(setup, teardown);

static enum status
write_and_read(struct world *w)
{
    record_fini(&w->record);
    buf_clear(&w->bytes);
    record_write(&w->bytes, &w->commit, NULL, &w->n_shared);
    assert_false(w->bytes.failed);
    return record_read(&w->record, buf_slice(&w->bytes), &w->forms, &w->why);
}

static const struct act *
read_kind(const struct world *w, enum act_kind kind)
{
    for (size_t i = 0; i < w->record.n; i++)
        if (w->record.acts[i].kind == kind)
            return &w->record.acts[i];
    return NULL;
}

/* Issue: a record has all shared acts of a round, in their order, and no local
 * one. */
TEST(has_the_shared_acts_in_their_order)
{
    struct world *w = *state;

    assert_int_equal(write_and_read(w), STATUS_OK);
    assert_int_equal(w->n_shared, ACT_FILED);
    assert_int_equal(w->record.n, ACT_FILED);
    assert_int_equal(w->record.at_us, AT_US);
    for (int kind = 0; kind < ACT_FILED; kind++) {
        const struct act *act = &w->record.acts[kind];

        assert_int_equal(act->kind, kind);
        assert_int_equal(act->set_id, 300);
        assert_string_equal(act->name, "catalogue");
        assert_null(act->set);
    }
}

/* A record that was read has the same bytes when it is written again. */
TEST(is_written_again_as_the_same_bytes)
{
    struct world *w = *state;
    struct buf again;
    struct commit commit;
    size_t n;

    assert_int_equal(write_and_read(w), STATUS_OK);
    commit = (struct commit){w->record.at_us, w->record.acts, w->record.n};
    buf_init(&again, SIZE_MAX);
    record_write(&again, &commit, NULL, &n);
    assert_true(slice_equal(buf_slice(&again), buf_slice(&w->bytes)));
    buf_fini(&again);
}

/* The log of framework events has a name that no set can have. */
TEST(tells_of_the_framework_log)
{
    struct world *w = *state;

    w->acts[ACT_SETTINGS].name = "_framework";
    assert_int_equal(write_and_read(w), STATUS_OK);
    assert_string_equal(read_kind(w, ACT_SETTINGS)->name, "_framework");
}

TEST(keeps_every_kind_of_field)
{
    struct world *w = *state;
    const struct act *act;

    assert_int_equal(write_and_read(w), STATUS_OK);
    act = read_kind(w, ACT_BIRTH);
    assert_string_equal(act->birth.epoch, POSTS_EPOCH);
    assert_true(slice_equal(act->birth.creator, SLICE("client\0x")));
    act = read_kind(w, ACT_KEY);
    assert_int_equal(act->key.last_us, -1);
    assert_memory_equal(act->key.id.bytes, w->acts[ACT_KEY].key.id.bytes,
                        DIGEST_SIZE);
    act = read_kind(w, ACT_RETIREMENT);
    assert_true(act->retirement.earliest == UINT64_MAX);
    assert_true(act->retirement.due_us == INT64_MAX);
    act = read_kind(w, ACT_REMOVAL);
    assert_true(act->removal.removed_us == INT64_MIN);
    act = read_kind(w, ACT_HARVEST);
    assert_true(slice_is(act->harvest.text, "{\"source\":\"x\"}"));
    act = read_kind(w, ACT_CONTENT);
    assert_true(slice_equal(act->content.bytes, SLICE("a\0b")));
    assert_true(act->content.due_us == AT_US && act->content.length == 3);
    act = read_kind(w, ACT_GENERATION);
    assert_int_equal(act->generation.build.kind, GENERATION_CHANGEDUMP);
    assert_true(act->generation.is_first && act->generation.build.is_archived);
    assert_int_equal(act->generation.first_archived, 2);
}

/* cluster.md 1: sizes of files differ from one broker to the next. */
TEST(leaves_local_members_out)
{
    struct world *w = *state;
    const struct act *act;

    assert_int_equal(write_and_read(w), STATUS_OK);
    act = read_kind(w, ACT_RETIREMENT);
    assert_int_equal(act->retirement.file_bytes, 0);
    act = read_kind(w, ACT_CONTENT);
    assert_false(act->content.is_here || act->content.id);
    assert_false(read_kind(w, ACT_LIST_END)->list_end.info.is_filed);
}

TEST(makes_the_same_batch)
{
    struct world *w = *state;
    const struct batch *b;
    struct digest d;

    assert_int_equal(write_and_read(w), STATUS_OK);
    b = read_kind(w, ACT_BATCH)->entries.batch;
    assert_int_equal(b->first, 7);
    assert_int_equal(b->last, 9);
    assert_int_equal(b->before_us, w->batch->before_us);
    assert_int_equal(b->last_us, w->batch->last_us);
    assert_int_equal(b->list, 7);
    assert_int_equal(b->list_bytes, 777);
    assert_true(slice_equal(batch_slice(b, 6, 9), batch_slice(w->batch, 6, 9)));
    d = batch_digest(b, 8);
    digest_add(&d, batch_slice(b, 8, 9));
    assert_true(digest_is_equal(&d, &b->digest));
}

/* A record that ends too early or too late is none. */
static void
assert_every_part_is_refused(struct world *w)
{
    for (size_t size = 0; size < w->bytes.size; size++) {
        char *part = malloc(size + 1);

        assert_non_null(part);
        memcpy(part, w->bytes.data, size);
        record_fini(&w->record);
        assert_int_equal(record_read(&w->record, (struct slice){part, size},
                                     &w->forms, &w->why),
                         STATUS_MALFORMED);
        free(part);
    }
    record_fini(&w->record);
    buf_add(&w->bytes, "x", 1);
    assert_int_equal(
        record_read(&w->record, buf_slice(&w->bytes), &w->forms, &w->why),
        STATUS_MALFORMED);
    record_fini(&w->record);
    w->bytes.size--;
}

TEST(refuses_every_part_of_a_record)
{
    struct world *w = *state;

    assert_int_equal(write_and_read(w), STATUS_OK);
    assert_every_part_is_refused(w);
}

/* In parts */

/* The entries of a post behind others, as a round stamps them. */
static struct batch *
stamped(const struct posted *p, uint64_t after, int64_t us, int64_t now_us)
{
    struct digest before = digest_of("before");
    struct batch *b = batch_new(after, us, &before, NULL);
    const char *bytes = p->post.bytes.data;

    assert_int_equal(batch_reserve(b, 10000, 10), STATUS_OK);
    for (size_t i = 0; i < p->post.n_fragments; i++) {
        const struct fragment *f = &p->post.fragments[i];

        us = event_time(us, f->datetime_us, now_us);
        batch_add(b, bytes, f, us);
        bytes += f->size;
    }
    return b;
}

static bool
is_same_batch(const struct batch *a, const struct batch *b)
{
    return a->first == b->first && a->last == b->last &&
           a->before_us == b->before_us && a->last_us == b->last_us &&
           digest_is_equal(&a->digest, &b->digest) &&
           slice_equal((struct slice){a->bytes, a->size},
                       (struct slice){b->bytes, b->size});
}

/* The bulk of a round is that of the next one, which has other numbers and
 * times, unless it has other posts. */
TEST(has_a_bulk_that_does_not_depend_on_the_turn)
{
    static const struct {
        const char *what;
        int64_t source_us;   /* of the second entry; 0: it has none */
        int64_t us, next_us; /* the last one before, in both rounds */
        int64_t next_now_us;
        unsigned from, n; /* the posts of the next round; the first: 1, 3 */
        bool is_parted;
    } rows[] = {
        {"later", 0, AT_US - 9, AT_US, AT_US + 9, 1, 3, true},
        {"a clock that was set back", 0, AT_US - 9, AT_US + 9, AT_US, 1, 3,
         true},
        {"a source's time, not overtaken", AT_US - 3, AT_US - 9, AT_US - 8,
         AT_US + 9, 1, 3, true},
        {"a source's time, overtaken", AT_US + 1, AT_US - 9, AT_US + 5,
         AT_US + 9, 1, 3, true},
        {"a source's time of long ago", 77, AT_US - 9, AT_US, AT_US + 9, 1, 3,
         true},
        {"more behind them", 0, AT_US - 9, AT_US, AT_US + 9, 1, 5, false},
        /* As if it had none. */
        {"a source's time, the round's, overtaken", AT_US + 2, AT_US - 9,
         AT_US + 5, AT_US + 9, 1, 3, false},
        {"another one first", 0, AT_US - 9, AT_US, AT_US + 9, 2, 3, false},
        {"one is gone", 0, AT_US - 9, AT_US, AT_US + 9, 1, 2, false},
    };
    struct world *w = *state;

    for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
        struct bulk bulk = {.plain = {.max = SIZE_MAX}};
        struct posted first, next;
        struct batch *b[2];
        struct slice record, end;

        posts_begin(&first, POST_CHANGES, NULL);
        posts_begin(&next, POST_CHANGES, NULL);
        posts_add_many(&first, 1, 3);
        posts_add_many(&next, rows[i].from, rows[i].n);
        if (rows[i].source_us)
            first.post.fragments[0].datetime_us =
                next.post.fragments[0].datetime_us = rows[i].source_us;
        b[0] = stamped(&first, 6, rows[i].us, AT_US + 2);
        b[1] = stamped(&next, 300, rows[i].next_us, rows[i].next_now_us);
        w->commit.at_us = AT_US + 2;
        w->commit.n = ACT_EPOCH; /* without it: brokers that read no epochs may
                                    read parts */
        w->acts[ACT_BATCH].entries.batch = b[0];
        bulk_write(&bulk, &w->commit);
        assert_true(bulk.deflated.size > 0);
        w->commit.at_us = rows[i].next_now_us;
        w->acts[ACT_BATCH].entries.batch = b[1];
        buf_clear(&w->bytes);
        record_write(&w->bytes, &w->commit, &bulk, &w->n_shared);
        record = buf_slice(&w->bytes);
        end = slice_from(record, record.size - bulk.deflated.size);
        if ((record.data[0] == 6) != rows[i].is_parted ||
            slice_equal(end, buf_slice(&bulk.deflated)) != rows[i].is_parted)
            fail_msg("%s: version %d", rows[i].what, record.data[0]);
        if (rows[i].is_parted)
            assert_every_part_is_refused(w);
        assert_int_equal(record_read(&w->record, record, &w->forms, &w->why),
                         STATUS_OK);
        assert_int_equal(w->record.n, ACT_EPOCH);
        if (!is_same_batch(read_kind(w, ACT_BATCH)->entries.batch, b[1]))
            fail_msg("%s: another batch", rows[i].what);
        assert_true(slice_equal(read_kind(w, ACT_CONTENT)->content.bytes,
                                SLICE("a\0b")));
        record_fini(&w->record);
        bulk_clear(&bulk);
        batch_unref(b[0]);
        batch_unref(b[1]);
        posts_end(&first);
        posts_end(&next);
    }
}

/* A broker of an older version must not guess. */
TEST(refuses_a_newer_version)
{
    struct world *w = *state;

    assert_int_equal(write_and_read(w), STATUS_OK);
    record_fini(&w->record);
    w->bytes.data[0] = RECORD_VERSION + 1;
    assert_int_equal(
        record_read(&w->record, buf_slice(&w->bytes), &w->forms, &w->why),
        STATUS_UNSUPPORTED);
    assert_non_null(strstr(w->why.text, "a newer tidingsd wrote it"));
}

#define LARGE 20000

/* Sets the text of the settings to so many bytes, in which every `period` the
 * same ones come; the caller frees them. */
static char *
enlarge(struct world *w, size_t period)
{
    char *text = malloc(LARGE);
    unsigned chance = 1;

    assert_non_null(text);
    for (size_t i = 0; i < LARGE; i++) {
        chance = chance * 1103515245 + 12345;
        text[i] = i < period ? (char)(chance >> 16) : text[i - period];
    }
    w->acts[ACT_SETTINGS].settings.text = (struct slice){text, LARGE};
    return text;
}

/* A large record is deflated, unless that gains little. */
TEST(deflates_a_large_record)
{
    static const struct {
        size_t period, size_max;
        char version;
    } cases[] = {{100, LARGE / 10, 2}, {LARGE, LARGE + 2000, 1}};
    struct world *w = *state;

    w->commit.n = ACT_HARVEST; /* without it */
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char *text = enlarge(w, cases[i].period);

        assert_int_equal(write_and_read(w), STATUS_OK);
        assert_int_equal(w->bytes.data[0], cases[i].version);
        assert_true(w->bytes.size < cases[i].size_max);
        assert_true(w->record.size > LARGE);
        assert_true(slice_equal(read_kind(w, ACT_SETTINGS)->settings.text,
                                w->acts[ACT_SETTINGS].settings.text));
        free(text);
    }
}

/* An older broker must not build a list without its place in the archive, and
 * cannot read the report of a harvester. */
TEST(has_a_version_of_its_own_for_what_older_brokers_do_not_know)
{
    struct world *w = *state;
    struct generation *order = &w->acts[ACT_GENERATION].generation.build;

    w->commit.n = ACT_HARVEST; /* without it */
    order->kind = GENERATION_RESOURCELIST;
    order->parts = order->bytes = 0;
    for (unsigned i = 0; i < 2; i++) {
        order->is_archived = i > 0;
        assert_int_equal(write_and_read(w), STATUS_OK);
        assert_int_equal(w->bytes.data[0], i ? 3 : 1);
        assert_int_equal(
            read_kind(w, ACT_GENERATION)->generation.build.is_archived, i);
    }
    order->kind = GENERATION_RESOURCEDUMP;
    assert_int_equal(write_and_read(w), STATUS_OK);
    assert_int_equal(w->bytes.data[0], 5);
    w->commit.n = ACT_CONTENT;
    order->kind = GENERATION_RESOURCELIST;
    assert_int_equal(write_and_read(w), STATUS_OK);
    assert_int_equal(w->bytes.data[0], 4);
    w->commit.n = ACT_EPOCH;
    assert_int_equal(write_and_read(w), STATUS_OK);
    assert_int_equal(w->bytes.data[0], 5);
    w->commit.n = ACT_KINDS;
    assert_int_equal(write_and_read(w), STATUS_OK);
    assert_int_equal(w->bytes.data[0], 7);
}

/* Each row is a version, a size and a stored block (RFC 1951 section 3.2.4), as
 * in a record that is deflated. */
TEST(refuses_what_cannot_be_inflated)
{
    static const struct {
        const char *bytes;
        size_t size;
        const char *why;
    } cases[] = {
        {"\2", 1, "it is no record"},
        {"\2\0\1\1\0\376\377\1", 8, "it is no record"}, /* size 0 */
        {"\2\377\377\377\17\1\1\0\376\377\1", 11, "it is no record"}, /* more
                                                than such bytes can have */
        {"\2\1\1\1\0\376\377\2", 8, "it is no record"},     /* deflated twice */
        {"\2\2\1\1\0\376\377\1", 8, "cannot be inflated"},  /* too short */
        {"\2\1\1\1\0\376\377\1x", 9, "cannot be inflated"}, /* goes on */
        {"\2\1\1\1\0\376\377", 7, "cannot be inflated"},    /* ends early */
        {"\2\1\1\1\0\376\377\1", 8, "it is no record"},     /* has no time */
    };
    struct world *w = *state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char *bytes = malloc(cases[i].size);

        assert_non_null(bytes);
        memcpy(bytes, cases[i].bytes, cases[i].size);
        assert_int_equal(record_read(&w->record,
                                     (struct slice){bytes, cases[i].size},
                                     &w->forms, &w->why),
                         STATUS_MALFORMED);
        if (!strstr(w->why.text, cases[i].why))
            fail_msg("row %zu: %s", i, w->why.text);
        record_fini(&w->record);
        free(bytes);
    }
}

/* Acts that no broker of this version writes. */
TEST(names_the_act_that_it_refuses)
{
    static const struct {
        enum act_kind kind;
        const char *name;
    } cases[] = {{ACT_SETTINGS, "../etc"},
                 {ACT_SETTINGS, ""},
                 {ACT_SETTINGS, "_"},
                 {ACT_SETTINGS, "__a"},
                 {ACT_BIRTH, NULL}};
    struct world *w = *state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        fill(w);
        if (cases[i].name)
            w->acts[cases[i].kind].name = cases[i].name;
        else
            w->acts[cases[i].kind].birth.epoch[0] = '/';
        assert_int_equal(write_and_read(w), STATUS_MALFORMED);
        assert_int_equal(w->record.n, cases[i].kind);
        assert_non_null(strstr(w->why.text, "act "));
    }
}
