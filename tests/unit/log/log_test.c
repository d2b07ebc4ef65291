#include "broker/log/log.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <zlib.h>

#include "broker/log/cursor.h"
#include "proto/document.h"
#include "tests/clock.h"
#include "tests/support/logs.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"

FIXTURE(tempdir_setup, tempdir_teardown);

/* seqs are consecutive from 1 within a set, whoever else posts. */
TEST(numbers_the_entries_of_each_set_from_one)
{
    struct logs l;
    struct log_set *a, *b;
    uint64_t first, last;

    logs_open(&l, tempdir_path(state), 50000);
    a = logs_set(&l, "a");
    b = logs_set(&l, "b");
    assert_int_equal(logs_post(&l, a, 1, 3, &first, &last), STATUS_OK);
    assert_int_equal(first, 1);
    assert_int_equal(last, 3);
    assert_int_equal(logs_post(&l, b, 1, 2, &first, &last), STATUS_OK);
    assert_int_equal(first, 1);
    assert_int_equal(logs_post(&l, a, 4, 1, &first, &last), STATUS_OK);
    assert_int_equal(first, 4);
    assert_int_equal(last, 4);
    logs_close(&l);
}

/* after a restart everything is there, and goes on where it was. */
TEST(goes_on_after_a_restart_as_if_nothing_had_been)
{
    struct buf before, after;
    struct head head, again;
    struct logs l;
    uint64_t first;

    buf_init(&before, SIZE_MAX);
    buf_init(&after, SIZE_MAX);
    logs_open(&l, tempdir_path(state), 5);
    assert_int_equal(logs_post(&l, logs_set(&l, "a"), 1, 13, NULL, NULL), 0);
    logs_close(&l);

    logs_open(&l, tempdir_path(state), 5);
    assert_true(log_head(logs_set(&l, "a"), &head));
    assert_int_equal(head.last, 13);
    assert_int_equal(head.list, 3);
    assert_int_equal(head.list_after, 10);
    assert_int_equal(logs_read_all(&l, logs_set(&l, "a"), 0, &before), 13);
    logs_file_all(&l);
    logs_close(&l);

    logs_open(&l, tempdir_path(state), 5);
    assert_true(log_head(logs_set(&l, "a"), &again));
    assert_string_equal(again.epoch, head.epoch);
    assert_memory_equal(again.digest.bytes, head.digest.bytes, DIGEST_SIZE);
    assert_int_equal(again.list_bytes, head.list_bytes);
    assert_int_equal(logs_read_all(&l, logs_set(&l, "a"), 0, &after), 13);
    assert_int_equal(before.size, after.size);
    assert_memory_equal(before.data, after.data, before.size);
    assert_int_equal(logs_post(&l, logs_set(&l, "a"), 14, 1, &first, NULL), 0);
    assert_int_equal(first, 14);
    logs_close(&l);
    buf_fini(&before);
    buf_fini(&after);
}

/* also when all that was in the log has gone to files. */
TEST(finds_its_head_when_the_open_list_is_empty)
{
    struct head head;
    struct logs l;

    logs_open(&l, tempdir_path(state), 4);
    assert_int_equal(logs_post(&l, logs_set(&l, "a"), 1, 4, NULL, NULL), 0);
    logs_file_all(&l);
    logs_close(&l);

    logs_open(&l, tempdir_path(state), 4);
    assert_true(log_head(logs_set(&l, "a"), &head));
    assert_int_equal(head.last, 4);
    assert_int_equal(head.list, 2);
    assert_true(lists_is_empty(&head));
    logs_close(&l);
}

/* a post that crosses the limit is split between lists, and seqs
 * go on through them. */
TEST(splits_a_post_between_lists)
{
    struct list_info info[4];
    struct logs l;
    size_t n = 4;

    logs_open(&l, tempdir_path(state), 10);
    assert_int_equal(logs_post(&l, logs_set(&l, "a"), 1, 27, NULL, NULL), 0);
    assert_int_equal(log_lists(l.log, logs_set(&l, "a"), 1, info, &n, NULL), 0);
    logs_close(&l);
    logs_open(&l, tempdir_path(state), 10);
    n = 4;
    assert_int_equal(log_lists(l.log, logs_set(&l, "a"), 1, info, &n, NULL), 0);
    assert_int_equal(n, 2);
    assert_int_equal(info[0].after, 0);
    assert_int_equal(info[0].last, 10);
    assert_int_equal(info[1].after, 10);
    assert_int_equal(info[1].last, 20);
    logs_close(&l);
}

/* `until` of one list is `from` of the next, and no entry is at or
 * before it in the next. */
TEST(leaves_no_gap_and_no_overlap_between_lists)
{
    struct list_info info[8];
    struct log_set *set;
    struct head head;
    struct logs l;
    size_t n = 8;

    logs_open(&l, tempdir_path(state), 3);
    set = logs_set(&l, "a");
    assert_int_equal(logs_post(&l, set, 1, 20, NULL, NULL), 0);
    assert_int_equal(log_lists(l.log, set, 1, info, &n, NULL), 0);
    log_head(set, &head);
    assert_int_equal(info[0].from_us, head.created_us);
    for (size_t i = 1; i < n; i++) {
        struct batch *b;

        assert_int_equal(info[i].from_us, info[i - 1].until_us);
        assert_int_equal(
            log_read(l.log, set, info[i].after, LOG_DISK, &b, NULL), 0);
        assert_true(batch_time(b, info[i].after + 1) > info[i].from_us);
        assert_int_equal(batch_time(b, info[i].after), info[i].from_us);
        batch_unref(b);
    }
    assert_int_equal(head.list_from_us, info[n - 1].until_us);
    logs_close(&l);
}

/* a list has the same bytes before and after its file exists. */
TEST(files_a_list_byte_for_byte)
{
    char path[400], head[64];
    struct buf served;
    struct list_info info;
    struct logs l;
    char *filed = malloc(1 << 22);
    gzFile file;
    int size;

    buf_init(&served, SIZE_MAX);
    logs_open(&l, tempdir_path(state), 9000);
    assert_int_equal(logs_post(&l, logs_set(&l, "a"), 1, 9000, NULL, NULL), 0);
    logs_close(&l);
    logs_open(&l, tempdir_path(state), 9000);
    assert_int_equal(
        log_list(l.log, logs_set(&l, "a"), 1, &info, &served, NULL), 0);
    snprintf(head, sizeof(head), "%.*s", 9, served.data);
    assert_string_equal(head, "<urlset a");
    logs_read_all(&l, logs_set(&l, "a"), 0, &served);
    buf_add_slice(&served, document_footer_of(DOCUMENT_URLSET));
    logs_file_all(&l);

    snprintf(path, sizeof(path), "%s/sets/a/changes/000000000001.xml.gz",
             tempdir_path(state));
    file = gzopen(path, "rb");
    assert_non_null(file);
    size = gzread(file, filed, 1 << 22);
    gzclose(file);
    assert_int_equal(size, served.size);
    assert_memory_equal(filed, served.data, served.size);
    assert_true(size > 1000000); /* several blocks */
    logs_close(&l);
    buf_fini(&served);
    free(filed);
}

/* Design section 1: three tiers behind one read, from any position. */
TEST(reads_the_same_from_memory_store_and_file)
{
    struct buf memory, disk;
    struct logs l;
    struct log_set *set;

    buf_init(&memory, SIZE_MAX);
    buf_init(&disk, SIZE_MAX);
    logs_open(&l, tempdir_path(state), 2000);
    set = logs_set(&l, "a");
    for (unsigned i = 0; i < 70; i++)
        assert_int_equal(logs_post(&l, set, 100 * i, 100, NULL, NULL), 0);
    assert_int_equal(logs_read_all(&l, set, 0, &memory), 7000);
    logs_file_all(&l);
    logs_close(&l);

    logs_open(&l, tempdir_path(state), 2000); /* lists 1 to 3 filed, 4 open */
    set = logs_set(&l, "a");
    assert_int_equal(logs_read_all(&l, set, 0, &disk), 7000);
    assert_int_equal(memory.size, disk.size);
    assert_memory_equal(memory.data, disk.data, memory.size);
    for (uint64_t after = 1; after < 7000; after += 613) {
        buf_clear(&disk);
        assert_int_equal(logs_read_all(&l, set, after, &disk), 7000);
        assert_memory_equal(memory.data + memory.size - disk.size, disk.data,
                            disk.size);
    }
    logs_close(&l);
    buf_fini(&memory);
    buf_fini(&disk);
}

/* log.md: a service thread never waits for a disk. */
TEST(says_so_when_an_entry_is_not_in_memory)
{
    struct batch *b;
    struct logs l;

    logs_open(&l, tempdir_path(state), 100);
    assert_int_equal(logs_post(&l, logs_set(&l, "a"), 1, 10, NULL, NULL), 0);
    logs_close(&l);
    logs_open(&l, tempdir_path(state), 100);
    assert_int_equal(
        log_read(l.log, logs_set(&l, "a"), 3, LOG_MEMORY, &b, NULL),
        STATUS_AGAIN);
    assert_int_equal(log_read(l.log, logs_set(&l, "a"), 3, LOG_DISK, &b, NULL),
                     STATUS_OK);
    batch_unref(b);
    assert_int_equal(
        log_read(l.log, logs_set(&l, "a"), 10, LOG_MEMORY, &b, NULL),
        STATUS_OK);
    assert_null(b);
    logs_close(&l);
}

/* in the future is an error, not silence. */
TEST(refuses_to_read_ahead_of_the_log)
{
    struct problem why = {""};
    struct log_set *set;
    struct batch *b;
    struct logs l;

    logs_open(&l, tempdir_path(state), 100);
    set = logs_set(&l, "a");
    assert_int_equal(logs_post(&l, set, 1, 2, NULL, NULL), 0);
    assert_int_equal(log_read(l.log, set, 3, LOG_DISK, &b, &why), STATUS_GONE);
    assert_string_equal(why.text,
                        "entry 3 is ahead of the log, which ends at 2");
    logs_close(&l);
}

#define SOURCE_TIME "td:datetime=\"1970-01-01T00:23:20Z\""

static void
set_clock(int64_t day_us)
{
    clock_set_us(day_us - clock_day_us());
}

/* times increase strictly; a source's own is kept where it is
 * later than every time told and not after now. */
TEST(takes_the_sources_time_only_where_it_keeps_the_order)
{
    struct log_set *set;
    struct head head;
    struct batch *b;
    struct logs l;

    set_clock(1000000000);
    logs_open(&l, tempdir_path(state), 100);
    set = logs_set(&l, "a");
    assert_int_equal(logs_post(&l, set, 1, 1, NULL, NULL), 0); /* now + 1 */
    set_clock(2000000000);
    assert_int_equal(logs_post_at(&l, set, 2, 1, 1500000000), 0); /* kept */
    assert_int_equal(logs_post_at(&l, set, 3, 1, 1400000000), 0); /* too old */
    assert_int_equal(logs_post_at(&l, set, 4, 1, 3000000000), 0); /* too new */
    set_clock(1);                                                 /* set back */

    assert_int_equal(logs_post(&l, set, 5, 2, NULL, NULL), 0);

    assert_int_equal(log_read(l.log, set, 0, LOG_MEMORY, &b, NULL), 0);
    batch_unref(b);
    log_head(set, &head);
    assert_int_equal(head.last_us, 2000000003);
    assert_int_equal(log_read(l.log, set, 1, LOG_MEMORY, &b, NULL), 0);
    assert_int_equal(batch_time(b, 2), 1500000000);
    batch_unref(b);
    assert_int_equal(log_read(l.log, set, 2, LOG_MEMORY, &b, NULL), 0);
    assert_int_equal(batch_time(b, 3), 2000000000);
    assert_non_null(
        memmem(b->bytes, b->size, SOURCE_TIME, sizeof(SOURCE_TIME) - 1));
    batch_unref(b);
    logs_close(&l);
}

/* on demand; an empty list is not closed. */
TEST(closes_the_open_list_on_demand_unless_it_is_empty)
{
    struct log_set *set;
    struct head head;
    struct logs l;

    logs_open(&l, tempdir_path(state), 100);
    set = logs_set(&l, "a");
    assert_int_equal(logs_close_list(&l, set), 0);
    assert_false(log_head(set, &head));
    assert_int_equal(logs_post(&l, set, 1, 2, NULL, NULL), 0);
    assert_int_equal(logs_close_list(&l, set), 1);
    assert_int_equal(logs_close_list(&l, set), 0);
    log_head(set, &head);
    assert_int_equal(head.list, 2);
    assert_int_equal(head.last, 2);
    assert_int_equal(l.n_closed, 1);
    logs_close(&l);
}

/* a list ends before its bytes, largest header and footer
 * counted, pass the limit. */
TEST(closes_a_list_before_it_has_too_many_bytes)
{
    struct list_info info[64];
    struct log_set *set;
    struct logs l;
    size_t n = 64;

    logs_open(&l, tempdir_path(state), 50000);
    logs_close(&l);
    memset(&l, 0, sizeof(l));
    logs_open(&l, tempdir_path(state), 50000);
    logs_close(&l);
    l.options.limits.bytes = 600000;
    assert_int_equal(log_open(&l.log, &l.options, NULL), STATUS_OK);
    set = logs_set(&l, "a");
    for (unsigned i = 0; i < 10; i++)
        assert_int_equal(logs_post(&l, set, i * 1000, 1000, NULL, NULL), 0);
    assert_int_equal(log_lists(l.log, set, 1, info, &n, NULL), 0);
    assert_true(n >= 2);
    for (size_t i = 0; i < n; i++) {
        assert_true(info[i].bytes + DOCUMENT_FRAME_MAX <= 600000);
        assert_true(info[i].bytes + DOCUMENT_FRAME_MAX > 599000);
    }
    logs_close(&l);
}

/* Design section 4: one broker per directory. */
TEST(refuses_a_directory_that_another_log_has)
{
    struct problem why = {""};
    struct log *other;
    struct logs l;

    logs_open(&l, tempdir_path(state), 10);
    assert_int_equal(log_open(&other, &l.options, &why), STATUS_BUSY);
    assert_non_null(strstr(why.text, "in use"));
    logs_close(&l);
}

struct counter {
    struct watch watch;
    struct log_set *set;
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
    struct counter c = {{.wake = count_wake}, NULL, 0};
    struct logs l;

    logs_open(&l, tempdir_path(state), 10);
    c.set = logs_set(&l, "a");
    cursor_watch(c.set, &c.watch);
    assert_int_equal(logs_post(&l, c.set, 1, 1, NULL, NULL), 0);
    assert_int_equal(logs_post(&l, c.set, 2, 1, NULL, NULL), 0);
    cursor_unwatch(c.set, &c.watch);
    assert_int_equal(logs_post(&l, c.set, 3, 1, NULL, NULL), 0);
    assert_int_equal(c.wakes, 2);
    logs_close(&l);
}

/* Design rule 8: memory is bounded by settings; what does not fit is read back.
 */
TEST(keeps_the_tail_within_its_bytes)
{
    struct buf all;
    struct log_set *set;
    struct batch *b;
    struct logs l;

    buf_init(&all, SIZE_MAX);
    logs_open(&l, tempdir_path(state), 50000);
    logs_close(&l);
    l.options.tail_bytes = 100000;
    assert_int_equal(log_open(&l.log, &l.options, NULL), STATUS_OK);
    set = logs_set(&l, "a");
    for (unsigned i = 0; i < 100; i++)
        assert_int_equal(logs_post(&l, set, i * 100, 100, NULL, NULL), 0);
    assert_int_equal(log_read(l.log, set, 0, LOG_MEMORY, &b, NULL),
                     STATUS_AGAIN);
    assert_int_equal(log_read(l.log, set, 9950, LOG_MEMORY, &b, NULL),
                     STATUS_OK);
    batch_unref(b);
    assert_int_equal(logs_read_all(&l, set, 0, &all), 10000);
    logs_close(&l);
    buf_fini(&all);
}

/* log.md: rows go once a list's file is there, and the file answers from then
 * on. */
TEST(forgets_the_rows_of_filed_lists)
{
    char path[400];
    struct buf all;
    struct log_set *set;
    struct logs l;

    buf_init(&all, SIZE_MAX);
    logs_open(&l, tempdir_path(state), 1000);
    set = logs_set(&l, "a");
    assert_int_equal(logs_post(&l, set, 1, 3500, NULL, NULL), 0);
    logs_file_all(&l);
    logs_close(&l); /* the log thread has paid its debts only if it had time */
    logs_open(&l, tempdir_path(state), 1000);
    set = logs_set(&l, "a");
    for (unsigned i = 0; i < 20; i++) /* each commit forgets a slice */
        assert_int_equal(logs_post(&l, set, 1, 1, NULL, NULL), 0);
    logs_close(&l);

    snprintf(path, sizeof(path), "%s/sets/a/changes/000000000002.xml.gz",
             tempdir_path(state));
    assert_int_equal(unlink(path), 0);
    logs_open(&l, tempdir_path(state), 1000);
    set = logs_set(&l, "a");
    {
        struct problem why = {""};
        struct batch *b;

        assert_int_equal(log_read(l.log, set, 1500, LOG_DISK, &b, &why),
                         STATUS_IO);
        assert_non_null(strstr(why.text, "000000000002.xml.gz"));
    }
    assert_int_equal(logs_read_all(&l, set, 2000, &all), 3520);
    logs_close(&l);
    buf_fini(&all);
}
