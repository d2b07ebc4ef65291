#include "broker/log/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <zlib.h>

#include "proto/resourcesync/document_write.h"
#include "tests/clock.h"
#include "tests/test.h"
#include "tests/unit/log/stage.h"

FIXTURE(stage_setup, stage_teardown);

/* seqs are consecutive from 1 within a set, in spite of posts to
 * others. */
TEST(numbers_the_entries_of_each_set_from_one)
{
    static const struct {
        const char *set;
        unsigned n;
        uint64_t first, last;
    } posts[] = {
        {STAGE_SET, 3, 1, 3}, {"other", 2, 1, 2}, {STAGE_SET, 1, 4, 4}};
    struct stage *s = *state;
    struct log_set *other;

    stage_open(s, 50000);
    other = logs_set(&s->logs, "other");
    for (size_t i = 0; i < sizeof(posts) / sizeof(posts[0]); i++) {
        struct log_set *set = strcmp(posts[i].set, "other") ? s->set : other;
        uint64_t first, last;

        assert_int_equal(logs_post(&s->logs, set, 1, posts[i].n, &first, &last),
                         STATUS_OK);
        assert_int_equal(first, posts[i].first);
        assert_int_equal(last, posts[i].last);
    }
}

/* after a restart everything is there, and goes on where it was. */
TEST(goes_on_after_a_restart_as_if_nothing_had_been)
{
    struct stage *s = *state;
    struct buf before, after;
    struct head head, again;
    uint64_t first;

    buf_init(&before, SIZE_MAX);
    buf_init(&after, SIZE_MAX);
    stage_open(s, 5);
    stage_post(s, 1, 13);

    stage_reopen(s);
    head = stage_head(s);
    assert_int_equal(head.last, 13);
    assert_int_equal(head.list, 3);
    assert_int_equal(head.list_after, 10);
    assert_int_equal(logs_read_all(&s->logs, s->set, 0, &before), 13);
    logs_file_all(&s->logs);

    stage_reopen(s);
    again = stage_head(s);
    assert_string_equal(again.epoch, head.epoch);
    assert_memory_equal(again.digest.bytes, head.digest.bytes, DIGEST_SIZE);
    assert_int_equal(again.list_bytes, head.list_bytes);
    assert_int_equal(logs_read_all(&s->logs, s->set, 0, &after), 13);
    assert_int_equal(before.size, after.size);
    assert_memory_equal(before.data, after.data, before.size);
    assert_int_equal(logs_post(&s->logs, s->set, 14, 1, &first, NULL), 0);
    assert_int_equal(first, 14);
    buf_fini(&before);
    buf_fini(&after);
}

/* also when all that was in the log has gone to files. */
TEST(finds_its_head_when_the_open_list_is_empty)
{
    struct stage *s = *state;
    struct head head;

    stage_open(s, 4);
    stage_post(s, 1, 4);
    logs_file_all(&s->logs);

    stage_reopen(s);
    head = stage_head(s);
    assert_int_equal(head.last, 4);
    assert_int_equal(head.list, 2);
    assert_true(head_list_is_empty(&head));
}

/* a post that crosses the limit is split between lists, and seqs
 * go on through them. */
TEST(splits_a_post_between_lists)
{
    struct stage *s = *state;
    struct list_info info[4];

    stage_open(s, 10);
    stage_post(s, 1, 27);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(stage_lists(s, info, 4), 2);
        assert_int_equal(info[0].after, 0);
        assert_int_equal(info[0].last, 10);
        assert_int_equal(info[1].after, 10);
        assert_int_equal(info[1].last, 20);
        stage_reopen(s);
    }
}

/* `until` of one list is `from` of the next, and no entry is at or
 * before it in the next. */
TEST(leaves_no_gap_and_no_overlap_between_lists)
{
    struct stage *s = *state;
    struct list_info info[8];
    size_t n;

    stage_open(s, 3);
    stage_post(s, 1, 20);
    n = stage_lists(s, info, 8);
    assert_int_equal(info[0].from_us, stage_head(s).created_us);
    for (size_t i = 1; i < n; i++) {
        struct batch *b = stage_read(s, info[i].after, LOG_DISK);

        assert_int_equal(info[i].from_us, info[i - 1].until_us);
        assert_true(batch_time(b, info[i].after + 1) > info[i].from_us);
        assert_int_equal(batch_time(b, info[i].after), info[i].from_us);
        batch_unref(b);
    }
    assert_int_equal(stage_head(s).list_from_us, info[n - 1].until_us);
}

/* a list has the same bytes before and after its file exists. */
TEST(files_a_list_byte_for_byte)
{
    struct stage *s = *state;
    struct list_info info;
    struct buf served;
    char *filed = malloc(1 << 22);
    gzFile file;
    int size;

    buf_init(&served, SIZE_MAX);
    stage_open(s, 9000);
    stage_post(s, 1, 9000);
    stage_reopen(s);
    assert_int_equal(log_list(s->logs.log, s->set, 1, &info, &served, NULL), 0);
    assert_memory_equal(served.data, "<urlset demo", 12);
    logs_read_all(&s->logs, s->set, 0, &served);
    buf_add_slice(&served, document_footer_of(DOCUMENT_URLSET));
    logs_file_all(&s->logs);

    file = gzopen(stage_file(s, STAGE_SET, 1), "rb");
    assert_non_null(file);
    size = gzread(file, filed, 1 << 22);
    gzclose(file);
    assert_int_equal(size, served.size);
    assert_memory_equal(filed, served.data, served.size);
    assert_true(size > 1000000); /* several blocks */
    buf_fini(&served);
    free(filed);
}

/* log_thread.h: a list that gets its file lets the posts go on, those of a
 * former process count, too; and then nothing is counted. */
TEST(goes_on_when_lists_have_their_files)
{
    struct stage *s = *state;
    struct posted next;

    stage_open(s, 100);
    stage_post(s, 1, 250);
    s->logs.options.unfiled_bytes = 1;
    stage_reopen(s);
    assert_true(log_is_holding(s->logs.log));
    posts_begin(&next, POST_CHANGES, s->set);
    posts_add_many(&next, 251, 10);
    assert_int_equal(log_submit(s->logs.log, &next.post, NULL), STATUS_OK);
    assert_int_equal(stage_head(s).last, 250);
    logs_file_all(&s->logs);
    assert_int_equal(posts_wait(&next), STATUS_OK);
    assert_int_equal(next.post.first, 251);
    posts_end(&next);
    assert_false(log_is_holding(s->logs.log));
}

/* Design section 1: three tiers behind one read, from any position. */
TEST(reads_the_same_from_memory_store_and_file)
{
    struct stage *s = *state;
    struct buf memory, disk;

    buf_init(&memory, SIZE_MAX);
    buf_init(&disk, SIZE_MAX);
    stage_open(s, 2000);
    for (unsigned i = 0; i < 70; i++)
        stage_post(s, 100 * i, 100);
    assert_int_equal(logs_read_all(&s->logs, s->set, 0, &memory), 7000);
    logs_file_all(&s->logs);

    stage_reopen(s); /* lists 1 to 3 filed, 4 open */
    for (uint64_t after = 0; after < 7000; after += after == 0 ? 1 : 613) {
        buf_clear(&disk);
        assert_int_equal(logs_read_all(&s->logs, s->set, after, &disk), 7000);
        assert_true(after > 0 || memory.size == disk.size);
        assert_memory_equal(memory.data + memory.size - disk.size, disk.data,
                            disk.size);
    }
    buf_fini(&memory);
    buf_fini(&disk);
}

/* log.md: a service thread never waits for a disk. */
TEST(says_so_when_an_entry_is_not_in_memory)
{
    struct stage *s = *state;
    struct batch *b;

    stage_open(s, 100);
    stage_post(s, 1, 10);
    stage_reopen(s);
    assert_int_equal(log_read(s->logs.log, s->set, 3, LOG_MEMORY, &b, NULL),
                     STATUS_AGAIN);
    batch_unref(stage_read(s, 3, LOG_DISK));
    assert_null(stage_read(s, 10, LOG_MEMORY));
}

/* in the future is an error, not silence. */
TEST(refuses_to_read_ahead_of_the_log)
{
    struct problem why = {""};
    struct stage *s = *state;
    struct batch *b;

    stage_open(s, 100);
    stage_post(s, 1, 2);
    assert_int_equal(log_read(s->logs.log, s->set, 3, LOG_DISK, &b, &why),
                     STATUS_GONE);
    assert_string_equal(why.text,
                        "entry 3 is ahead of the log, which ends at 2");
}

#define SOURCE_TIME "td:datetime=\"1970-01-01T00:23:20Z\""

static void
set_clock(int64_t day_us)
{
    clock_set_us(day_us - clock_day_us());
}

static void
post_at(struct stage *s, int64_t source_us)
{
    assert_int_equal(logs_post_at(&s->logs, s->set, 2, 1, source_us), 0);
}

/* times increase strictly; a source's own is kept if it is later
 * than every earlier time and not after now. */
TEST(takes_the_sources_time_only_where_it_keeps_the_order)
{
    struct stage *s = *state;
    struct batch *b;

    set_clock(1000000000);
    stage_open(s, 100);
    stage_post(s, 1, 1); /* now + 1 */
    set_clock(2000000000);
    post_at(s, 1500000000); /* kept */
    post_at(s, 1400000000); /* too old */
    post_at(s, 3000000000); /* too new */
    set_clock(1);           /* set back */

    stage_post(s, 5, 2);

    batch_unref(stage_read(s, 0, LOG_MEMORY));
    assert_int_equal(stage_head(s).last_us, 2000000003);
    b = stage_read(s, 1, LOG_MEMORY);
    assert_int_equal(batch_time(b, 2), 1500000000);
    batch_unref(b);
    b = stage_read(s, 2, LOG_MEMORY);
    assert_int_equal(batch_time(b, 3), 2000000000);
    assert_non_null(
        memmem(b->bytes, b->size, SOURCE_TIME, sizeof(SOURCE_TIME) - 1));
    batch_unref(b);
}

/* on demand; an empty list is not closed. */
TEST(closes_the_open_list_on_demand_unless_it_is_empty)
{
    struct stage *s = *state;
    struct head head;

    stage_open(s, 100);
    assert_int_equal(logs_close_list(&s->logs, s->set), 0);
    assert_false(log_head(s->set, &head));
    stage_post(s, 1, 2);
    assert_int_equal(logs_close_list(&s->logs, s->set), 1);
    assert_int_equal(logs_close_list(&s->logs, s->set), 0);
    assert_int_equal(stage_head(s).list, 2);
    assert_int_equal(stage_head(s).last, 2);
    assert_int_equal(s->logs.n_closed, 1);
}

/* a list ends before its bytes, largest header and footer
 * counted, pass the limit. */
TEST(closes_a_list_before_it_has_too_many_bytes)
{
    struct stage *s = *state;
    struct list_info info[64];
    size_t n;

    stage_open(s, 50000);
    s->logs.options.limits.bytes = 600000;
    stage_reopen(s);
    for (unsigned i = 0; i < 10; i++)
        stage_post(s, i * 1000, 1000);
    n = stage_lists(s, info, 64);
    assert_true(n >= 2);
    for (size_t i = 0; i < n; i++)
        assert_in_range(info[i].bytes + DOCUMENT_FRAME_MAX, 599001, 600000);
}

/* Design section 4: one broker per directory. */
TEST(refuses_a_directory_that_another_log_has)
{
    struct problem why = {""};
    struct stage *s = *state;
    struct log *other;

    stage_open(s, 10);
    assert_int_equal(log_open(&other, &s->logs.options, &why), STATUS_BUSY);
    assert_non_null(strstr(why.text, "in use"));
}

struct counter {
    struct watch watch;
    unsigned wakes;
};

static void
count_wake(struct watch *watch)
{
    struct counter *c = list_entry(watch, struct counter, watch);

    c->wakes++;
}

/* log.md: no wake is lost, none comes after unwatch. */
TEST(wakes_who_watches_after_each_commit)
{
    struct counter c = {{.wake = count_wake}, 0};
    struct stage *s = *state;

    stage_open(s, 10);
    log_watch(s->set, &c.watch);
    stage_post(s, 1, 1);
    stage_post(s, 2, 1);
    log_unwatch(s->set, &c.watch);
    stage_post(s, 3, 1);
    assert_int_equal(c.wakes, 2);
}

/* Design rule 8: settings bound the memory; older entries are read back.
 */
TEST(keeps_the_tail_within_its_bytes)
{
    struct stage *s = *state;
    struct batch *b;
    struct buf all;

    buf_init(&all, SIZE_MAX);
    stage_open(s, 50000);
    s->logs.options.tail_bytes = 100000;
    stage_reopen(s);
    for (unsigned i = 0; i < 100; i++)
        stage_post(s, i * 100, 100);
    assert_int_equal(log_read(s->logs.log, s->set, 0, LOG_MEMORY, &b, NULL),
                     STATUS_AGAIN);
    batch_unref(stage_read(s, 9950, LOG_MEMORY));
    assert_int_equal(logs_read_all(&s->logs, s->set, 0, &all), 10000);
    buf_fini(&all);
}

/* log.md: rows go once a list's file is there, and the file answers from then
 * on. */
TEST(forgets_the_rows_of_filed_lists)
{
    struct problem why = {""};
    struct stage *s = *state;
    struct batch *b;
    struct buf all;

    buf_init(&all, SIZE_MAX);
    stage_open(s, 1000);
    stage_post(s, 1, 3500);
    logs_file_all(&s->logs);
    stage_reopen(s); /* the log thread has paid its debts only if it had time */
    for (unsigned i = 0; i < 20; i++) /* each commit forgets a slice */
        stage_post(s, 1, 1);
    stage_close(s);

    assert_int_equal(unlink(stage_file(s, STAGE_SET, 2)), 0);
    stage_reopen(s);
    assert_int_equal(log_read(s->logs.log, s->set, 1500, LOG_DISK, &b, &why),
                     STATUS_IO);
    assert_non_null(strstr(why.text, "000000000002.xml.gz"));
    assert_int_equal(logs_read_all(&s->logs, s->set, 2000, &all), 3520);
    buf_fini(&all);
}
